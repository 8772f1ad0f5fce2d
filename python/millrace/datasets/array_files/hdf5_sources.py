"""Datasets of HDF5 files as ArraySources: read natively, or through h5py under one lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._common.file_version import FileVersion
from ..._core import ChunkedArray, open_local_file
from ...errors import corrupt_data
from .sources import PerProcess, Range, box_shape, slices


@dataclass(frozen=True)
class HDF5File:
    """A file as it was when its metadata were read. Every read looks whether it still is: what the metadata
    say holds for no other.
    """

    path: str
    version: FileVersion

    @classmethod
    def now(cls, path: str) -> HDF5File:
        return cls(path, FileVersion.now(path))

    def check(self) -> None:
        """CorruptDataError when the file was changed, FileNotFoundError when it is gone."""
        if not self.version.is_of(FileVersion.now(self.path)):
            raise corrupt_data(
                self.path, f"{self.path} was changed since it was opened; make the HDF5 dataset anew"
            )


@dataclass
class Chunks:
    """Where the chunks of a dataset lie: int64 [chunks] each, `left_out` uint32; see _core.ChunkedArray."""

    cells: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    left_out: np.ndarray


@dataclass
class NativeDataset:
    """A dataset that threads read at the same time, without HDF5's lock. `chunk`: elements of a chunk along
    each axis.
    """

    file: HDF5File
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    dims: tuple[str | None, ...]
    chunk_rows: int | None
    chunk: tuple[int, ...]
    swap_bytes: int
    filters: tuple[tuple[str, int], ...]
    fill: bytes
    chunks: Chunks
    offset: int | None = None  # of a contiguous dataset that lies in the file whole
    reader: str = "native"
    _array: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._array = PerProcess(_open_natively, self.file, self.name, self._form(), self.chunks)

    @property
    def where(self) -> str:
        return self.file.path

    @property
    def swapped(self) -> bool:
        return self.swap_bytes > 1

    def _form(self) -> tuple[Any, ...]:
        return self.shape, self.chunk, self.dtype.itemsize, self.swap_bytes, self.filters, self.fill

    def read(self, box: Sequence[Range]) -> np.ndarray:
        self.file.check()
        out = np.empty(box_shape(box), self.dtype)
        self._array().read(box, out)
        return out


def _open_natively(file: HDF5File, name: str, form: tuple[Any, ...], chunks: Chunks) -> ChunkedArray:
    shape, chunk, element_bytes, swap_bytes, filters, fill = form
    source = open_local_file(file.path)
    return ChunkedArray(
        source,
        name,
        shape,
        chunk,
        element_bytes,
        swap_bytes,
        filters,
        fill,
        chunks.cells,
        chunks.offsets,
        chunks.sizes,
        chunks.left_out,
    )


# -- through h5py
# ------------------------------------------------------------------------------------------------------------

_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # the thread that held it may not exist here


os.register_at_fork(after_in_child=_new_lock)


@dataclass
class LockedDataset:
    """A dataset that only HDF5's own code can read: one thread at a time, with a file handle of this
    process.
    """

    file: HDF5File
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype | None
    dims: tuple[str | None, ...]
    chunk_rows: int | None
    reader: str
    _dataset: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._dataset = PerProcess(_open_dataset, self.file.path, self.name)

    @property
    def where(self) -> str:
        return self.file.path

    def read(self, box: Sequence[Range]) -> np.ndarray:
        self.file.check()
        with _lock:
            try:
                array = self._dataset()[slices(box)]
            except (OSError, RuntimeError, KeyError, ValueError) as error:
                rows = f"{box[0][0]}:{box[0][0] + box[0][1]}"
                raise corrupt_data(
                    self.where, f"{self.where}: rows {rows} of dataset {self.name!r} cannot be read: {error}"
                ) from error
        return array if self.dtype is None else np.ascontiguousarray(array, self.dtype)


def _open_dataset(path: str, name: str) -> Any:
    import h5py

    return h5py.File(path, "r")[name]
