"""JSONL: every line as json.loads() has it, every batch as default_collate() makes it, every bad line by
name.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import tempfile
from pathlib import Path

import millrace
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from line_data import alike, write_bytes, write_json, write_lines
from millrace import DataLoader
from millrace.datasets import JSONL, JSONField
from torch.utils.data import default_collate

ROWS = [
    {
        "text": f"Zeile {i} äöü \N{GRINNING FACE}"[: 8 + i % 12],
        "label": i - 20,
        "score": i / 7,
        "flag": i % 3 == 0,
        "box": [i, 2.5, -i],
        "ids": list(range(i % 5)),
    }
    for i in range(60)
]
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


GOOD = '{"x": 1, "t": "a", "v": [1, 2]}'
BAD = {
    '{"x": 1, "t": "a", "v": [1, 2]': "no JSON: Expecting ',' delimiter at column 31; the line is cut off",
    "{'x': 1}": "no JSON: Expecting property name",
    '{"x": 1.5, "t": "a", "v": [1, 2]}': "field 'x' should be int32, but has 1.5",
    '{"x": "1", "t": "a", "v": [1, 2]}': "field 'x' should be int32, but has \"1\"",
    '{"x": true, "t": "a", "v": [1, 2]}': "field 'x' should be int32, but has true",
    '{"x": 2147483648, "t": "a", "v": [1, 2]}': "field 'x' should be int32, but has 2147483648",
    '{"x": null, "t": "a", "v": [1, 2]}': "field 'x' is null; JSONField",
    '{"t": "a", "v": [1, 2]}': "field 'x' is missing: there is no 'x'",
    "[1]": "field 'x' is missing: the line is [1], no object",
    '{"x": 1, "t": 5, "v": [1, 2]}': "field 't' should be a string, but has 5",
    '{"x": 1, "t": "a", "v": [1, 2, 3]}': "field 'v' should be float64[2], but has [1, 2, 3]",
    '{"x": 1, "t": "a", "v": [[1, 2]]}': "field 'v' should be float64[2], but has [[1, 2]]",
    '{"x": 1, "t": "a", "v": 1}': "field 'v' should be float64[2], but has 1",
    '{"x": 1, "t": "a", "v": [1, ' + "9" * 400 + "]}": "field 'v' should be float64[2], but has 999",
    '{"x": ' + "9" * 5000 + "}": "no JSON that is read: Exceeds the limit",
    "[" * 100_000: "nested too deeply",
    '{"x": 1, "t": "a", "v": [1, 2], "' + "y" * 2000 + '": 1}': "longer than max_line_bytes",
}


@pytest.mark.parametrize("line", BAD, ids=lambda line: line[:40])
def test_bad_lines_are_named_and_left_out(tmp_path, line):
    most = 1000 if "yyy" in line else 1 << 20
    path = write_lines(tmp_path / "a.jsonl", [GOOD, "", line, GOOD])
    dataset = JSONL(path, {"x": "int32", "t": str, "v": (float, (2,))}, max_line_bytes=most)
    place = f"{path}, line 3 (byte {len(GOOD) + 2}): "
    for read in (
        lambda: dataset[1],
        lambda: list(DataLoader(dataset, 2)),
        lambda: list(DataLoader(dataset, 3, num_workers=2)),
    ):
        with pytest.raises(millrace.CorruptDataError, match=re.escape(place)) as caught:
            read()
        assert BAD[line] in str(caught.value)
    assert caught.value.offset == len(GOOD) + 2 or caught.value.path == ""  # torn from a worker's traceback
    assert dataset[0]["x"] == dataset[2]["x"] == 1
    for workers in (0, 2):
        skipped = [
            batch["x"].tolist() for batch in DataLoader(dataset, 2, on_error="skip", num_workers=workers)
        ]
        assert sum(skipped, []) == [1, 1]
        replaced = [
            batch["x"].tolist() for batch in DataLoader(dataset, 3, on_error="replace", num_workers=workers)
        ]
        assert replaced == [[1, 1, 1]]


def test_no_utf8(tmp_path):
    dataset = JSONL(write_bytes(tmp_path / "a.jsonl", b'{"t": "a"}\n{"t": "\xff"}\n'), {"t": str})
    with pytest.raises(
        millrace.CorruptDataError, match=r"line 2 \(byte 11\): byte 7 of the line, 0xff, is no UTF-8"
    ):
        dataset[1]


def test_the_form_of_the_file(tmp_path):
    for name, data, rows in [
        ("crlf", b'{"a":1}\r\n\r\n{"a":2}\r\n', [1, 2]),
        ("no end", b'{"a":1}\n{"a":2}', [1, 2]),
        ("mark", b'\xef\xbb\xbf{"a":1}\n', [1]),
        ("blank", b'\n \n\t\r\n{"a":1}\n\n\n{"a":2}\n\n', [1, 2]),
        ("empty", b"", []),
        ("only blank", b"\n\n", []),
    ]:
        dataset = JSONL(write_bytes(tmp_path / name, data), {"a": int})
        assert [dataset[i]["a"] for i in range(len(dataset))] == rows, name
        assert [n for batch in DataLoader(dataset, 2) for n in batch["a"].tolist()] == rows, name


def test_what_fields_are_found(tmp_path):
    def kinds(rows):
        return {column.name: str(column) for column in JSONL(write_json(tmp_path / "x.jsonl", rows)).columns}

    box_and_ids = {"box": "float64[3]", "ids": "int64[any]"}
    assert kinds(ROWS) == {
        "text": "a string",
        "label": "int64",
        "score": "float64",
        "flag": "bool",
        **box_and_ids,
    }
    assert kinds([{"a": 1}, {"a": 2.5}]) == {"a": "float64"}
    assert (
        kinds([{"a": 1}, {"a": None}])
        == kinds([{"a": True}, {"a": 1}])
        == kinds([{"a": {}}])
        == {"a": "any value"}
    )
    assert (
        kinds([{"a": 2**63}])
        == kinds([{"a": ["x"]}])
        == kinds([{"a": [[1]]}])
        == kinds([{"a": []}])
        == {"a": "any value"}
    )
    assert kinds([{"a": 1}, {"b": 1}]) == kinds([{}]) == kinds([[1]]) == kinds([]) == {"": "any value"}
    rows = [{"a": 1}, {"b": [1, {"c": None}]}, 5]
    dataset = JSONL(write_json(tmp_path / "x.jsonl", rows))
    assert [dataset[i] for i in range(3)] == rows


def test_a_later_line_that_disagrees(tmp_path):
    dataset = JSONL(write_json(tmp_path / "a.jsonl", [{"n": 1}] * 120 + [{"n": 1.5}]))
    with pytest.raises(
        millrace.CorruptDataError,
        match=r"line 121 .*'n' should be int64, but has 1.5; the first lines said otherwise",
    ):
        list(DataLoader(dataset, 50))
    broken = JSONL(write_lines(tmp_path / "b.jsonl", ['{"n": 1}', '{"n": ']))
    with pytest.raises(millrace.CorruptDataError, match=r"b.jsonl, line 2 \(byte 9\): no JSON"):
        broken[0]


def test_a_file_that_changes(tmp_path):
    path = tmp_path / "a.jsonl"
    dataset = JSONL(write_json(path, [{"n": i} for i in range(50)]), {"n": int})
    assert dataset[49]["n"] == 49
    path.write_text('{"n": 7}\n')
    assert dataset[0] == {"n": 7}
    with pytest.raises(millrace.CorruptDataError, match="cut short"):
        dataset[49]
    with pytest.raises(millrace.CorruptDataError, match="cut short"):
        list(DataLoader(dataset, 10))
    path.write_text("x" * 1000)
    with pytest.raises(
        millrace.CorruptDataError, match=r"a.jsonl, line 1 .*the file was changed after it was opened"
    ):
        dataset[0]
    assert len(JSONL(str(path), {"n": int})) == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "a dict from names to types"),
        ("all", "None or 'objects'"),
        ({"a": "complex64"}, "field 'a': complex64 is no type"),
        ({"a": "nonsense"}, "field 'a': 'nonsense' is no type"),
        ({"a": (int, 3)}, r"\(dtype, shape\)"),
        ({"a": (int, ())}, r"\(dtype, shape\)"),
        ({"a": (int, (2, None))}, "the first one None"),
        ({"a": (int, (-1,))}, "whole numbers"),
        ({"a": JSONField(int, default="x")}, "default='x' is not int64"),
        ({"a": JSONField(str, default=1)}, "default=1 is not a string"),
        ({"a": JSONField((float, (3,)), default=[1, 2])}, "is not float64"),
        ({"a": JSONField(json, default=object())}, "of JSON's"),
        ({"a": JSONField(int, ())}, "keys joined by dots"),
    ],
)
def test_fields_that_mean_nothing(tmp_path, fields, message):
    with pytest.raises(ValueError, match=message):
        JSONL(write_json(tmp_path / "a.jsonl", [{}]), fields)


def test_other_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.jsonl"):
        len(JSONL(str(tmp_path / "none.jsonl")))
    with pytest.raises(ValueError, match="max_line_bytes"):
        JSONL(str(tmp_path / "none.jsonl"), max_line_bytes=0)
    with pytest.raises(TypeError, match="names are strings"):
        JSONL(str(tmp_path / "none.jsonl"), {1: int})
    with pytest.raises(millrace.CorruptDataError, match="UTF-16"):
        len(JSONL(write_bytes(tmp_path / "a.jsonl", '{"a": 1}\n'.encode("utf-16"))))


def test_a_copy_in_another_process_reads_the_same(tmp_path):
    dataset = JSONL(write_json(tmp_path / "a.jsonl", ROWS))
    dataset[3]
    copy = pickle.loads(pickle.dumps(dataset))
    assert alike(copy[3], dataset[3]) and copy.columns == dataset.columns
    loader = DataLoader(
        dataset, 10, num_workers=1, multiprocessing_context="spawn", native="never", collate_fn=list
    )
    assert alike(sum(loader, []), [dataset[i] for i in range(60)])
