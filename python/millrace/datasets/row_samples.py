"""RowSamples: single samples of what the engine gathers, by the engine itself, so that `ds[i]` and batches
are one code.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import torch

from .. import _core


class RowSamples:
    """Any thread and any process: each has an engine of its own, made at its first sample. `row_set`: a
    lowering.rows.RowSet.
    """

    def __init__(self, row_set: Any) -> None:
        self._row_set = row_set
        self._local = threading.local()

    def __getitem__(self, indices: Sequence[int]) -> list[Any]:
        """Samples, each what `ds[i]` is; indices from 0 to length - 1."""
        if not indices:
            return []
        gather = self._gather()
        if not gather.submit(list(indices)):
            raise IndexError(
                f"indices {min(indices)} to {max(indices)} are not all in a dataset of {self._row_set.length}"
                " samples"
            )
        rows = gather.next()
        assert rows is not None  # what was submitted
        columns = [_values(column.sample_type, made) for column, made in zip(self._row_set.columns, rows)]
        return [_sample(self._row_set.layout, columns, i) for i in range(len(indices))]

    def _gather(self) -> _core.RowGather:
        if getattr(self._local, "pid", None) != os.getpid():  # the first time here, or in a forked child
            rows = self._row_set
            self._local.gather = _core.RowGather([column.field() for column in rows.columns], rows.length)
            self._local.pid = os.getpid()
        return self._local.gather


def _values(sample_type: type, made: torch.Tensor) -> Any:
    return (
        made
        if sample_type is torch.Tensor
        else made.numpy()
        if sample_type not in (int, float)
        else made.tolist()
    )


def _sample(layout: Any, columns: Sequence[Any], i: int) -> Any:
    if isinstance(layout, int):
        return columns[layout][i]
    kind, parts = layout
    if kind is dict:
        return {name: _sample(part, columns, i) for name, part in parts}
    return tuple(_sample(part, columns, i) for part in parts)
