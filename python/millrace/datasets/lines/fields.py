"""The fields wanted of each line of JSON: a field's type, its path, its default if it is missing; and fields
found in the first lines if none are named.
"""

from __future__ import annotations

import enum
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import torch

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")
PLAIN = {
    "bool": bool,
    "int64": int,
    "float64": float,
}  # what default_collate() makes tensors of these types from


class Missing(enum.Enum):
    """The treatment of lines without a value."""

    RAISE = enum.auto()


RAISE = Missing.RAISE


@dataclass(frozen=True)
class JSONField:
    """One field of a line, where a type alone does not say enough.

    Args:
        type: as in JSONL's `fields`.
        path: keys that lead to the value, joined by dots; a tuple of them where a key has a dot in it. None:
            the field's name.
        default: in place of a value that is missing, or null where the type is not `json`. RAISE: such lines
            are bad.
    """

    type: Any
    path: None | str | tuple[str, ...] = None
    default: Any = RAISE


@dataclass(frozen=True)
class Column:
    """A field, checked."""

    name: str
    path: tuple[str, ...]  # (): the whole line
    kind: str  # "number", of a fixed shape; "list", of any length; "text"; "object", any value
    dtype: str = "int64"  # of numbers
    shape: tuple[int, ...] = ()  # of a number field's value; of a list's elements
    default: Any = RAISE

    @property
    def native(self) -> tuple[list[str], str, str, list[int], bytes | None]:
        """As _core.JsonLines takes it."""
        return list(self.path), self.kind, self.dtype, list(self.shape), self._instead()

    def __str__(self) -> str:
        if self.kind == "text":
            return "a string"
        if self.kind == "object":
            return "any value"
        shape = "".join(f"[{size}]" for size in self.shape)
        return f"{self.dtype}{'[any]' if self.kind == 'list' else ''}{shape}"

    def _instead(self) -> bytes | None:
        if self.default is RAISE:
            return None
        if self.kind == "text":
            return self.default.encode()
        if self.kind == "object":
            return b"".join(_events(self.default))
        return self.default.numpy().tobytes()


class Guessed(tuple[Column, ...]):
    """Columns that nobody named. A line with another key is bad: its value would be lost unnoticed."""


WHOLE_LINE = (Column("", (), "object"),)


Fields = Union[None, str, Mapping[str, Any]]


def given_columns(fields: Fields) -> tuple[Column, ...] | None:
    """`fields` as users give it, checked; None where they are to be found out. ValueError or TypeError says
    which of them means nothing.
    """
    if fields is None or fields == "objects":
        return None if fields is None else WHOLE_LINE
    if not isinstance(fields, Mapping) or not fields:
        raise ValueError(f"fields should be a dict from names to types, None or 'objects', but is {fields!r}")
    return tuple(_column(name, field) for name, field in fields.items())


def laid_out(columns: Sequence[Column], values: Sequence[Any]) -> Any:
    """One value for each column as a sample has them, or as a batch has."""
    if columns == WHOLE_LINE:
        return values[0]
    return {column.name: value for column, value in zip(columns, values)}


def _column(name: Any, given: Any) -> Column:
    if not isinstance(name, str):
        raise TypeError(f"fields: names are strings, not {name!r}")
    field = given if isinstance(given, JSONField) else JSONField(given)
    path = name if field.path is None else field.path
    keys = tuple(path.split(".")) if isinstance(path, str) else tuple(path)
    if not keys or not all(isinstance(key, str) for key in keys):
        raise ValueError(
            f"field {name!r}: path={field.path!r} should be keys joined by dots, or a tuple of them"
        )
    kind, dtype, shape = _type_of(name, field.type)
    column = Column(name, keys, kind, dtype, shape)
    return (
        column
        if field.default is RAISE
        else Column(name, keys, kind, dtype, shape, _default(column, field.default))
    )


def _type_of(name: str, wanted: Any) -> tuple[str, str, tuple[int, ...]]:
    if wanted is str:
        return "text", "int64", ()
    if wanted is json or wanted is object:
        return "object", "int64", ()
    if not isinstance(wanted, tuple):
        return "number", _dtype_named(name, wanted), ()
    if len(wanted) != 2 or not isinstance(wanted[1], Sequence) or isinstance(wanted[1], str) or not wanted[1]:
        raise ValueError(
            f"field {name!r}: lists are (dtype, shape), as (float, (8,)) or (int, (None,)), not {wanted!r}"
        )
    shape = tuple(wanted[1])
    fixed = shape[1:] if shape[0] is None else shape
    if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in fixed):
        raise ValueError(
            f"field {name!r}: sizes are whole numbers, the first one None where lists have any length, not"
            f" {shape!r}"
        )
    return ("list" if shape[0] is None else "number"), _dtype_named(name, wanted[0]), fixed


def _dtype_named(name: str, wanted: Any) -> str:
    try:
        known = (
            str(wanted).removeprefix("torch.") if isinstance(wanted, torch.dtype) else np.dtype(wanted).name
        )
    except TypeError:
        known = repr(wanted)
    if known not in DTYPES:
        raise ValueError(
            f"field {name!r}: {known} is no type of a field; take str, json, {', '.join(DTYPES)}, or (dtype,"
            " shape) of these"
        )
    return known


def _default(column: Column, value: Any) -> Any:
    """The default as the column has it: str, an object, or a tensor of the field's dtype and shape."""
    wrong = f"field {column.name!r}: default={value!r} is not {column}"
    if column.kind == "text":
        if not isinstance(value, str):
            raise ValueError(wrong)
        return value
    if column.kind == "object":
        try:
            return json.loads(json.dumps(value))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{wrong} of JSON's: {error}") from None
    try:
        made = torch.as_tensor(np.asarray(value)).to(getattr(torch, column.dtype))
        made = (
            made.reshape(-1, *column.shape)
            if column.kind == "list"
            else made.expand(column.shape).contiguous()
        )
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(wrong) from None
    return made


def _events(value: Any) -> list[bytes]:
    """A value of JSON's as src/json/json_fields.h writes it."""
    if value is None or isinstance(value, bool):
        return [b"n" if value is None else b"t" if value else b"f"]
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ValueError(f"default {value}: whole numbers of a default have at most 64 bits")
        return [struct.pack("=cq", b"i", value) if value < 2**63 else struct.pack("=cQ", b"u", value)]
    if isinstance(value, float):
        return [struct.pack("=cd", b"d", value)]
    if isinstance(value, str):
        return [struct.pack("=cQ", b"s", len(value.encode())), value.encode()]
    parts = [struct.pack("=cQ", b"{" if isinstance(value, dict) else b"[", len(value))]
    for item in value:
        parts += _events(item)
        if isinstance(value, dict):
            parts += _events(value[item])
    return parts


FIRST_LINES = 100
FIRST_BYTES = 1 << 20


def infer(lines: Sequence[Any]) -> tuple[Column, ...]:
    """Columns that give what default_collate() gives of these lines' objects; WHOLE_LINE where they have no
    common fields.

    A field is a number, text or list where all lines have it so; a bool, int64 or float64 (where some are
    ints, too). Lists of numbers of one length are of a fixed shape, else of any length. Whatever else there
    is stays an object.
    """
    first = lines[0] if lines else None
    if (
        not isinstance(first, dict)
        or not first
        or any(not isinstance(line, dict) or line.keys() != first.keys() for line in lines)
    ):
        return WHOLE_LINE
    return Guessed(_inferred(name, [line[name] for line in lines]) for name in first)


def _inferred(name: str, values: list[Any]) -> Column:
    path = (name,)
    if all(isinstance(value, str) for value in values):
        return Column(name, path, "text")
    dtype = _common_dtype(values)
    if dtype is not None:
        return Column(name, path, "number", dtype)
    if all(isinstance(value, list) for value in values):
        lengths = {len(value) for value in values}
        dtype = _common_dtype([element for value in values for element in value])
        if dtype is not None:
            return (
                Column(name, path, "number", dtype, (lengths.pop(),))
                if len(lengths) == 1
                else Column(name, path, "list", dtype)
            )
    return Column(name, path, "object")


def _common_dtype(values: list[Any]) -> str | None:
    if not values:
        return None
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
        return None
    if all(isinstance(value, int) for value in values):
        return "int64" if all(-(2**63) <= value < 2**63 for value in values) else None
    return "float64"
