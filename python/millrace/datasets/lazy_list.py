"""Samples and Targets: millions of (path, label) pairs that read like lists, kept as one block of characters
and one array.

As a list of tuples a million samples take about 200 MB, and a forked worker that touches their reference
counts copies them. These hold a `_core.PathTable` and an int64 array, and make the Python objects when they
are looked at. They cannot be written to in place; assign a whole new list instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from millrace import _core

from .._common.indices import checked_index

_BLOCK = 4096


class LazyList(Sequence):
    """A read-only list: indexes, slices (to a list), +, *, ==, iteration. `name` is the attribute it is found
    under.
    """

    name = ""

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._take(range(*index.indices(len(self))))
        return self._take((checked_index(index, len(self)),))[0]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), _BLOCK):
            yield from self._take(range(start, min(start + _BLOCK, len(self))))

    def _take(self, positions: Sequence[int]) -> list[Any]:
        """The items at `positions`, which are all inside."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, LazyList)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]  # as a list's

    def __add__(self, other: Sequence) -> list[Any]:
        return [*self, *other] if isinstance(other, (list, LazyList)) else NotImplemented

    def __radd__(self, other: Sequence) -> list[Any]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __mul__(self, times: int) -> list[Any]:
        return list(self) * times

    __rmul__ = __mul__

    def copy(self) -> list[Any]:
        return list(self)

    def __repr__(self) -> str:
        shown = [repr(item) for item in self[:3]]
        dots = [f"... {len(self) - 3} more"] if len(self) > 3 else []
        return f"[{', '.join(shown + dots)}]"

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{self.name} cannot be changed in place; assign a new list instead: `dataset.{self.name} ="
            f" [...]` (`list(dataset.{self.name})` gives one to start from)"
        )

    __setitem__ = __delitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse


class Samples(LazyList):
    """(path, class index) of every file."""

    name = "samples"

    def __init__(self, paths: _core.PathTable, labels: np.ndarray) -> None:
        self.paths = paths
        self.labels = labels

    def __len__(self) -> int:
        return len(self.paths)

    def _take(self, positions: Sequence[int]) -> list[tuple[str, int]]:
        return [(self.paths[i], int(self.labels[i])) for i in positions]


class Targets(LazyList):
    """The class index of every file; np.asarray() of it is quick."""

    name = "targets"

    def __init__(self, labels: np.ndarray) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def _take(self, positions: Sequence[int]) -> list[int]:
        if isinstance(positions, range) and positions.step == 1:
            return self.labels[positions.start : positions.stop].tolist()
        return self.labels[list(positions)].tolist()

    def __array__(self, dtype: Any | None = None, copy: bool | None = None) -> np.ndarray:
        # A copy unless refused: writing into the result must not change the dataset unnoticed.
        return self.labels.astype(dtype or np.int64, copy=copy is not False)


def pack_samples(samples: Sequence[Any]) -> tuple[_core.PathTable, np.ndarray] | None:
    """`samples` as a table of paths and an array of labels, or None where they are not pairs of a path and an
    int.
    """
    if isinstance(samples, Samples):
        return samples.paths, samples.labels
    labels = pack_targets([item[1] if _is_pair(item) else None for item in samples])
    return None if labels is None else (_core.PathTable([item[0] for item in samples]), labels)


def pack_targets(targets: Sequence[Any]) -> np.ndarray | None:
    """`targets` as an int64 array, or None where one of them is not an int."""
    if isinstance(targets, Targets):
        return targets.labels
    if not all(isinstance(target, (int, np.integer)) and not isinstance(target, bool) for target in targets):
        return None
    return np.fromiter(targets, np.int64, len(targets))


def _is_pair(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str)
