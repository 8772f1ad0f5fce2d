"""JSONL: bad lines, files that change, and arguments that mean nothing."""

from __future__ import annotations

import json
import os
import pickle
import re

import millrace
import pytest
from jsonl_cases import ROWS
from line_data import alike, write_bytes, write_json, write_lines
from millrace import DataLoader
from millrace.datasets import JSONL, JSONField, JSONLStream


@pytest.fixture(autouse=True, scope="module")
def cache_folder(tmp_path_factory):
    old = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ.pop("XDG_CACHE_HOME") if old is None else os.environ.update(XDG_CACHE_HOME=old)


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


# What no line of the first hundred has, and the key that the message names.
NEW_KEYS = {
    '{"n": 1, "late": 2}': "late",
    '{"late": 2, "n": 1}': "late",
    '{"n": 1, "u": null, "late": null}': "late",
    '{"late": 1, "n": 1, "late": 2, "later": 3}': "late",
    '{"n": 1, "": NaN}': "",
    '{"n": 1, "n.x": 100000000000000000000}': "n.x",
    '{"n": 1, "N": 1}': "N",
}


@pytest.mark.parametrize("line", NEW_KEYS)
@pytest.mark.parametrize("kind", [JSONL, JSONLStream])
def test_a_key_that_is_new_in_a_later_line(tmp_path, kind, line):
    """Where the fields were found it is not lost unnoticed, where they were named it is left out."""
    u = {"x": 1, "deep": {"y": [1]}}
    wanted = rf"a.jsonl, line 152 .*'{re.escape(NEW_KEYS[line])}'.*the first lines said otherwise"
    nested = '{"n": 1, "u": {"new": 1, "x": 2}}'  # is there whole, as any value
    if '"u"' not in line:
        line = line[:-1] + f', "u": {json.dumps(u)}}}'
    lines = [json.dumps({"n": i, "u": u}) for i in range(150)] + [nested]
    assert list(kind(write_lines(tmp_path / "good.jsonl", lines)))[-1] == json.loads(nested)
    path = write_lines(tmp_path / "a.jsonl", [*lines, line])
    for workers in (0, 2):
        with pytest.raises(millrace.CorruptDataError, match=wanted):
            list(DataLoader(kind(path), None, num_workers=workers))
    named = list(DataLoader(kind(path, {"n": int}), None))
    assert named[-1] == {"n": 1} and len(named) == 152
    # str(): NaN is there, too.
    assert str(list(DataLoader(kind(path, "objects"), None))[-1]) == str(json.loads(line))


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
