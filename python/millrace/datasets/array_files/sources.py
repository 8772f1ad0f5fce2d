"""ArraySource: one array in a file or store, of which boxes are read. What holds for all readers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

Range = tuple[int, int, int]  # start, count, step along one axis


class ArraySource(Protocol):
    """What datasets ask of an array. Sources hold no open file: they can be pickled, and open what they need
    once per process.

    `where`: the file or store, for messages; `name`: the array in it. `dtype`: in the machine's byte order,
    None for values that are no numbers (text, records). `dims`: names of the axes, None where the file has
    none. `chunk_rows`: rows of a chunk, None where any cut is as good. `reader`: who reads it, for people.
    read() may be called by several threads at once, and gives the box dense.
    """

    where: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype | None
    dims: tuple[str | None, ...]
    chunk_rows: int | None
    reader: str

    def read(self, box: Sequence[Range]) -> np.ndarray: ...


class PerProcess:
    """A thing that each process makes for itself, at first use, and that pickles leave out.

    Two threads may make it at the same time; then one of the two is dropped, so making it twice has to be
    harmless.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._make, self._arguments = make, arguments
        self._held: tuple[int, Any] = (-1, None)

    def __call__(self) -> Any:
        pid, thing = self._held
        if pid != os.getpid():
            thing = self._make(*self._arguments)
            self._held = (os.getpid(), thing)
        return thing

    def __getstate__(self) -> tuple[Any, ...]:
        return self._make, self._arguments

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._make, self._arguments = state
        self._held = (-1, None)


def box_shape(box: Sequence[Range]) -> tuple[int, ...]:
    return tuple(count for _, count, _ in box)


def slices(box: Sequence[Range]) -> tuple[slice, ...]:
    """The box as numpy, h5py and zarr want it."""
    return tuple(
        slice(start, start + max(count - 1, 0) * step + (count > 0), step) for start, count, step in box
    )


def plain_dtype(dtype: Any) -> np.dtype | None:
    """The dtype of batches in the machine's byte order; None when torch has none for it."""
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        return None
    if (
        dtype.kind not in "biufc"
        or dtype.itemsize > 16
        or dtype.name in ("longdouble", "float128", "float96")
    ):
        return None
    return dtype.newbyteorder("=")


def python_values(array: np.ndarray) -> list[Any]:
    """Rows that are no numbers as values of Python: text as str, records as dicts of their members, arrays of
    them as lists.
    """
    if array.dtype.names is not None:
        parts = {name: python_values(array[name]) for name in array.dtype.names}
        return (
            [dict(zip(parts, values)) for values in zip(*parts.values())]
            if array.ndim == 1
            else [python_values(row) for row in array]
        )
    plain = plain_dtype(array.dtype)
    if plain is not None:
        return list(array.astype(plain))
    if array.ndim > 1:
        return [python_values(row) for row in array]
    return [_python_value(value) for value in array]


def _python_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value) if isinstance(value, str) else value  # numpy's str_ too
