"""JSONLStream: lines in order, from plain and packed files, divided among readers, and resumed at every one
of them.
"""

from __future__ import annotations

import json
import pickle

import millrace
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from line_data import alike, write_bytes, write_json, write_lines
from millrace import DataLoader
from millrace.datasets import JSONL, JSONLStream, ignore_and_continue, warn_and_continue
from torch.utils.data import default_collate
from torch.utils.data._utils import worker as torch_worker

LENGTHS = [3, 5, 1, 6, 0, 7, 2, 5]
TOTAL = sum(LENGTHS)
PACKED = ["", ".gz", ".zst"]


def make_files(folder, lengths=LENGTHS, each=""):
    """Files of consecutive numbers, packed in turn."""
    paths, number = [], 0
    for i, length in enumerate(lengths):
        rows = [
            json.dumps({"n": n, "t": f"text {n}", "v": [n, 0.5]}) + each
            for n in range(number, number + length)
        ]
        paths.append(write_lines(folder / f"{i}.jsonl{PACKED[i % 3]}", rows))
        number += length
    return paths


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return make_files(tmp_path_factory.mktemp("lines"))


@pytest.fixture
def become(monkeypatch):
    def become(rank=0, ranks=1, worker=0, workers=1):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        monkeypatch.setattr(
            torch_worker,
            "_worker_info",
            torch_worker.WorkerInfo(id=worker, num_workers=workers, seed=0, dataset=None),
        )

    return become


def readers(ranks, workers):
    return [(rank, ranks, worker, workers) for rank in range(ranks) for worker in range(workers)]


def n_of(sample):
    return sample["n"]


def check_every_cut(make):
    dataset, states, given = make(), [], []
    for item in dataset:
        given.append(item)
        states.append(json.dumps(dataset.state_dict()))
    after = list(dataset)
    states.insert(0, json.dumps(make().state_dict()))
    for cut, state in enumerate(states):
        resumed = make()
        resumed.load_state_dict(json.loads(state))
        assert list(resumed) == given[cut:], cut
        if cut % 5 == 0:
            assert list(resumed) == after
    return given


def test_samples_are_those_of_jsonl(paths, tmp_path):
    rows = [
        json.loads(line) for path in paths for line in millrace.datasets.Lines(path, index_dir=str(tmp_path))
    ]
    assert [row["n"] for row in rows] == list(range(TOTAL))
    for fields in (
        None,
        {"n": int, "t": str, "v": ("float32", (2,))},
        {"n": "int16", "v": (float, (None,))},
        "objects",
    ):
        expected = JSONL(paths, fields, index_dir=str(tmp_path))
        assert alike(list(JSONLStream(paths, fields)), [expected[i] for i in range(TOTAL)]), fields
    assert list(JSONLStream(paths, "objects")) == rows


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_line_of_every_reader(paths, become, ranks, workers):
    seen = []
    for reader in readers(ranks, workers):
        become(*reader)
        options = {"shuffle_files": True, "seed": 4, "empty_check": False}
        seen += check_every_cut(
            lambda: JSONLStream(paths, {"n": int}, **options).shuffle(7, initial=3).map(n_of)
        )
    assert sorted(seen) == list(range(TOTAL))


@pytest.mark.parametrize("reader", [(0, 1, 0, 1), (1, 2, 0, 2), (2, 3, 1, 2)], ids=str)
def test_every_line_of_few_files(tmp_path, become, reader):
    """Readers share the lines of a file: each takes every n-th of them."""
    paths = make_files(tmp_path, [17, 0, 12])
    become(*reader)
    check_every_cut(lambda: JSONLStream(paths, {"n": int}, empty_check=False).shuffle(5).map(n_of).listed(3))


def test_few_files_are_divided_by_lines(tmp_path, become):
    paths = make_files(tmp_path, [131], each="\n")
    seen = []
    for reader in readers(2, 3):
        become(*reader)
        part = [n_of(sample) for sample in JSONLStream(paths)]
        assert len(part) in (21, 22)
        seen += part
    assert sorted(seen) == list(range(131))


STAGES = st.sampled_from(
    [
        lambda ds: ds.shuffle(3, initial=1),
        lambda ds: ds.listed(3).unlisted(),
        lambda ds: ds.slice(1, None, 2),
        lambda ds: ds.select(lambda n: n % 5),
        lambda ds: ds.with_epoch(20),
        lambda ds: ds.repeat(2),
    ]
)


@settings(
    deadline=None,
    derandomize=True,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    chain=st.lists(STAGES, max_size=4),
    seed=st.integers(0, 2**64),
    shuffled=st.booleans(),
    reader=st.sampled_from(readers(2, 2)),
)
def test_every_line_of_any_chain(paths, become, chain, seed, shuffled, reader):
    become(*reader)

    def make():
        dataset = JSONLStream(paths, {"n": int}, shuffle_files=shuffled, seed=seed, empty_check=False).map(
            n_of
        )
        for stage in chain:
            dataset = stage(dataset)
        return dataset

    check_every_cut(make)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_every_batch_of_a_loader(paths, workers):
    def loader():
        dataset = JSONLStream(paths, {"n": int, "t": str}, shuffle_files=True, seed=2).shuffle(4, initial=2)
        return DataLoader(dataset, 4, num_workers=workers)

    first = loader()
    batches, states = [], [loader().state_dict()]
    for batch in first:
        batches.append(batch)
        states.append(json.loads(json.dumps(first.state_dict())))
    assert sorted(n for batch in batches for n in batch["n"].tolist()) == list(range(TOTAL))
    assert alike(batches[0], default_collate([{"n": n, "t": f"text {n}"} for n in batches[0]["n"].tolist()]))
    for cut in range(1, len(batches)):
        resumed = loader()
        resumed.load_state_dict(states[cut])
        assert alike(list(resumed), batches[cut:]), cut


BAD = [
    '{"n": 0}',
    '{"n": "x"}',
    "",
    '{"n": 1}',
    "{",
    '{"n": NaN}',
    "[]",
    '{"n": ' + "2" * 500 + "}",
    '{"n": 2}',
    '{"n":',
]


def test_bad_lines(tmp_path, become):
    path = write_bytes(tmp_path / "a.jsonl", "\n".join(BAD).encode())
    with pytest.raises(
        millrace.CorruptDataError,
        match=rf"{path}, line 2 \(byte 9\): field 'n' should be int64, but has \"x\"",
    ) as caught:
        list(JSONLStream(path, {"n": int}))
    assert (caught.value.path, caught.value.offset) == (path, 9)
    errors = []

    def note(error):
        errors.append(str(error))
        return True

    assert [s["n"] for s in JSONLStream(path, {"n": int}, max_line_bytes=200, handler=note)] == [0, 1, 2]
    assert [error.split(" (")[0].removeprefix(f"{path}, ") for error in errors] == [
        f"line {i}" for i in (2, 5, 6, 7, 8, 10)
    ]
    assert "longer than max_line_bytes" in errors[4] and "cut off" in errors[5]
    with pytest.warns(UserWarning, match="line 2"):
        assert len(list(JSONLStream(path, {"n": int}, handler=warn_and_continue))) == 3
    for reader in readers(1, 3):
        become(*reader)
        check_every_cut(
            lambda: JSONLStream(path, {"n": int}, handler=ignore_and_continue, empty_check=False).map(n_of)
        )


def test_bad_files(tmp_path):
    good = write_json(tmp_path / "a.jsonl", [{"n": 1}])
    cut = write_json(tmp_path / "b.jsonl.gz", [{"n": i} for i in range(3000)])
    data = (tmp_path / "b.jsonl.gz").read_bytes()
    (tmp_path / "b.jsonl.gz").write_bytes(data[: len(data) // 2])
    missing = str(tmp_path / "c.jsonl")
    with pytest.raises(millrace.CorruptDataError, match="b.jsonl.gz"):
        list(JSONLStream(cut, {"n": int}))
    with pytest.raises(FileNotFoundError, match="c.jsonl"):
        list(JSONLStream([good, missing], {"n": int}))
    read = [s["n"] for s in JSONLStream([cut, missing, good], {"n": int}, handler=ignore_and_continue)]
    assert read[-1] == 1 and read[:-1] == list(range(len(read) - 1))
    with pytest.raises(ValueError, match="found no samples"):
        list(JSONLStream(write_lines(tmp_path / "d.jsonl", []), {"n": int}))
    with pytest.raises(ValueError, match="nodesplitter"):
        JSONLStream(good, nodesplitter="x")
    with pytest.raises(ValueError, match="max_line_bytes"):
        JSONLStream(good, max_line_bytes=0)


def test_long_lines_and_blocks(tmp_path):
    rows = [{"n": i, "t": "z" * (i * 977 % (600_000 if i % 100 == 0 else 3000))} for i in range(1000)]
    for name in ("a.jsonl", "a.jsonl.gz"):
        path = write_json(tmp_path / name, rows)
        assert list(JSONLStream(path)) == rows
        stream = JSONLStream(path)
        items = iter(stream)
        for _ in range(501):
            next(items)
        resumed = JSONLStream(path)
        resumed.load_state_dict(stream.state_dict())
        assert list(resumed) == rows[501:]


def test_described_and_copied(paths):
    stream = JSONLStream(paths, {"n": int}, seed=3).shuffle(4)
    assert repr(stream).startswith("JSONLStream(8 files, seed=3).") and stream.urls == tuple(paths)
    assert list(pickle.loads(pickle.dumps(stream.map(n_of)))) == list(stream.map(n_of))
    other = JSONLStream(paths[:3]).shuffle(4)
    with pytest.raises(ValueError, match="3 files"):
        other.load_state_dict(_state_of(stream))
    assert torch.tensor(list(stream.map(n_of))).sum() == sum(range(TOTAL))


def _state_of(stream):
    items = iter(stream)
    next(items)
    return stream.state_dict()
