"""Hashes of batches: one for each row of each field, so that two batches that differ can be told where they
do.

A field is a tensor, an array, or a list of plain values, wherever in the batch it is; its rows lie along the
first dimension. A row's hash is the XXH64 of its bytes, a field's that of its dtype and shape, then its rows'
hashes, a batch's that of its fields' hashes.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import _core

_PLAIN = (str, bytes, bytearray, int, float, complex, bool, type(None))


class FieldHash(NamedTuple):
    path: str  # "[0]", "['image']", ".x": after the name of the batch
    kind: str  # dtype and shape, or the type
    rows: np.ndarray  # uint64


class BatchHash:
    """The fields of one batch, and one number for all of them."""

    def __init__(self, fields: list[FieldHash]) -> None:
        self.fields = fields
        lines = "\n".join(f"{field.path} {field.kind} {_field_value(field)}" for field in fields)
        self.value = _of_bytes(lines.encode(errors="surrogatepass"))
        self.nbytes = sum(field.rows.nbytes + 200 for field in fields)

    @staticmethod
    def of(batch: Any) -> BatchHash:
        fields: list[FieldHash] = []
        _walk(batch, "", fields)
        return BatchHash(fields)

    @property
    def text(self) -> str:
        return f"{self.value:016x}"

    def field_texts(self) -> dict[str, str]:
        return {field.path: f"{_field_value(field):016x}" for field in self.fields}

    def difference(self, other: BatchHash) -> str | None:
        """Where `other` is not this one, in words; None: nowhere."""
        if self.value == other.value:
            return None
        mine, theirs = ({field.path: field for field in fields} for fields in (self.fields, other.fields))
        if list(mine) != list(theirs):
            return f"its parts were {list(mine)} and are {list(theirs)}"
        for path, field in mine.items():
            found = theirs[path]
            if field.kind != found.kind:
                return f"batch{path} was {field.kind} and is {found.kind}"
            wrong = np.flatnonzero(field.rows != found.rows)
            if len(wrong):
                return (
                    f"batch{path} differs in {len(wrong)} of {len(field.rows)} rows, first in row {wrong[0]}"
                )
        return "its parts differ"


def _field_value(field: FieldHash) -> int:
    return _of_bytes(field.rows.tobytes()) ^ _of_bytes(field.kind.encode())


def _of_bytes(data: bytes) -> int:
    return int(_core.hash_rows(np.frombuffer(data or b"\0", np.uint8).reshape(1, -1))[0])


def _walk(value: Any, path: str, fields: list[FieldHash]) -> None:
    if isinstance(value, torch.Tensor):
        fields.append(_of_tensor(value, path))
    elif isinstance(value, np.ndarray) and value.dtype != object:
        kind = f"{value.dtype}{list(value.shape)}"
        fields.append(FieldHash(path, kind, _rows(np.ascontiguousarray(value), value.shape)))
    elif isinstance(value, Mapping):
        for key, part in value.items():
            _walk(part, f"{path}[{key!r}]", fields)
    elif isinstance(value, Sequence) and not isinstance(value, _PLAIN):
        if len(value) and all(isinstance(part, _PLAIN) for part in value):
            fields.append(FieldHash(path, f"{type(value).__name__} of {len(value)}", _of_objects(value)))
            return
        names = getattr(value, "_fields", None)
        for number, part in enumerate(value):
            _walk(part, f"{path}.{names[number]}" if names else f"{path}[{number}]", fields)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            _walk(getattr(value, field.name, None), f"{path}.{field.name}", fields)
    else:
        fields.append(FieldHash(path, type(value).__name__, _of_objects([value])))


def _of_tensor(tensor: torch.Tensor, path: str) -> FieldHash:
    kind = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    try:
        dense = tensor.detach().cpu().resolve_conj().contiguous()
        return FieldHash(path, kind, _rows(dense.reshape(-1).view(torch.uint8).numpy(), tensor.shape))
    except (RuntimeError, TypeError, ValueError):  # sparse, nested, quantised
        return FieldHash(path, kind, _of_objects([tensor]))


def _rows(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    rows = shape[0] if len(shape) else 1
    if rows == 0 or array.size == 0:
        return np.zeros(rows, np.uint64)
    return _core.hash_rows(array.reshape(-1).view(np.uint8).reshape(rows, -1))


def _of_objects(values: Sequence[Any]) -> np.ndarray:
    return np.array([_of_bytes(_contents(value)) for value in values], np.uint64)


def _contents(value: Any) -> bytes:
    try:
        return value.encode(errors="surrogatepass") if type(value) is str else pickle.dumps(value, 4)
    except Exception:  # what cannot be pickled has no content that could be compared
        return type(value).__qualname__.encode()
