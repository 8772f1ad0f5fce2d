"""Tokenized: the tokenizer's own ids, in any loader; padded, grouped by length, packed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from millrace import DataLoader, Pad
from millrace.datasets import PackedSequences, PackedStream, Tokenized, WebDataset
from millrace.samplers import LengthGroupedSampler
from packing_data import stdlib_texts
from shard_data import write_tar
from torch.utils.data import Dataset, Subset

tokenizers = pytest.importorskip("tokenizers")

TEXTS = [paragraph for text in stdlib_texts(30) for paragraph in text.split("\n\n")[:8]][:160] + [""]
DICTS = [{"text": text, "label": i, "name": f"n{i}"} for i, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def tokenizer():
    """A small BPE, with a beginning, an end and a padding token."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1500,
        special_tokens=["[UNK]", "[BOS]", "[EOS]", "[PAD]"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator(TEXTS, trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 1), ("[EOS]", 2)]
    )
    return made


class Slow(Dataset):
    """Somebody's Python dataset."""

    def __len__(self):
        return len(DICTS)

    def __getitem__(self, index):
        return DICTS[index]


def same(left, right):
    assert set(left) == set(right)
    for name in left:
        if isinstance(left[name], torch.Tensor):
            assert left[name].dtype is right[name].dtype and torch.equal(left[name], right[name]), name
        else:
            assert left[name] == right[name]


@pytest.mark.parametrize("max_length", [None, 12])
@pytest.mark.parametrize("special_tokens", [True, False])
def test_ids_are_the_tokenizers(tokenizer, max_length, special_tokens):
    own = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    if max_length:
        own.enable_truncation(max_length)
    dataset = Tokenized(TEXTS, tokenizer, max_length=max_length, special_tokens=special_tokens)
    expected = [own.encode(text, add_special_tokens=special_tokens).ids for text in TEXTS]
    assert [sample["input_ids"].tolist() for sample in dataset] == expected
    assert dataset.lengths().tolist() == list(map(len, expected)) and dataset.lengths() is dataset.lengths()
    assert tokenizer.truncation is None and tokenizer.padding is None, "the user's tokenizer stays as it is"
    if max_length is None and not special_tokens:
        assert [tokenizer.decode(ids) for ids in expected] == TEXTS


def test_forms_of_datasets(tokenizer):
    ids = [encoding.ids for encoding in tokenizer.encode_batch(TEXTS)]
    assert list(Tokenized(TEXTS, tokenizer)[3]) == ["input_ids"]
    sample = Tokenized(DICTS, tokenizer)[3]
    assert {**sample, "input_ids": sample["input_ids"].tolist()} == {
        "label": 3,
        "name": "n3",
        "input_ids": ids[3],
    }
    assert Tokenized(DICTS, tokenizer, keep_text=True)[3]["text"] == TEXTS[3]
    pair = Tokenized([(i, text) for i, text in enumerate(TEXTS)], tokenizer, field=1)[-1]
    assert type(pair) is tuple and pair[0] == len(TEXTS) - 1 and pair[1].tolist() == ids[-1]
    assert (
        Tokenized([{"body": "x"}], tokenizer, field="body")[0]["input_ids"].tolist()
        == tokenizer.encode("x").ids
    )
    assert Tokenized(Slow(), tokenizer)[5]["input_ids"].tolist() == ids[5]
    hugging = pytest.importorskip("datasets").Dataset.from_list(DICTS)
    assert Tokenized(hugging, tokenizer)[5]["input_ids"].tolist() == ids[5]


def test_tokenizers_of_all_kinds(tokenizer):
    expected = [encoding.ids for encoding in tokenizer.encode_batch(TEXTS)]

    class Encodes:
        def encode(self, text):
            return np.array(tokenizer.encode(text).ids)

    functions = [
        lambda text: tokenizer.encode(text).ids,
        tokenizer.encode,
        Encodes(),
        lambda text: {"input_ids": tokenizer.encode(text).ids},
    ]
    for function in functions:
        assert [sample["input_ids"].tolist() for sample in Tokenized(TEXTS, function)] == expected
    assert Tokenized(TEXTS, functions[0], max_length=5)[0]["input_ids"].tolist() == expected[0][:5]
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]")
    fast(
        ["some text"], max_length=2, truncation=True, padding="max_length"
    )  # leaves its mark on the tokenizer behind it
    dataset = Tokenized(TEXTS, fast, max_length=9)
    assert [sample["input_ids"].tolist() for sample in dataset] == fast(TEXTS, max_length=9, truncation=True)[
        "input_ids"
    ]
    assert dataset.pad_id == fast.pad_token_id == 3


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("base", ["strings", "dicts", "subset", "python", "tuples"])
def test_batches_are_those_of_torch(tokenizer, workers, base):
    data = {
        "strings": TEXTS,
        "dicts": DICTS,
        "subset": Subset(DICTS, range(3, 50)),
        "python": Slow(),
        "tuples": [(text, i) for i, text in enumerate(TEXTS)],
    }[base]
    field = 0 if base == "tuples" else "text"
    padded = Tokenized(data, tokenizer, field, max_length=16, padding="max_length")
    ragged = Tokenized(data, tokenizer, field, max_length=40)
    for dataset, options in [
        (padded, {}),
        (padded, {"collate_fn": Pad({0: 3} if base == "tuples" else {"input_ids": 3}, to=20)}),
        (
            ragged,
            {"collate_fn": Pad({0: -1}, multiple_of=8) if base == "tuples" else ragged.pad(multiple_of=8)},
        ),
        (
            Subset(ragged, [5, 1, 7, 30]),
            {"collate_fn": Pad({0: 3} if base == "tuples" else {"input_ids": 3})},
        ),
    ]:
        expected = list(torch.utils.data.DataLoader(dataset, 6, **options))
        loader = DataLoader(
            dataset, 6, num_workers=workers, native="auto" if base == "python" else "require", **options
        )
        for batch, other in zip(loader, expected, strict=True):
            if base == "tuples":
                assert all(torch.equal(*pair) for pair in zip(batch, other, strict=True))
            else:
                same(batch, other)
        assert loader.stats()["engine"] == (
            ("processes" if base == "python" else "threads") if workers else "inline"
        )
    if base != "tuples":
        batch = next(iter(DataLoader(padded, 6)))
        assert torch.equal(batch["attention_mask"] == 0, batch["input_ids"] == 3)


def test_why_not_natively(tokenizer):
    text = str(DataLoader(Tokenized(Slow(), tokenizer), 4).explain())
    assert "dataset: python — Slow is Python code, which runs in worker processes" in text
    text = str(DataLoader(Tokenized(DICTS, tokenizer), 4, collate_fn=Pad({"input_ids": 0})).explain())
    assert "collate_fn: native" in text


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_by_a_budget_of_tokens(tokenizer, workers):
    dataset = Tokenized(DICTS, tokenizer, max_length=64)
    sampler = LengthGroupedSampler(dataset.lengths(), max_tokens=512, seed=1, num_replicas=1, rank=0)
    loader = DataLoader(
        dataset, batch_sampler=sampler, num_workers=workers, collate_fn=dataset.pad(), native="require"
    )
    labels, filled, total = [], 0, 0
    for batch in loader:
        assert batch["input_ids"].numel() <= 512
        assert torch.equal(
            batch["attention_mask"].sum(1), torch.from_numpy(dataset.lengths()[batch["label"].numpy()])
        )
        filled, total = filled + int(batch["attention_mask"].sum()), total + batch["input_ids"].numel()
        labels += batch["label"].tolist()
    assert sorted(labels) == list(range(len(DICTS)))
    assert filled / total > 0.9

    def again():
        same_order = LengthGroupedSampler(dataset.lengths(), max_tokens=512, seed=1, num_replicas=1, rank=0)
        return DataLoader(dataset, batch_sampler=same_order, num_workers=workers, collate_fn=dataset.pad())

    first, second = again(), again()
    iterator = iter(first)
    given = [label for _ in range(3) for label in next(iterator)["label"].tolist()]
    second.load_state_dict(first.state_dict())
    assert given + [label for batch in second for label in batch["label"].tolist()] == labels


def test_packed(tokenizer):
    """Texts to rows without padding."""
    dataset = Tokenized(TEXTS, tokenizer, special_tokens=False)
    packed = PackedSequences([sample["input_ids"] for sample in dataset], 128, separator=2)
    batches = list(DataLoader(packed, 4))
    tokens = torch.cat([batch["input_ids"].flatten() for batch in batches])
    assert int((tokens == 2).sum()) == sum(n > 0 for n in dataset.lengths())
    assert packed.efficiency > 0.97
    rows = list(PackedStream(dataset, 128, separator=2, field="input_ids"))
    assert sum(int((row["labels"] != -100).sum()) for row in rows) == dataset.lengths().sum()


@pytest.mark.parametrize("workers", [0, 2])
def test_in_streams(tokenizer, tmp_path, workers):
    write_tar(tmp_path / "t.tar", [(f"{i}.txt", text.encode()) for i, text in enumerate(TEXTS)])
    stream = (
        WebDataset(str(tmp_path / "t.tar"))
        .decode()
        .map(lambda sample: {"input_ids": tokenizer.encode(sample["txt"]).ids})
    )
    loader = DataLoader(
        stream, 8, num_workers=workers, collate_fn=Pad({"input_ids": 3}, mask="attention_mask")
    )
    ids = [
        row[mask > 0].tolist()
        for batch in loader
        for row, mask in zip(batch["input_ids"], batch["attention_mask"])
    ]
    assert sorted(ids) == sorted(encoding.ids for encoding in tokenizer.encode_batch(TEXTS))
    rows = list(PackedStream(stream, 100, field="input_ids"))
    assert sum(int((row["labels"] != -100).sum()) for row in rows) == sum(len(each) - 1 for each in ids)


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_input(tokenizer, workers):
    def read(data, **options):
        list(DataLoader(Tokenized(data, tokenizer, **options), 4, num_workers=workers))

    for data, options, message in [
        (
            [*DICTS[:5], {"text": 7, "label": 5, "name": ""}],
            {"max_length": 4, "padding": "max_length"},
            "sample 5: field 'text' is int, not text",
        ),
        ([{"text": None}], {}, "sample 0: field 'text' is NoneType"),
        ([{"body": "x"}], {}, "sample 0 has 'body', and no field 'text'; name the text's field"),
        ([3], {}, "sample 0 is a int, and no field 'text'"),
        (
            ["a b c d e f g"],
            {"max_length": 2, "truncation": False},
            "sample 0 has .* tokens, more than max_length=2",
        ),
        (
            ["a", "a b c"],
            {},
            "samples of a batch have .* tokens and cannot be stacked: give the loader collate_fn=dataset.pad",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            read(data, **options)


def test_bad_arguments(tokenizer):
    for data, options, message in [
        ("text", {}, "dataset is a str; give a map-style dataset or a list of texts"),
        (iter(TEXTS), {}, "A stream is tokenized by its map"),
        (TEXTS, {"padding": "longest"}, "To the longest of a batch: collate_fn=dataset.pad"),
        (TEXTS, {"padding": "max_length"}, "needs max_length"),
        (TEXTS, {"max_length": 0}, "max_length should be"),
    ]:
        with pytest.raises(ValueError, match=message):
            Tokenized(data, tokenizer, **options)
    with pytest.raises(ValueError, match="tokenizer is a int"):
        Tokenized(TEXTS, 3)
    with pytest.raises(ValueError, match="no padding token: give pad_id="):
        Tokenized(TEXTS, lambda text: [1], max_length=3, padding="max_length")
    with pytest.raises(ValueError, match="it should give a list of ints"):
        Tokenized(TEXTS, lambda text: ["a"])[0]
    assert Tokenized([""], lambda text: [])[0]["input_ids"].tolist() == []


def test_pickles(tokenizer):
    dataset = Tokenized(DICTS, tokenizer, max_length=30)
    lengths = dataset.lengths()
    other = pickle.loads(pickle.dumps(dataset))
    assert other.lengths().tolist() == lengths.tolist()
    same(other[4], dataset[4])


def test_no_threads_of_the_tokenizers_and_no_warnings():
    """Batches in threads, then forked workers: the tokenizers library has nothing to warn of."""
    script = """
import os, tokenizers, torch
from millrace import DataLoader, Pad
from millrace.datasets import Tokenized
t = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
t.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
data = Tokenized(["a b"] * 64, t)
loader = DataLoader(data, 8, num_workers=2, native="require")
print(len(list(loader)), len(torch.utils.data.DataLoader(data, 8)))
theirs = torch.utils.data.DataLoader(data, 8, num_workers=2)
print(sum(len(b["input_ids"]) for b in theirs), os.environ["TOKENIZERS_PARALLELISM"])
"""
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["8", "8", "64", "false"]
    assert "fork" not in result.stderr
