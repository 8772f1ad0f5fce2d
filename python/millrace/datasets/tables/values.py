"""Columns whose values are Python's: text, lists of any length, whatever has no dtype. Each has take(rows) ->
list and nbytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from millrace.errors import corrupt_data

from .arrow_package import arrow


class PythonValues:
    """An Arrow array whose rows become str, bytes, lists and dicts, as its to_pylist() has them. `place`
    names it in messages.
    """

    def __init__(self, array: Any, file: str, place: str) -> None:
        self._array, self._file, self._place = array, file, place
        self.nbytes = array.nbytes

    def take(self, rows: np.ndarray) -> list[Any]:
        try:
            return self._array.take(arrow().array(rows)).to_pylist()
        except UnicodeDecodeError as error:
            raise corrupt_data(
                self._file, f"{self._file}: {self._place} holds text that is not UTF-8 ({error.reason})"
            ) from None


class Ragged:
    """Lists of numbers of any length: row i is values[ends[i]:ends[i + 1]], `values` of shape (elements,
    *shape).
    """

    def __init__(self, values: np.ndarray, ends: np.ndarray) -> None:
        self.values, self.ends = values, ends
        self.nbytes = values.nbytes + ends.nbytes

    def take(self, rows: np.ndarray) -> list[torch.Tensor]:
        """Tensors that share one block of memory, which is the caller's."""
        starts = self.ends[rows]
        sizes = self.ends[rows + 1] - starts
        borders = np.cumsum(sizes) - sizes
        chosen = np.repeat(starts - borders, sizes) + np.arange(int(sizes.sum()))
        return list(torch.from_numpy(self.values[chosen]).split(sizes.tolist())) if len(rows) else []
