"""PackedSequences: every token once, in full rows, and the same rows whoever makes them."""

from __future__ import annotations

import copy
import json
import pickle

import millrace
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace import DataLoader, samplers
from millrace.datasets import PackedSequences, cu_seqlens, document_mask, document_mask_mod
from packed_cases import DOCS, LENGTHS, flat, rows_of
from packing_data import check_rows, documents, layouts, pieces_of


def same(left, right):
    assert list(left) == list(right)
    for name in left:
        assert torch.equal(torch.as_tensor(left[name]), torch.as_tensor(right[name])), name
        assert torch.as_tensor(left[name]).dtype is torch.as_tensor(right[name]).dtype, name


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(0, 60), max_size=50),
    length=st.integers(1, 40),
    layout=layouts,
    epoch=st.integers(0, 3),
    dtype=st.sampled_from(["uint16", "int16", "uint32", "int32", "uint64", "int64"]),
)
def test_every_token_once(lengths, length, layout, epoch, dtype):
    docs = documents(lengths, dtype)
    dataset = PackedSequences(docs, length, document_ids=True, **layout)
    packs = len(dataset)
    dataset.set_epoch(epoch)
    assert len(dataset) == packs, "the number of rows does not depend on the epoch"
    rows = rows_of(dataset)
    check_rows(rows, docs, layout["separator"], layout["targets"], layout["max_documents_per_pack"])
    tokens = sum(int((row["document_ids"] >= 0).sum()) for row in rows)
    assert dataset.report()["tokens"] == tokens
    assert dataset.efficiency == (tokens / (packs * length) if packs else 1.0)
    for index, row in enumerate(rows):
        assert [tokens for _, _, tokens in dataset.packed(index)] == [
            p.stop - p.start for p in pieces_of(row)
        ]


@pytest.mark.parametrize("strategy, least", [("best_fit", 0.99), ("first_fit", 0.96), ("concat", 0.99)])
def test_rows_are_full(strategy, least):
    dataset = PackedSequences(DOCS * 5, 256, strategy)
    assert dataset.efficiency >= least
    assert dataset.report()["fill"] == dataset.efficiency
    assert str(dataset).startswith(f"PackedSequences({len(dataset)} packs of 256 tokens, ")


def test_what_is_too_long():
    docs = documents([5, 30, 10])
    assert PackedSequences(docs, 10).report() | {"fill": 0} == {
        "documents": 3,
        "empty": 0,
        "skipped": 0,
        "cut": 0,
        "cut_tokens": 0,
        "split": 1,
        "tokens": 45,
        "pieces": 5,
        "packs": 5,
        "fill": 0,
    }
    cut = PackedSequences(docs, 10, too_long="cut", seed=None)
    assert (cut.report()["cut"], cut.report()["cut_tokens"], cut.report()["tokens"]) == (1, 20, 25)
    row = next(row for row in rows_of(cut) if row["input_ids"][0] == docs[1][0])
    assert row["labels"][-1] == docs[1][10], "the token that follows, though it was cut off"
    skipped = PackedSequences(docs, 10, too_long="skip")
    assert (skipped.report()["skipped"], skipped.report()["documents"]) == (1, 2)
    with pytest.raises(ValueError, match=r"documents: document 1 takes 30 tokens, more than length=10"):
        PackedSequences(docs, 10, too_long="raise")
    with pytest.raises(ValueError, match="document 2 takes 11 tokens"):
        PackedSequences(documents([5, 3, 10]), 10, separator=0, too_long="raise")
    assert len(PackedSequences(docs, 30, too_long="raise")) == 2


def test_epochs():
    dataset = PackedSequences(DOCS, 64, seed=3)
    first = [row["input_ids"].tolist() for row in rows_of(dataset)]
    dataset.set_epoch(1)
    second = [row["input_ids"].tolist() for row in rows_of(dataset)]
    assert first != second and sorted(sum(first, [])) == sorted(sum(second, []))
    company = [{tuple(sorted(d for d, _, _ in dataset.packed(i))) for i in range(len(dataset))}]
    dataset.set_epoch(0)
    company.append({tuple(sorted(d for d, _, _ in dataset.packed(i))) for i in range(len(dataset))})
    assert len(company[0] & company[1]) < len(dataset) // 2, "documents meet others"
    assert [row["input_ids"].tolist() for row in rows_of(dataset)] == first
    assert [row["input_ids"].tolist() for row in rows_of(PackedSequences(DOCS, 64, seed=3))] == first
    assert [row["input_ids"].tolist() for row in rows_of(PackedSequences(DOCS, 64, seed=4))] != first
    still = PackedSequences(DOCS, 64, "concat", seed=None)
    joined = torch.cat([row["input_ids"] for row in rows_of(still)])[: sum(LENGTHS)]
    assert joined.tolist() == np.concatenate(DOCS).tolist(), "documents in their order"


class Holder:
    def __init__(self, docs):
        self.tokens, self.offsets = flat(docs)


class Files:
    """As millrace.datasets.Tokens: several arrays."""

    def __init__(self, docs, parts=3):
        self.parts = [docs[i::parts] for i in range(parts)]

    def documents(self):
        arrays = [flat(part) for part in self.parts]
        return [tokens for tokens, _ in arrays], [offsets for _, offsets in arrays]


def test_forms_of_documents(tmp_path):
    tokens, offsets = flat(DOCS)
    tokens.tofile(tmp_path / "tokens.bin")
    mapped = np.memmap(tmp_path / "tokens.bin", tokens.dtype, "r")
    expected = rows_of(PackedSequences(DOCS, 128))
    big_endian = [doc.astype(">i4") for doc in DOCS]
    forms = [
        (tokens, offsets),
        (mapped, offsets),
        (torch.from_numpy(tokens.astype("int64")), torch.from_numpy(offsets)),
        Holder(DOCS),
        [doc.tolist() for doc in DOCS],
        [torch.from_numpy(doc.astype("int32")) for doc in DOCS],
        big_endian,
        (tokens, offsets.astype("int32")),
    ]
    for form in forms:
        for row, other in zip(rows_of(PackedSequences(form, 128)), expected, strict=True):
            same(row, other)
    files = Files(DOCS)
    shuffled = PackedSequences([doc for part in files.parts for doc in part], 128)
    for row, other in zip(rows_of(PackedSequences(files, 128)), rows_of(shuffled), strict=True):
        same(row, other)


def test_columns_of_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    array = pyarrow.array([doc.tolist() for doc in DOCS], pyarrow.list_(pyarrow.int32()))
    expected = rows_of(PackedSequences(DOCS, 128))
    for column in (
        array,
        array.cast(pyarrow.large_list(pyarrow.int64())),
        pyarrow.chunked_array([array[:100], array[100:]]),
    ):
        for row, other in zip(rows_of(PackedSequences(column, 128)), expected, strict=True):
            same(row, other)
    for row, other in zip(
        rows_of(PackedSequences(array[7:50], 128)), rows_of(PackedSequences(DOCS[7:50], 128)), strict=True
    ):
        same(row, other)
    with pytest.raises(ValueError, match="Arrow chunk 0 is float64; tokens|Arrow chunk 0 is float64 of 1"):
        PackedSequences(pyarrow.array([[1, None], [2]]), 8)
    with pytest.raises(ValueError, match="Arrow chunk 0 is int64; documents should be lists of integers"):
        PackedSequences(pyarrow.chunked_array([[1, 2]]), 8)
    assert PackedSequences(pyarrow.array([[1], None, [2]]), 8).report()["empty"] == 1


def test_fields():
    assert list(PackedSequences(DOCS, 64)[0]) == ["input_ids", "labels", "position_ids"]
    assert list(PackedSequences(DOCS, 64, targets=None, position_ids=False, document_ids=True)[0]) == [
        "input_ids",
        "document_ids",
    ]
    crossing = PackedSequences(DOCS, 64, "concat", seed=None, cross_document_loss=True)
    ids, labels = (
        torch.stack([row[name] for row in rows_of(crossing)[:-1]]) for name in ("input_ids", "labels")
    )
    assert torch.equal(ids[:, 1:], labels[:, :-1]) and (labels[:, -1] == -100).all()
    padded = PackedSequences(documents([3]), 5, pad_id=9, ignore_index=-1)[0]
    assert padded["input_ids"].tolist() == [100, 101, 102, 9, 9] and padded["labels"].tolist() == [
        101,
        102,
        -1,
        -1,
        -1,
    ]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("collate", [False, True])
def test_batches_are_those_of_torch(workers, collate):
    dataset = PackedSequences(DOCS, 64, separator=1, document_ids=True)
    options = {"collate_fn": dataset.collate} if collate else {}
    expected = list(torch.utils.data.DataLoader(dataset, 7, **options))
    loader = DataLoader(dataset, 7, num_workers=workers, native="require", **options)
    for epoch in range(2):
        for batch, other in zip(loader, expected, strict=True):
            same(batch, other)
    assert loader.stats()["engine"] == ("threads" if workers else "inline")


def test_worker_processes_and_pickles(tmp_path):
    tokens, offsets = flat(DOCS)
    tokens.tofile(tmp_path / "tokens.bin")
    dataset = PackedSequences((np.memmap(tmp_path / "tokens.bin", tokens.dtype, "r"), offsets), 64)
    dataset.set_epoch(2)
    for other in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert len(pickle.dumps(dataset)) < 8 * len(offsets) + 4000, "a mapped file travels by name"
        assert other.epoch == 2
        for index in range(len(dataset)):
            same(dataset[index], other[index])
    loader = torch.utils.data.DataLoader(dataset, 5, num_workers=2)
    for batch, other in zip(DataLoader(dataset, 5, num_workers=2), loader, strict=True):
        same(batch, other)


def test_the_epoch_of_a_batch_is_that_of_its_turn():
    dataset = PackedSequences(DOCS, 64)
    loader = DataLoader(dataset, 4, num_workers=2, persistent_workers=True)
    for epoch in range(3):
        dataset.set_epoch(epoch)
        expected = [dataset[i]["input_ids"].tolist() for i in range(len(dataset))]
        assert [row for batch in loader for row in batch["input_ids"].tolist()] == expected


def test_for_flash_attention():
    dataset = PackedSequences(DOCS, 64)
    batch = next(iter(DataLoader(dataset, 3, collate_fn=dataset.collate)))
    begins, longest = batch["cu_seqlens"], batch["max_seqlen"]
    assert begins.dtype is torch.int32 and begins[0] == 0 and begins[-1] == 3 * 64
    assert longest == int(begins.diff().max())
    flat_positions = batch["position_ids"].flatten()
    for begin, end in zip(begins.tolist(), begins[1:].tolist()):
        assert flat_positions[begin:end].tolist() == list(range(end - begin))
    with pytest.raises(ValueError, match="position_ids=True"):
        bare = PackedSequences(DOCS, 64, position_ids=False)
        next(iter(DataLoader(bare, 3, collate_fn=bare.collate)))
    assert cu_seqlens(torch.tensor([], dtype=torch.int64))[1] == 0


def test_masks():
    ids = torch.tensor([[0, 0, 1, 1, 1, -1, -1], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.int32)
    mask = document_mask(ids)
    assert mask.shape == (2, 1, 7, 7) and mask.dtype is torch.bool
    expected = torch.zeros(7, 7, dtype=torch.bool)
    for begin, end in ((0, 2), (2, 5), (5, 7)):
        expected[begin:end, begin:end] = torch.ones(end - begin, end - begin).tril() > 0
    assert torch.equal(mask[0, 0], expected) and torch.equal(mask[1, 0], torch.ones(7, 7).tril() > 0)
    assert torch.equal(document_mask(ids[0]), expected)
    modded = document_mask_mod(ids)
    for b in range(2):
        for q in range(7):
            for k in range(7):
                assert bool(
                    modded(torch.tensor(b), torch.tensor(0), torch.tensor(q), torch.tensor(k))
                ) == bool(mask[b, 0, q, k])


def test_attention_within_packs_is_attention_of_documents():
    """What a model sees of a document does not depend on its company."""
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(60000, 16).requires_grad_(False)
    dataset = PackedSequences(documents([9, 20, 14]), 48, document_ids=True)
    row = dataset[0]
    x = embedding(row["input_ids"])[None, None]
    mixed = torch.nn.functional.scaled_dot_product_attention(
        x, x, x, attn_mask=document_mask(row["document_ids"][None])
    )[0, 0]
    for piece in pieces_of(row):
        own = x[:, :, piece]
        alone = torch.nn.functional.scaled_dot_product_attention(own, own, own, is_causal=True)[0, 0]
        torch.testing.assert_close(mixed[piece], alone)
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    length = len(row["document_ids"])
    block = create_block_mask(
        document_mask_mod(row["document_ids"][None]), 1, None, length, length, device="cpu"
    )
    torch.testing.assert_close(flex_attention(x, x, x, block_mask=block)[0, 0], mixed)


_kinds = {
    "permutation": lambda dataset, **ranks: samplers.PermutationSampler(len(dataset), seed=3, **ranks),
    "torch's": lambda dataset, **ranks: torch.utils.data.DistributedSampler(dataset, seed=5, **ranks),
    "buffer": lambda dataset, **ranks: samplers.ShuffleBuffer(9, seed=1)(
        samplers.PermutationSampler(len(dataset), seed=2, **ranks)
    ),
}


@pytest.mark.parametrize("kind", _kinds)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    epoch=st.integers(0, 3),
    before=st.tuples(st.integers(1, 3), st.integers(1, 5), st.sampled_from([0, 2])),
    cut=st.integers(0, 12),
    after=st.tuples(st.integers(1, 3), st.integers(1, 5), st.sampled_from([0, 2])),
)
def test_runs_that_are_cut_and_go_on_elsewhere(kind, epoch, before, cut, after):
    """As test_elastic.py: other ranks, batch sizes and threads read what was left of the order."""
    dataset = PackedSequences(DOCS, 128, seed=1)
    dataset.set_epoch(epoch)
    first_tokens = [int(dataset[i]["input_ids"][0]) for i in range(len(dataset))]

    def loaders(ranks, batch_size, workers):
        made = []
        for rank in range(ranks):
            sampler = _kinds[kind](dataset, num_replicas=ranks, rank=rank)
            sampler.set_epoch(epoch)
            made.append(DataLoader(dataset, batch_size, sampler=sampler, num_workers=workers))
        return made

    def read(loader, most=None):
        return [
            int(row[0])
            for i, batch in enumerate(loader)
            if most is None or i < most
            for row in batch["input_ids"]
        ]

    order = read(loaders(1, 1, 0)[0])
    assert sorted(order) == sorted(first_tokens)
    run = loaders(*before)
    cut = min(cut, len(run[0]))
    for loader in run:
        iterator = iter(loader)
        for _ in range(cut):
            next(iterator)
        loader.cut = loader.state_dict()
    merged = json.loads(json.dumps(millrace.merge_states([loader.cut for loader in run])))
    second = loaders(*after)
    for loader in second:
        loader.load_state_dict(merged)
    parts = [read(loader) for loader in second]
    left = order[before[0] * min(cut * before[1], len(run[0].sampler)) :]
    together = [token for step in zip(*parts) for token in step]
    assert together[: len(left)] == left and 0 <= len(together) - len(left) < after[0]
