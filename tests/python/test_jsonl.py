"""JSONL: every line as json.loads() has it, every batch as default_collate() makes it, every bad line by
name.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonl_cases import ROWS
from line_data import alike, write_json, write_lines
from millrace import DataLoader
from millrace.datasets import JSONL, JSONField
from torch.utils.data import default_collate

TYPES = {
    "text": str,
    "label": int,
    "score": torch.float32,
    "flag": bool,
    "box": (float, (3,)),
    "ids": (int, (None,)),
}


@pytest.fixture(autouse=True, scope="module")
def cache_folder(tmp_path_factory):
    old = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ.pop("XDG_CACHE_HOME") if old is None else os.environ.update(XDG_CACHE_HOME=old)


def expected_sample(row):
    return {
        **row,
        "score": np.float32(row["score"]),
        "box": torch.tensor(row["box"], dtype=torch.float64),
        "ids": torch.tensor(row["ids"], dtype=torch.int64),
    }


def test_samples_of_named_fields(tmp_path):
    dataset = JSONL(write_json(tmp_path / "a.jsonl", ROWS), TYPES)
    assert len(dataset) == len(ROWS) and dataset.file_lengths == [60]
    for i in (0, 1, 33, 59, -1, -60):
        assert alike(dataset[i], expected_sample(ROWS[i]))
    for i in (60, -61):
        with pytest.raises(IndexError):
            dataset[i]
    assert alike(dataset.__getitems__([5, 2, 5]), [expected_sample(ROWS[i]) for i in (5, 2, 5)])


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_default_collates(tmp_path, workers):
    """Named fields: of the samples. Found out: of json's objects."""
    path = write_json(tmp_path / "a.jsonl", ROWS)
    named = {name: kind for name, kind in TYPES.items() if name != "ids"}
    loader = DataLoader(JSONL(path, named), 7, num_workers=workers, native="require")
    plain = [{name: row[name] for name in ("text", "label", "score", "flag")} for row in ROWS]
    found = DataLoader(
        JSONL(write_json(tmp_path / "b.jsonl", plain)), 7, num_workers=workers, native="require"
    )
    for number, (batch, inferred) in enumerate(zip(loader, found, strict=True)):
        rows = ROWS[number * 7 : number * 7 + 7]
        assert alike(
            batch,
            default_collate([{n: v for n, v in expected_sample(row).items() if n != "ids"} for row in rows]),
        )
        assert alike(inferred, default_collate(plain[number * 7 : number * 7 + 7]))


def test_shuffled_batches_of_many_files(tmp_path):
    paths = [write_json(tmp_path / f"{i}.jsonl", ROWS[i * 10 : i * 10 + 10]) for i in range(6)] + [
        write_lines(tmp_path / "none.jsonl", [])
    ]
    dataset = JSONL(paths, {"label": int, "text": str})
    assert dataset.file_lengths == [10] * 6 + [0]
    for workers in (0, 2):
        torch.manual_seed(3)
        ours = [batch for batch in DataLoader(dataset, 8, shuffle=True, num_workers=workers)]
        torch.manual_seed(3)
        theirs = [
            batch
            for batch in torch.utils.data.DataLoader(
                [{k: r[k] for k in ("label", "text")} for r in ROWS], 8, shuffle=True
            )
        ]
        assert alike(ours, theirs)


def test_lists_of_any_length(tmp_path):
    dataset = JSONL(write_json(tmp_path / "a.jsonl", ROWS), {"ids": (torch.int32, (None,))})
    assert dataset[4]["ids"].tolist() == [0, 1, 2, 3] and dataset[5]["ids"].shape == (0,)
    collated = DataLoader(
        dataset, 4, collate_fn=lambda samples: [sample["ids"].tolist() for sample in samples]
    )
    assert [ids for batch in collated for ids in batch] == [row["ids"] for row in ROWS]
    with pytest.raises(RuntimeError, match="equal size"):
        next(iter(DataLoader(dataset, 4)))


NAN, INFINITY = float("nan"), float("inf")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.text(max_size=8),
    st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=4),
)


values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    rows=st.lists(values, min_size=1, max_size=8),
    ascii=st.booleans(),
    blanks=st.sampled_from(["\n", "\r\n", " \n\n\t\n"]),
)
def test_any_value_is_what_json_makes_of_it(rows, ascii, blanks):
    lines = [json.dumps(row, ensure_ascii=ascii) for row in rows]
    lines = [
        line if line.isascii() or line.encode(errors="ignore").decode() == line else json.dumps(row)
        for line, row in zip(lines, rows)
    ]
    with tempfile.TemporaryDirectory() as folder:
        dataset = JSONL(write_lines(Path(folder) / "a.jsonl", lines, blanks), "objects")
        assert alike([dataset[i] for i in range(len(dataset))], [json.loads(line) for line in lines])
        assert alike(dataset.__getitems__(list(range(len(rows)))), [json.loads(line) for line in lines])


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "i": st.integers(-(2**63), 2**63 - 1),
                "f": st.floats() | st.integers(-(2**70), 2**70),
                "s": st.floats(),
                "b": st.booleans(),
                "t": st.text(max_size=12),
                "r": st.lists(st.floats(allow_nan=False), max_size=3),
                "m": st.lists(
                    st.lists(st.integers(-128, 127), min_size=2, max_size=2), min_size=3, max_size=3
                ),
            }
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_numbers_and_texts_in_columns(rows):
    types = {
        "i": int,
        "f": float,
        "s": "float32",
        "b": bool,
        "t": str,
        "r": (float, (None,)),
        "m": (torch.int8, (3, 2)),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = write_json(Path(folder) / "a.jsonl", rows)
        columns = JSONL(path, types).read_columns(np.arange(len(rows)))
    with np.errstate(over="ignore"):
        singles = torch.from_numpy(np.array([row["s"] for row in rows], dtype=np.float32))
    expected = [
        torch.tensor([row["i"] for row in rows]),
        torch.tensor([float(row["f"]) for row in rows], dtype=torch.float64),
        singles,
        torch.tensor([row["b"] for row in rows]),
        [row["t"] for row in rows],
        [torch.tensor(row["r"], dtype=torch.float64) for row in rows],
        torch.tensor([row["m"] for row in rows], dtype=torch.int8),
    ]
    for column, right in zip(columns, expected, strict=True):
        assert alike(column, right), (column, right)


SPELLINGS = [
    r'{"a": "\ud83d\ude00 \u00e4 \/ \b\f\n\r\t\\ \""}',
    r'{"a": "\ud800"}',
    r'{"a": "\udc00x"}',
    r'{"\ud800": 1}',
    '{"a": NaN, "b": [Infinity, -Infinity]}',
    '{"a": 123456789012345678901234567890}',
    '{"a": 18446744073709551616}',
    '{"a": -9223372036854775809}',
    '{"a": 9223372036854775807}',
    '{"a": 1E400}',
    '{"a": 1e-400}',
    '{"a": -0}',
    '{"a": -0.0}',
    '{"a": 5e-324, "b": 1.7976931348623157e308, "c": 0.1e1}',
    '{"a": 1, "a": 2}',
    '{"a": {"x": 1}, "a": 2, "b": {"y": 1, "y": [2]}}',
    '{"": {"": []}}',
    "[]",
    "3",
    '"text"',
    "null",
    ' {"a": 1} \t',
    "{}",
    '{"a": "\u2028\ud7ff\ue000"}',
    "[" * 200 + "]" * 200,
    '{"a": 0.30000000000000004441}',
    '{"a": 9007199254740993.0}',
    r'{"\u0061": 1, "a\u0000b": 2}',
]


@pytest.mark.parametrize("line", SPELLINGS, ids=lambda line: line[:30])
def test_spellings(tmp_path, line):
    dataset = JSONL(write_lines(tmp_path / "a.jsonl", ["{}", line, "{}"]), "objects")
    assert alike(dataset[1], json.loads(line))


def test_depth(tmp_path):
    for depth in (511, 512, 600):
        line = "[" * depth + "]" * depth
        value = JSONL(write_lines(tmp_path / f"{depth}.jsonl", [line]), "objects")[0]
        for _ in range(depth - 1):
            (value,) = value
        assert value == []


def test_fields_of_lines_that_only_python_reads(tmp_path):
    lines = [
        '{"x": 1.5, "t": "a", "o": 1, "l": [1]}',
        '{"x": NaN, "t": "\\ud800", "o": [NaN], "l": [Infinity, 2]}',
        '{"x": 1e999, "t": "b", "o": null, "l": []}',
        '{"x": 36893488147419103232, "t": "c", "o": 36893488147419103232, "l": [36893488147419103232]}',
    ]
    dataset = JSONL(
        write_lines(tmp_path / "a.jsonl", lines), {"x": float, "t": str, "o": json, "l": (float, (None,))}
    )
    x, t, o, ragged = dataset.read_columns(np.array([3, 1, 2, 0]))
    assert alike(x, torch.tensor([2.0**65, NAN, INFINITY, 1.5], dtype=torch.float64))
    assert t == ["c", "\ud800", "b", "a"] and alike(o, [2**65, [NAN], None, 1])
    assert alike(ragged, [torch.tensor(v, dtype=torch.float64) for v in ([2.0**65], [INFINITY, 2], [], [1])])
    assert math.isnan(dataset[1]["x"]) and alike(dataset[3]["o"], 2**65)


def test_paths_and_defaults(tmp_path):
    rows = [
        {"user": {"id": 4, "name": "x"}, "a.b": 1, "tags": ["q"]},
        {"user": {"id": None}, "a.b": None},
        {"user": 3},
        {},
    ]
    fields = {
        "user.id": JSONField(int, default=-1),
        "name": JSONField(str, "user.name", default="nobody \xe4"),
        "dotted": JSONField("int16", ("a.b",), default=7),
        "tags": JSONField(json, default={"none": [1.5, None, True, 2**63]}),
        "box": JSONField(("float32", (2,)), default=(1, 2)),
        "list": JSONField((int, (None,)), default=[5, 6]),
    }
    dataset = JSONL(write_json(tmp_path / "a.jsonl", rows), fields)
    ids, names, dotted, tags, box, lists = dataset.read_columns(np.arange(4))
    assert ids.tolist() == [4, -1, -1, -1] and names == ["x"] + ["nobody \xe4"] * 3
    assert dotted.tolist() == [1, 7, 7, 7] and dotted.dtype == torch.int16
    assert tags == [["q"]] + [{"none": [1.5, None, True, 2**63]}] * 3
    assert box.tolist() == [[1, 2]] * 4 and [t.tolist() for t in lists] == [[5, 6]] * 4
    nan = write_lines(tmp_path / "b.jsonl", ['{"x": NaN}', '{"x": NaN, "user": {"id": null}, "tags": null}'])
    again = [dict(sample) for sample in JSONL(nan, fields).__getitems__([0, 1])]  # the same by Python's json
    assert again[0]["tags"] == {"none": [1.5, None, True, 2**63]} and again[1]["tags"] is None
    assert (
        again[0]["name"] == "nobody \xe4" and again[1]["user.id"] == -1 and again[0]["box"].tolist() == [1, 2]
    )
