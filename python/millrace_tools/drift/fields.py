"""How much of the batches is looked at, and what counts as drift; and the fields of a batch of any nesting:
its tensors by their paths, texts by their lengths, samples of their own sizes together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from millrace import _core

from ..texts import refuse

KINDS = (
    "mean",
    "spread",
    "nan",
    "zeros",
    "range",
    "histogram",
    "classes",
    "lengths",
    "channels",
    "duplicates",
)


@dataclass(frozen=True)
class DriftOptions:
    """Options of `watch()`: how it looks at batches.

    Args:
        every: each so-manieth batch is looked at: batches with a number (from 0, counted over epochs) that
            divides by it, and the first `first` ones. "auto" begins with 1 and takes powers of two up to
            1024, so that looking costs less than `cost` of the loop's wall time.
        first: batches at the beginning that are looked at in any case.
        cost: share of the wall time that "auto" may take, of one CPU; it aims at half.
        rows: samples of a batch that are looked at, spread evenly over it.
        values: numbers of a sample per channel or column, in 16 runs spread evenly over it.
        exact: wait for the thread that looks, if it lags, rather than pass a batch over; with a number for
            `every`, each run then looks at the same batches.
        fields: the only fields that are looked at; None: all that have numbers or texts.
        ignore: raises no alarm: kinds ("duplicates"), fields ("meta.time"), or both ("image:mean").
        false_alarms: the probability that a run has any false alarm, of whatever length, if samples are drawn
            as the reference's were.
        least: factor on the shifts below which nothing is reported (docs/drift.md lists them); 2 asks for
            changes twice as large.
    """

    every: int | Literal["auto"] = "auto"
    first: int = 4
    cost: float = 0.02
    rows: int = 256
    values: int = 256
    exact: bool = False
    fields: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    false_alarms: float = 1e-3
    least: float = 1.0

    def __post_init__(self) -> None:
        counted = isinstance(self.every, int) and not isinstance(self.every, bool) and self.every > 0
        wholes = {"first": (self.first, 0), "rows": (self.rows, 1), "values": (self.values, 16)}
        shares = {
            "cost": (self.cost, 1.0),
            "false_alarms": (self.false_alarms, 1.0),
            "least": (self.least, math.inf),
        }
        names = {"fields": self.fields, "ignore": self.ignore}
        refuse(
            {
                f'every={self.every!r} is neither a number from 1 on nor "auto"': (
                    self.every != "auto" and not counted
                ),
                **{
                    f"{name}={value!r} is no whole number from {least} on": not isinstance(value, int)
                    or value < least
                    for name, (value, least) in wholes.items()
                },
                **{
                    f"{name}={value!r} is not between 0 and {most:g}": not 0 < value < most
                    for name, (value, most) in shares.items()
                },
                **{
                    f"{name}={value!r} should be a list of names": isinstance(value, str)
                    for name, value in names.items()
                },
            }
        )

    def ignores(self, field: str, kind: str) -> bool:
        return any(name in self.ignore for name in (field, kind, f"{field}:{kind}"))


_WHOLE = "batch"  # the name of a batch that is a tensor itself
_FEW = 8  # sequences of more tensors than this are samples, not fields
_DTYPES = {
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.bool: "bool",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
}


class Field(NamedTuple):
    """A field of a batch. `tensors`: one, with samples as its rows; for kind "ragged", one per sample. Kind
    "lengths": numbers of characters.
    """

    name: str
    tensors: list[torch.Tensor]
    dtype: str
    kind: str  # "data", "ragged" or "lengths"


def fields_of(batch: Any) -> list[Field]:
    """In the batch's order. Values that have no statistics (objects, sparse tensors, complex numbers, single
    numbers) are passed over.
    """
    found: list[Field] = []
    _walk("", batch, found, top=True)
    return found


def _walk(path: str, value: Any, found: list[Field], top: bool = False, per_sample: bool = False) -> None:
    if (tensor := _tensor(value)) is not None:
        if tensor.dim() > 0:
            found.append(Field(path or _WHOLE, [tensor], _DTYPES[tensor.dtype], "data"))
    elif isinstance(value, Mapping):
        for key, part in value.items():
            _walk(_joined(path, key), part, found)
    elif isinstance(value, (str, bytes, bytearray)):
        return
    elif isinstance(value, Sequence):
        _walk_sequence(path, value, found, top, per_sample)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            _walk(_joined(path, field.name), getattr(value, field.name, None), found)


def _walk_sequence(path: str, values: Sequence[Any], found: list[Field], top: bool, per_sample: bool) -> None:
    if not values:
        return
    named = getattr(values, "_fields", None)
    if named is None and _are_samples(values, top, per_sample):
        _walk_samples(path, values, found)
        return
    # list(zip(*samples)), as detection models have it: every member is a sequence over the samples.
    members = [member for member in values if isinstance(member, (list, tuple))]
    zipped = (
        top
        and len(members) == len(values) > 1
        and len({len(member) for member in members}) == 1
        and not _are_batches(members)
    )
    for name, part in zip(named or range(len(values)), values):
        _walk(_joined(path, name), part, found, per_sample=zipped)


def _are_samples(values: Sequence[Any], top: bool, per_sample: bool) -> bool:
    first = values[0]
    if isinstance(first, (str, bytes, int, float, bool)):
        return all(isinstance(value, (str, bytes)) == isinstance(first, (str, bytes)) for value in values)
    if isinstance(first, Mapping):
        return all(isinstance(value, Mapping) for value in values)
    many = per_sample or len(values) > _FEW
    if many and isinstance(first, (torch.Tensor, np.ndarray)):
        return all(isinstance(value, type(first)) for value in values)
    return top and many and isinstance(first, (list, tuple)) and all(
        isinstance(value, type(first)) and len(value) == len(first) for value in values)  # fmt: skip


def _are_batches(members: Sequence[Sequence[Any]]) -> bool:
    """Whether all are tensors of as many rows: fields in two levels, as nested datasets give them."""
    parts = [part for member in members for part in member]
    return (
        all(isinstance(part, torch.Tensor) and part.dim() > 0 for part in parts)
        and len({len(part) for part in parts}) == 1
    )


def _walk_samples(path: str, values: Sequence[Any], found: list[Field]) -> None:
    """`values`: what each sample has of one thing."""
    first = values[0]
    if isinstance(first, (str, bytes)):
        lengths = torch.tensor(
            [len(value) for value in values if isinstance(value, (str, bytes))], dtype=torch.int64
        )
        found.append(Field(path or _WHOLE, [lengths], "int64", "lengths"))
    elif isinstance(first, (bool, int, float)):
        try:
            tensor = torch.tensor(values)
        except (TypeError, ValueError, RuntimeError, OverflowError):  # None among them, or beyond 64 bits
            return
        if tensor.dtype in _DTYPES:
            found.append(Field(path or _WHOLE, [tensor], _DTYPES[tensor.dtype], "data"))
    elif isinstance(first, Mapping):
        for key in first:
            if parts := [value[key] for value in values if key in value]:
                _walk_samples(_joined(path, key), parts, found)
    elif isinstance(first, (list, tuple)):
        for position in range(len(first)):
            _walk_samples(
                _joined(path, position), [value[position] for value in values if len(value) > position], found
            )
    else:
        tensors = [each for value in values if (each := _tensor(value)) is not None]
        if not tensors:
            return
        dtype = tensors[0].dtype
        tensors = [tensor for tensor in tensors if tensor.dtype == dtype]
        if tensors[0].dim() == 0:
            numbers = torch.stack([tensor.cpu() for tensor in tensors if tensor.dim() == 0])
            found.append(Field(path or _WHOLE, [numbers], _DTYPES[dtype], "data"))
        else:
            found.append(
                Field(
                    path or _WHOLE,
                    [tensor for tensor in tensors if tensor.dim() > 0],
                    _DTYPES[dtype],
                    "ragged",
                )
            )


def _tensor(value: Any) -> torch.Tensor | None:
    """The tensor, array or PIL image as a tensor that can be read in place; None for other values."""
    if isinstance(value, torch.Tensor):
        if value.dtype not in _DTYPES or value.layout is not torch.strided or value.is_nested:
            return None
        value = value.detach()
        return value if value.device.type != "cpu" or _core.is_plain_tensor(value) else None
    if isinstance(value, np.ndarray) or (
        hasattr(value, "__array_interface__") and hasattr(value, "getbands")
    ):
        try:
            array = np.asarray(value)
            tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        except (TypeError, ValueError):  # objects, texts, big-endian or negative strides
            return None
        return tensor if tensor.dtype in _DTYPES else None
    return None


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)
