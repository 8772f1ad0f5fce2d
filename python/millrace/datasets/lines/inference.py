"""Fields of JSON lines that nobody named, from the first lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .fields import WHOLE_LINE, Column

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
    return tuple(_column(name, [line[name] for line in lines]) for name in first)


def _column(name: str, values: list[Any]) -> Column:
    path = (name,)
    if all(isinstance(value, str) for value in values):
        return Column(name, path, "text")
    dtype = _dtype(values)
    if dtype is not None:
        return Column(name, path, "number", dtype)
    if all(isinstance(value, list) for value in values):
        lengths = {len(value) for value in values}
        dtype = _dtype([element for value in values for element in value])
        if dtype is not None:
            return (
                Column(name, path, "number", dtype, (lengths.pop(),))
                if len(lengths) == 1
                else Column(name, path, "list", dtype)
            )
    return Column(name, path, "object")


def _dtype(values: list[Any]) -> str | None:
    if not values:
        return None
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
        return None
    if all(isinstance(value, int) for value in values):
        return "int64" if all(-(2**63) <= value < 2**63 for value in values) else None
    return "float64"


def described(columns: Sequence[Column]) -> str:
    """For messages: the `fields=` that say the same."""
    if tuple(columns) == WHOLE_LINE:
        return "'objects'"
    return json.dumps({column.name: str(column) for column in columns})
