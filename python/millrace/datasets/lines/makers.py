"""Batches of lines: what default_collate() makes of the samples, without the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import default_collate

from millrace import _core

from ..batches import BatchMaker, MakerOptions

if TYPE_CHECKING:
    from .dataset import JSONL, Lines


class TextMaker(BatchMaker):
    """Of a Lines: lists of str. Any number of threads make batches at once; what they share is the dataset's
    open files.
    """

    def __init__(self, dataset: Lines) -> None:
        self._dataset = dataset

    def expect(self, indices: np.ndarray) -> np.ndarray:
        self._dataset.files.lines.will_read(indices)
        return indices

    def make(self, indices: np.ndarray) -> list[str]:
        return self._dataset._samples(indices)


class LineMaker(BatchMaker):
    """Of a JSONL: numbers are written into the batch's tensors natively. Threads as above."""

    def __init__(self, dataset: JSONL, options: MakerOptions) -> None:
        self._dataset, self._collate = dataset, options.collate
        self._memory = _core.BatchMemory(dataset.number_fields, options.slots, options.memory)
        self._before = dataset.reader.seconds()

    def expect(self, indices: np.ndarray) -> np.ndarray:
        self._dataset.files.lines.will_read(indices)
        return indices

    def make(self, indices: np.ndarray) -> Any:
        dataset = self._dataset
        if self._collate is not None:
            return self._collate(dataset._samples(indices))
        columns = [
            _collated(made) for made in dataset.read_columns(indices, self._memory.empty(len(indices)))
        ]
        return (
            columns[0]
            if dataset.is_whole
            else {column.name: made for column, made in zip(dataset.columns, columns)}
        )

    def seconds(self) -> dict[str, float]:
        return {name: spent - self._before[name] for name, spent in self._dataset.reader.seconds().items()}


def _collated(made: Any) -> Any:
    """A column as default_collate() has it; a list of str stays one."""
    if isinstance(made, torch.Tensor) or (made and isinstance(made[0], str)):
        return made
    return default_collate(made)
