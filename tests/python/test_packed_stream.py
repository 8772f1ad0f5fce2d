"""PackedStream: as full as PackedSequences, and resumed at any sample."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_data import advanced, going_on
from millrace import DataLoader
from millrace.datasets import PackedStream, WebDataset
from packing_data import check_rows, documents, layouts
from shard_data import write_tar
from torch.utils.data import IterableDataset

DOCS = documents(np.random.default_rng(2).lognormal(2.5, 1.0, 300).astype(int).tolist())


class Counter(IterableDataset):
    """A source that says where it stands."""

    def __init__(self, docs, stateful=True):
        self.docs, self.at = docs, 0
        self.reads = 0
        if not stateful:
            self.state_dict = self.load_state_dict = None

    def __iter__(self):
        start, self.pending = getattr(self, "pending", 0), 0
        for self.at in range(start, len(self.docs)):
            self.at += 1
            self.reads += 1
            yield self.docs[self.at - 1]
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.pending = self.at = state["at"]


def plain(rows):
    return [{name: value.tolist() for name, value in row.items()} for row in rows]


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(0, 60), max_size=50),
    length=st.integers(1, 40),
    layout=layouts,
    too_long=st.sampled_from(["split", "cut"]),
)
def test_every_token_once(lengths, length, layout, too_long):
    docs = documents(lengths, "int64")
    stream = PackedStream(docs, length, document_ids=True, too_long=too_long, **layout)
    rows = list(stream)
    if too_long == "split":
        check_rows(rows, docs, layout["separator"], layout["targets"], layout["max_documents_per_pack"])
    else:
        most = length
        kept = sorted(token for doc in docs for token in doc.tolist()[:most])
        seen = sorted(token for row in rows for token in row["input_ids"].tolist() if token >= 100)
        assert seen == kept
    assert plain(rows) == plain(stream), "the next pass is the same"


@pytest.mark.parametrize("strategy", ["best_fit", "concat"])
def test_rows_are_full(strategy):
    rows = list(PackedStream(DOCS * 3, 128, strategy, window=100))
    filled = sum(int((row["input_ids"] > 0).sum()) for row in rows)
    assert filled == 3 * sum(map(len, DOCS))
    assert filled / (128 * len(rows)) > 0.98


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    layout=layouts,
    cut=st.integers(0, 60),
    source=st.sampled_from(["list", "stateful", "stateless"]),
    length=st.integers(5, 64),
)
def test_resumed_at_any_sample(layout, cut, source, length):
    docs = DOCS[:120]

    def stream():
        made = docs if source == "list" else Counter(docs, source == "stateful")
        return PackedStream(made, length, **layout)

    whole = plain(stream())
    first = stream()
    iterator = iter(first)
    given = [next(iterator) for _ in range(min(cut, len(whole)))]
    state = json.loads(json.dumps(first.state_dict()))
    second = going_on(stream(), state)
    assert second.state_dict() == state
    rest = plain(second)
    assert plain(given) + rest == whole
    assert plain(second) == whole, "the pass after it is a whole one"
    if source == "stateful" and cut > 20:
        assert sum(len(each["carried"]) for each in [state]) <= length + 1


def test_a_state_behind_the_last_sample_is_the_next_pass():
    stream = PackedStream(Counter(DOCS), 64)
    whole = plain(stream)
    other = going_on(PackedStream(Counter(DOCS), 64), stream.state_dict())
    assert plain(other) == whole


def test_only_what_the_window_holds_is_read_again():
    first = PackedStream(Counter(DOCS), 64, window=20)
    _held = advanced(first, 40)
    source = Counter(DOCS)
    second = going_on(PackedStream(source, 64, window=20), first.state_dict())
    next(iter(second))
    assert source.reads == 20


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("cut", [0, 1, 5])
def test_loaders(workers, cut):
    def loader():
        return DataLoader(PackedStream(DOCS, 64, window=40), 4, num_workers=workers)

    whole = [batch["input_ids"].tolist() for batch in loader()]
    tokens = sorted(t for batch in whole for row in batch for t in row if t)
    assert tokens == sorted(np.concatenate(DOCS).tolist()), "workers share a list"
    first = loader()
    iterator = iter(first)
    given = [next(iterator)["input_ids"].tolist() for _ in range(cut)]
    second = going_on(loader(), first.state_dict())
    assert given + [batch["input_ids"].tolist() for batch in second] == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_over_a_webdataset(tmp_path, workers):
    texts = [f"document {i} " + "word " * (i * 7 % 23) for i in range(90)]
    for shard in range(3):
        write_tar(
            tmp_path / f"{shard}.tar",
            [(f"{i}.txt", text.encode()) for i, text in enumerate(texts) if i % 3 == shard],
        )

    def loader():
        source = WebDataset(str(tmp_path / "{0..2}.tar"), shardshuffle=True, seed=1).shuffle(10).decode()
        source = source.map(lambda sample: list(sample["txt"].encode()))
        return DataLoader(PackedStream(source, 64, separator=1, window=16), 4, num_workers=workers)

    whole = [batch["input_ids"].tolist() for batch in loader()]
    joined = bytes(t for batch in whole for row in batch for t in row if t > 1)
    assert sorted(joined) == sorted("".join(texts).encode())
    for cut in (1, 4):
        first = loader()
        iterator = iter(first)
        given = [next(iterator)["input_ids"].tolist() for _ in range(cut)]
        second = going_on(loader(), json.loads(json.dumps(first.state_dict())))
        assert given + [batch["input_ids"].tolist() for batch in second] == whole
    both = loader()
    epochs = [[batch["input_ids"].tolist() for batch in both] for _ in range(2)]
    assert epochs[0] == whole and epochs[1] != whole, "the source counts epochs"


def test_epochs():
    stream = PackedStream(DOCS, 64, window=60)
    first = plain(stream)
    stream.set_epoch(1)
    second = plain(stream)
    assert first != second
    stream.set_epoch(0)
    assert plain(stream) == first


def test_fields_and_errors():
    dicts = [{"tokens": doc, "n": 1} for doc in DOCS[:20]]
    assert plain(PackedStream(dicts, 64, field="tokens")) == plain(PackedStream(DOCS[:20], 64))
    assert plain(PackedStream([(doc, 1) for doc in DOCS[:20]], 64, field=0)) == plain(
        PackedStream(DOCS[:20], 64)
    )
    for source, options, message in [
        (dicts, {"field": "ids"}, "document 0 has 'tokens', 'n', and no field 'ids'"),
        (dicts, {}, "document 0 is a dict, not token ids; name the field"),
        (["text"], {}, "document 0 is a str, not token ids"),
        ([[1], [0.5]], {}, "document 1 is float64"),
        ([[1], [2] * 9], {"too_long": "raise"}, "document 1 takes 9 tokens, more than length=8"),
    ]:
        with pytest.raises(ValueError, match=message):
            list(PackedStream(source, 8, **options))
    with pytest.raises(ValueError, match="give an iterable of documents"):
        PackedStream("text", 8)
    with pytest.raises(ValueError, match="strategy should be"):
        PackedStream([], 8, "worst")
    with pytest.raises(TypeError, match="chunk"):
        PackedStream([], 8, chunk=3)
    assert list(PackedStream([], 8)) == list(PackedStream([[], []], 8)) == []


def test_states_of_others():
    stream = PackedStream(DOCS, 64)
    with pytest.raises(ValueError, match="another length, window"):
        stream.load_state_dict(PackedStream(DOCS, 32, window=5).state_dict())
    for state in ({}, {"kind": "Sampler"}, None):
        with pytest.raises(ValueError, match="no state of a PackedStream"):
            stream.load_state_dict(state)


def test_ids_outside_the_vocabulary():
    with pytest.raises(
        OSError, match="the window's documents: token 1 of document 1 is 9, and the vocabulary has 0 to 8"
    ):
        list(PackedStream([[1, 2], [3, 9]], 8, vocab_size=9))


def test_samples_are_those_of_packed_sequences():
    row = next(iter(PackedStream(DOCS, 64, document_ids=True)))
    assert {name: (value.dtype, value.shape) for name, value in row.items()} == {
        "input_ids": (torch.int64, (64,)),
        "labels": (torch.int64, (64,)),
        "position_ids": (torch.int64, (64,)),
        "document_ids": (torch.int32, (64,)),
    }
