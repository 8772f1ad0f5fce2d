"""Lines of JSON by Python's json, which decides about all lines that the native reader refuses.

So NaN, Infinity, integers of any size and halves of surrogate pairs have json.loads()'s values, and errors of
a line are described here only.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from millrace.errors import CorruptDataError

from .fields import PLAIN, RAISE, Column, Guessed

_MISSING = object()
_SHOWN = 60  # characters of a value in messages
_GUESSED = "; the first lines said otherwise: name the fields yourself, fields={...}, or 'objects'"


class LineError(Exception):
    """An error of a line, without its place."""


def values_of(columns: Sequence[Column], content: Any) -> list[Any]:
    """A line's value for each column, as in a sample. `content`: the line's bytes; None: it was too long.
    LineError for a bad line.
    """
    line = object_of(content)
    try:
        if isinstance(columns, Guessed) and isinstance(line, dict):
            _refuse_others(columns, line)
        return [_value(column, line) for column in columns]
    except LineError as error:
        guessed = isinstance(columns, Guessed)
        raise LineError(f"{error}{_GUESSED if guessed else ''}") from None


def _refuse_others(columns: Sequence[Column], line: dict[str, Any]) -> None:
    names = {column.name for column in columns}
    for key in line:
        if key not in names:
            raise LineError(f"field {key!r} is new: its values would be lost")


def object_of(content: Any) -> Any:
    """json.loads() of a line; LineError instead of its errors."""
    if content is None:
        raise LineError(
            "it is longer than max_line_bytes; raise that, or look whether the file has one object in each"
            " line"
        )
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise LineError(
            f"byte {error.start} of the line, 0x{content[error.start]:02x}, is no UTF-8 ({error.reason})"
        ) from None
    except json.JSONDecodeError as error:
        cut = (
            "; the line is cut off, or an object goes on in the next one"
            if error.pos >= len(error.doc.rstrip())
            else ""
        )
        raise LineError(f"no JSON: {error.msg} at column {error.colno}{cut}") from None
    except RecursionError:
        raise LineError("no JSON that is read: it is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise LineError(f"no JSON that is read: {error}") from None


def bad_line(name: str, place: str, offset: int, reason: object) -> CorruptDataError:
    """`place`: which line, for people."""
    error = CorruptDataError(f"{name}, {place} (byte {offset}): {reason}")
    error.path, error.offset = name, offset
    return error


def _value(column: Column, line: Any) -> Any:
    value, lacking = line, "null"
    for depth, key in enumerate(column.path, 1):
        value = value.get(key, _MISSING) if isinstance(value, dict) else _MISSING
        if value is _MISSING:
            lacking = f"missing: there is no {'.'.join(column.path[:depth])!r}"
            break
    if value is _MISSING or (value is None and column.kind != "object"):
        if column.default is not RAISE:
            return plain(column, column.default)
        if not isinstance(line, dict):
            raise LineError(f"field {column.name!r} is missing: the line is {_shown(line)}, no object")
        raise LineError(
            f"field {column.name!r} is {lacking}; JSONField(type, default=...) says what is in its place"
        )
    kind: Any = {"text": str, "list": list}.get(column.kind, object)
    if not isinstance(value, kind):
        raise _wrong(column, value)
    if column.kind in ("text", "object"):
        return value
    shape = (len(value), *column.shape) if column.kind == "list" else column.shape
    flat: list[Any] = []
    _flatten(column, value, shape, flat)
    with np.errstate(over="ignore"):  # as in C's conversion to float
        made = torch.from_numpy(np.array(flat, dtype=column.dtype).reshape(shape))
    return plain(column, made)


def plain(column: Column, value: Any) -> Any:
    """A sample's value of a default or tensor: Python's or numpy's number if the field has no shape."""
    if column.kind != "number" or column.shape:
        return value.clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)
    return value.item() if column.dtype in PLAIN else value.numpy()[()]


def _flatten(column: Column, value: Any, shape: tuple[int, ...], into: list[Any]) -> None:
    if shape:
        if not isinstance(value, list) or len(value) != shape[0]:
            raise _wrong(column, value)
        for element in value:
            _flatten(column, element, shape[1:], into)
        return
    if column.dtype == "bool":
        good = isinstance(value, bool)
    elif column.dtype.startswith("float"):
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        if good:
            try:
                value = float(value)
            except OverflowError:
                good = False
    else:
        bounds = np.iinfo(column.dtype)
        good = isinstance(value, int) and not isinstance(value, bool) and bounds.min <= value <= bounds.max
    if not good:
        raise _wrong(column, value)
    into.append(value)


def _wrong(column: Column, value: Any) -> LineError:
    return LineError(f"field {column.name!r} should be {column}, but has {_shown(value)}")


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value)
    except ValueError:
        text = "a number of thousands of digits"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
