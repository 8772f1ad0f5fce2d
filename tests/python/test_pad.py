"""Pad: rows filled up as torch's pad_sequence does it, in any loader."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from millrace import DataLoader, Pad
from millrace.datasets.batches import ChunkedDataset, Field
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import default_collate

DTYPES = ["uint8", "int16", "int32", "int64", "float32", "float64", "bool", "complex64"]


def rows_of(lengths, dtype, shape):
    generator = np.random.default_rng(1)
    return [(generator.random((n, *shape)) * 100).astype(dtype) for n in lengths]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    dtype=st.sampled_from(DTYPES),
    shape=st.sampled_from([(), (3,), (2, 2)]),
    side=st.sampled_from(["right", "left"]),
    multiple_of=st.sampled_from([None, 1, 8]),
    form=st.sampled_from(["tensors", "arrays", "lists"]),
)
@example([0, 0], "float32", (), "right", None, "tensors")
def test_equal_to_torch(lengths, dtype, shape, side, multiple_of, form):
    arrays = rows_of(lengths, dtype, shape)
    rows = [torch.from_numpy(array) for array in arrays]
    if form == "lists" and (shape or dtype != "int64"):
        form = "arrays"
    given = {"tensors": rows, "arrays": arrays, "lists": [array.tolist() for array in arrays]}[form]
    value = 1 if dtype in ("bool", "complex64") else 7
    expected = pad_sequence(rows, batch_first=True, padding_value=value, padding_side=side)
    made = Pad(value, side=side)(given)
    assert made.dtype is expected.dtype and torch.equal(made, expected)
    rounded = Pad({"x": value}, multiple_of=multiple_of, mask="mask", side=side)(
        [{"x": row} for row in given]
    )
    length = rounded["x"].shape[1]
    assert length == (max(lengths) if multiple_of is None else -(-max(lengths) // multiple_of) * multiple_of)
    assert rounded["mask"].shape == (len(rows), length) and rounded["mask"].dtype is torch.int64
    for row, made_row, marks in zip(rows, rounded["x"], rounded["mask"]):
        assert torch.equal(made_row[marks > 0], row) and int(marks.sum()) == len(row)
        assert marks.tolist() == sorted(marks.tolist(), reverse=side == "right")
        assert (made_row[marks == 0] == value).all()


def test_other_fields_are_torchs():
    samples = [
        {"x": [1, 2], "y": 3, "name": "a", "z": torch.ones(2)},
        {"x": [4], "y": 5, "name": "b", "z": torch.zeros(2)},
    ]
    batch = Pad({"x": 0})(samples)
    rest = default_collate([{k: v for k, v in sample.items() if k != "x"} for sample in samples])
    assert batch["x"].tolist() == [[1, 2], [4, 0]] and batch["name"] == rest["name"]
    assert torch.equal(batch["y"], rest["y"]) and torch.equal(batch["z"], rest["z"])
    x, label = Pad({0: -1}, to=4)([(torch.tensor([1, 2]), 0), (torch.tensor([3]), 1)])
    assert x.tolist() == [[1, 2, -1, -1], [3, -1, -1, -1]] and label.tolist() == [0, 1]
    everything = Pad(0, mask={"xm": "x", "ym": "y"})([{"x": [1], "y": [1, 2]}, {"x": [], "y": [3]}])
    assert {name: value.tolist() for name, value in everything.items()} == {
        "x": [[1], [0]],
        "xm": [[1], [0]],
        "y": [[1, 2], [3, 0]],
        "ym": [[1, 1], [1, 0]],
    }


def test_rows_that_are_not_plain():
    strided = torch.arange(20.0).reshape(4, 5)[:, ::2]
    graded = torch.ones(2, 3, requires_grad=True)
    batch = Pad(0.5)([strided, graded])
    assert torch.equal(batch[0], strided)
    assert torch.equal(batch[1, :2], graded.detach())
    assert (batch[1, 2:] == 0.5).all()
    assert not batch.requires_grad
    assert Pad(0)([np.arange(6)[::2], np.arange(1)]).tolist() == [[0, 2, 4], [0, 0, 0]]
    assert Pad(0)([[0.5, 1], [2.0]]).tolist() == [[0.5, 1.0], [2.0, 0.0]]
    assert torch.isnan(Pad(float("nan"))([torch.ones(1), torch.ones(2)])[0, 1])
    assert Pad(0.1)([torch.ones(1), torch.ones(2)])[0, 1] == torch.tensor(0.1)
    assert Pad(2)([torch.ones(1, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)]).tolist() == [
        [1, 2],
        [1, 1],
    ]


def test_in_torchs_loader():
    rows = [list(range(n % 7)) for n in range(20)]
    for workers in (0, 2):
        batches = list(torch.utils.data.DataLoader(rows, 6, num_workers=workers, collate_fn=Pad(-1, to=8)))
        assert [len(batch) for batch in batches] == [6, 6, 6, 2]
        assert all(batch.shape[1] == 8 for batch in batches)
        assert [[x for x in row if x >= 0] for batch in batches for row in batch.tolist()] == rows


class Ragged(ChunkedDataset):
    """Sample i: i % 5 numbers, and i."""

    fields = (Field("x"), Field("n", "int64", ()))

    def __init__(self):
        super().__init__()
        self.chunk_lengths = np.array([7, 9, 4])

    def read_chunk(self, number):
        numbers = np.arange(self.chunk_starts[number], self.chunk_starts[number + 1])
        return Lists([torch.arange(n % 5) for n in numbers.tolist()]), numbers

    def chunk_bytes(self, number):
        return 1000


class Lists:
    nbytes = 1000

    def __init__(self, values):
        self.values = values

    def take(self, rows):
        return [self.values[row] for row in rows.tolist()]


@pytest.mark.parametrize("workers", [0, 2])
def test_of_chunked_datasets_natively(workers):
    dataset, pad = Ragged(), Pad({"x": -1}, mask="m")
    loader = DataLoader(dataset, 6, num_workers=workers, collate_fn=pad, native="require")
    for batch, other in zip(loader, torch.utils.data.DataLoader(dataset, 6, collate_fn=pad), strict=True):
        assert list(batch) == list(other) == ["x", "m", "n"]
        assert all(torch.equal(batch[name], other[name]) for name in batch)


def test_as_a_value():
    assert Pad({"a": 0}, to=3) == Pad({"a": 0}, to=3) != Pad({"a": 0}, to=4)
    assert repr(Pad({"a": 0}, to=3, mask="m", side="left")) == "Pad({'a': 0}, to=3, mask='m', side='left')"


@pytest.mark.parametrize(
    "pad, samples, message",
    [
        (lambda: Pad(0, to=0), None, "to should be an integer of 1 or more"),
        (lambda: Pad(0, multiple_of=True), None, "multiple_of should be"),
        (lambda: Pad(0, side="top"), None, "side should be 'right' or 'left'"),
        (lambda: Pad({}), None, "values should be a number, or a dict"),
        (lambda: Pad("0"), None, "values should be a number, or a dict"),
        (lambda: Pad(0, to=2), [[1], [1, 2, 3]], "rows: sample 1 of the batch has 3 items, more than to=2"),
        (lambda: Pad({"x": 0}), [{"y": [1]}], "no field 'x' to pad; they have 'y'"),
        (lambda: Pad({2: 0}), [([1], [2])], "no field 2 to pad"),
        (lambda: Pad({"x": 0}), [{"x": [1]}, {"y": [1]}], "sample 1 of the batch lacks 'x'"),
        (lambda: Pad({"x": 0}), [{"x": [1]}, {"x": "ab"}], "field 'x': sample 1 of the batch is str"),
        (
            lambda: Pad({"x": 0}),
            [{"x": torch.ones(2)}, {"x": torch.ones(2, dtype=torch.int64)}],
            "field 'x': sample 1 .* torch.int64",
        ),
        (lambda: Pad(0), [torch.ones(2, 3), torch.ones(2, 4)], r"only the first dimension may differ"),
        (lambda: Pad(0.5), [[1], [1, 2]], "0.5 is no torch.int64"),
        (
            lambda: Pad(-100),
            [torch.ones(1, dtype=torch.uint8), torch.ones(2, dtype=torch.uint8)],
            "-100 is no torch.uint8",
        ),
        (lambda: Pad({"x": 0}, mask="x"), [{"x": [1]}], "a field 'x' already"),
        (lambda: Pad({"x": 0}, mask={"m": "y"}), [{"x": [1], "y": 1}], "the field 'y' is not padded"),
        (lambda: Pad(0, mask="m"), [[1]], "samples should be dicts, but they are list"),
        (lambda: Pad(0), [1, 2], "samples are int: nothing to pad"),
    ],
)
def test_errors(pad, samples, message):
    with pytest.raises(ValueError, match=message):
        pad()(samples)
