"""Puts together samples of pictures and other values, for datasets with a __getitem__ that was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..._common.batch_tree import arranged
from ..._common.torch_private import default_collate
from .python_collate import PythonCollate


@dataclass(frozen=True)
class ItemForm:
    """`form`: a sample as lists, tuples and dicts of numbers: 0 and up are values, -1 and down are pictures.
    `row_types`: one for each picture.
    """

    form: Any
    row_types: tuple[type, ...]

    def batch(self, pictures: list[Any], samples: list[tuple[Any, ...]]) -> Any:
        """The batch that default_collate makes of the samples."""
        zeros = [0] * len(self.row_types)
        return _with(pictures, self.form, default_collate([filled(self.form, zeros, s) for s in samples]))

    def samples(self, pictures: list[Any], samples: list[tuple[Any, ...]]) -> list[Any]:
        rows = [_rows(picture, kind) for picture, kind in zip(pictures, self.row_types)]
        return [filled(self.form, own, values) for own, values in zip(zip(*rows), samples)]


def _rows(picture: Any, kind: type) -> Any:
    rows = picture if isinstance(picture, tuple) else picture.unbind(0)  # tuple: ragged
    return rows if kind is torch.Tensor else [row.as_subclass(kind) for row in rows]


def filled(form: Any, pictures: Any, values: tuple[Any, ...]) -> Any:
    """A sample of this form, made of `pictures` and the other `values`."""
    return arranged(form, lambda number: values[number] if number >= 0 else pictures[-1 - number])


def _with(pictures: list[Any], form: Any, made: Any) -> Any:
    if type(form) is int:
        return pictures[-1 - form] if form < 0 else made
    if type(form) is dict:
        return {key: _with(pictures, part, made[key]) for key, part in form.items()}
    return [_with(pictures, part, field) for part, field in zip(form, made)]


@dataclass(frozen=True)
class ItemCollate(PythonCollate):
    """Takes pictures and the samples' other values; or None and whole samples, if Python made them."""

    form: ItemForm  # type: ignore[assignment,misc]

    def _batch(self, pictures: Any, values: list[Any]) -> Any:
        return default_collate(values) if pictures is None else self.form.batch(pictures, values)

    def _samples(self, pictures: Any, values: list[Any]) -> list[Any]:
        return values if pictures is None else self.form.samples(pictures, values)

    def samples_of(self, batch: tuple[Any, Any]) -> list[Any]:
        return self._samples(*batch)
