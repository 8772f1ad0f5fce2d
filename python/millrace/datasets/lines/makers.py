"""Batches of lines: what default_collate() makes of the samples, without the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import default_collate

if TYPE_CHECKING:
    from .dataset import JSONL, Lines


class _Maker:
    """Any number of threads make batches at once; what they share is the dataset's open files."""

    def __init__(self, dataset: Any, options: Any) -> None:
        self._dataset, self._collate = dataset, options.collate

    def expect(self, indices: np.ndarray) -> None:
        self._dataset.files.lines.will_read(indices)

    def read_ahead(self) -> bool:
        return False

    def discard(self) -> None:
        pass

    def close(self) -> None:
        pass


class LineMaker(_Maker):
    """Of a JSONL: numbers are written into the batch's tensors natively."""

    _dataset: JSONL

    def make(self, indices: np.ndarray) -> Any:
        dataset = self._dataset
        if self._collate is not None:
            return self._collate(dataset._samples(indices))
        columns = [_collated(made) for made in dataset.read_columns(indices)]
        return columns[0] if dataset.is_whole else {column.name: made for column, made in zip(dataset.columns, columns)}


class TextMaker(_Maker):
    """Of a Lines: lists of str."""

    _dataset: Lines

    def make(self, indices: np.ndarray) -> Any:
        texts = self._dataset._samples(indices)
        return texts if self._collate is None else self._collate(texts)


def _collated(made: Any) -> Any:
    """A column as default_collate() has it; a list of str stays one."""
    if isinstance(made, torch.Tensor) or (made and isinstance(made[0], str)):
        return made
    return default_collate(made)
