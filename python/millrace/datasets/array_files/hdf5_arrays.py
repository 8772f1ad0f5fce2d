"""Datasets of HDF5 files as ArraySources: h5py reads the metadata once; data are read natively, or through
h5py under one lock.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._common.optional import optional
from ..._common.per_process import PerProcess
from ..._common.regular_files import FileVersion
from ..._core import ChunkedArray, open_local_file
from ...errors import corrupt_data, damage_named
from .sources import ArraySource, Fields, Range, named_fields, plain_dtype, slices


@dataclass(frozen=True)
class HDF5File:
    """The version of a file when its metadata were read. Every read checks that the file is still the same:
    the metadata hold only for that version.
    """

    path: str
    version: FileVersion

    def check(self) -> None:
        """CorruptDataError if the file was changed, FileNotFoundError if it is gone."""
        if not self.version.is_of(FileVersion.now(self.path)):
            raise corrupt_data(
                self.path, f"{self.path} was changed since it was opened; make the HDF5 dataset anew"
            )


# the places of a dataset's chunks: cells, offsets, sizes, left out; see _core.ChunkedArray
Chunks = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass
class NativeDataset(ArraySource):
    """A dataset that threads read at the same time, without HDF5's lock. `chunk`: elements of a chunk along
    each axis.
    """

    dtype: np.dtype
    file: HDF5File
    chunk: tuple[int, ...]
    swap_bytes: int
    filters: tuple[tuple[str, int], ...]
    fill: bytes
    chunks: Chunks
    offset: int | None = None  # of a contiguous dataset, which the file has in one piece
    _array: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        form = self.shape, self.chunk, self.dtype.itemsize, self.swap_bytes, self.filters, self.fill
        self._array = PerProcess(_open_natively, self.file, self.name, *form, *self.chunks)

    @property
    def reader(self) -> str:
        return "native"

    def read(self, box: Sequence[Range]) -> np.ndarray:
        self.file.check()
        out = np.empty([count for _, count, _ in box], self.dtype)
        self._array().read(box, out)
        return out


def _open_natively(file: HDF5File, name: str, *form: Any) -> ChunkedArray:
    return ChunkedArray(open_local_file(file.path), name, *form)


# -- through h5py
# ------------------------------------------------------------------------------------------------------------

_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # the thread that held it may not exist here


os.register_at_fork(after_in_child=_new_lock)


@dataclass
class LockedDataset(ArraySource):
    """A dataset that only HDF5's own code can read: one thread at a time, with a file handle of this
    process.
    """

    file: HDF5File
    why_not: str  # natively
    own_axes: int  # axes of the dataset; after them come those of its elements, which are arrays
    named: HDF5File  # opened by this name: the name of a link's target is not always known
    _dataset: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._dataset = PerProcess(_open_dataset, self.named.path, self.name)

    @property
    def reader(self) -> str:
        return f"h5py, under one lock: {self.why_not}"

    def read(self, box: Sequence[Range]) -> np.ndarray:
        self.named.check()
        self.file.check()
        return super().read(box)

    def get(self, box: Sequence[Range]) -> Any:
        own = self.own_axes
        with _lock:
            part = self._dataset()[slices(box[:own])]
        return part if own == len(box) else part[(slice(None),) * own + slices(box[own:])]


def _open_dataset(path: str, name: str) -> Any:
    import h5py

    return h5py.File(path, "r")[name]


_BLOCK_BYTES = 1 << 20  # of a contiguous dataset, read at once
_FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32"}
_NAMES = {
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32015: "zstd",
    32026: "blosc2",
}


def read_metadata(path: str, fields: Fields) -> dict[str, ArraySource]:
    """{field: source} of one file, in the order of `fields`; all datasets of the file when that is None.

    FileNotFoundError; CorruptDataError for a file that is no HDF5 file, or is cut short; ValueError for a
    name that is no dataset with rows.
    """
    h5py = optional("h5py", "HDF5 files are read by", "h5py")
    state = HDF5File(path, FileVersion.now(path))
    named = None if fields is None else named_fields(fields)
    with _opened(h5py, path) as file:
        if named is None:  # all with rows, but for coordinates of axes, which are as long as their axis
            listed = _listed(h5py, file)
            named = {name: name for name in listed if file[name].shape and not file[name].is_scale}
        if not named:
            raise ValueError(
                f"{path} holds no dataset with rows; what is in it:"
                f" {', '.join(_listed(h5py, file)) or 'nothing'}; what links lead to is read when"
                " fields= names it"
            )
        return {name: _source(h5py, state, file, at) for name, at in named.items()}


@contextmanager
def _opened(h5py: Any, path: str) -> Iterator[Any]:
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        if error.errno is not None:  # missing, not allowed, or locked by its writer
            raise
        raise corrupt_data(path, f"{path} cannot be opened as an HDF5 file: {error}") from error
    with file, damage_named(path, "its metadata are damaged"):
        yield file


def _listed(h5py: Any, file: Any) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return found


def _source(h5py: Any, state: HDF5File, file: Any, name: str) -> ArraySource:
    path = state.path
    try:
        dataset = file[name]
    except (KeyError, ValueError) as error:
        if isinstance(link := _link(h5py, file, name), h5py.ExternalLink):
            raise ValueError(
                f"{name!r} in {path} leads to {link.path!r} in {link.filename}, which cannot be opened:"
                f" {error}; bring that file to its place"
            ) from None
        raise ValueError(
            f"{path} has no dataset {name!r}; it has {', '.join(_listed(h5py, file)) or 'none'}"
        ) from None
    if not isinstance(dataset, h5py.Dataset):
        raise ValueError(
            f"{name!r} in {path} is a group, not a dataset; it holds {', '.join(dataset) or 'nothing'}"
        )
    if not dataset.shape:
        raise ValueError(
            f"dataset {name!r} in {path} has no rows: it is"
            f" {'empty' if dataset.shape is None else 'a single value'}"
        )
    named = state
    if dataset.file.filename != file.filename:  # reached by an external link, maybe of a group above it
        outside = os.path.abspath(dataset.file.filename)
        state = HDF5File(outside, FileVersion.now(outside))
    element, inner = dataset.dtype.subdtype or (dataset.dtype, ())
    dtype, dims = plain_dtype(element), (*_dims(dataset), *(None,) * len(inner))
    layout = dataset.id.get_create_plist().get_layout()
    chunk_rows = dataset.chunks[0] if dataset.chunks else None
    why_not = keeps_from_native(h5py, dataset, layout, dtype)
    if why_not is None:
        assert dtype is not None
        return _native(state, dataset, name, dtype, dims)
    shape = (*dataset.shape, *inner)
    return LockedDataset(
        state.path, name, shape, dtype, dims, chunk_rows, state, why_not, dataset.ndim, named
    )


def _link(h5py: Any, file: Any, name: str) -> Any:
    """The first link on the way to `name` that leads out of the file, else the last one there, or None."""
    link = None
    for end in [i for i, letter in enumerate(name) if letter == "/" and i] + [len(name)]:
        link = file.get(name[:end], getlink=True)
        if link is None or isinstance(link, h5py.ExternalLink):
            break
    return link


def _dims(dataset: Any) -> tuple[str | None, ...]:
    """Labels of the axes, or the names of the scales attached to them, as in netCDF-4."""
    if dataset.is_scale and dataset.ndim == 1:
        return (dataset.name.rsplit("/", 1)[-1],)
    return tuple(
        axis.label or (axis[0].name.rsplit("/", 1)[-1] if len(axis) else None) or None
        for axis in dataset.dims
    )


def keeps_from_native(h5py: Any, dataset: Any, layout: int, dtype: np.dtype | None) -> str | None:
    """The reason why HDF5's own code has to read the dataset, or None."""
    file = dataset.file
    if dtype is None or dataset.dtype.subdtype is not None:
        return f"its values are {dataset.dtype}"
    if not dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype, logical=True)):
        return "its numbers are stored in a form of their own"
    if dataset.is_virtual or dataset.external or layout not in (h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED):
        return "it is virtual, external or compact"
    if file.driver != "sec2" or (file.userblock_size and h5py.version.hdf5_version_tuple < (1, 14, 0)):
        return "the file has a driver or user block"
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    if odd := [_NAMES.get(number, str(number)) for number in filters if number not in _FILTERS]:
        return f"it is filtered by {', '.join(odd)}"
    return "it is deflated twice" if filters.count(1) > 1 else None


def _native(
    state: HDF5File, dataset: Any, name: str, dtype: np.dtype, dims: tuple[str | None, ...]
) -> NativeDataset:
    form, chunks = native_form(dataset, dtype)
    shape, chunk, _, swap, filters, fill = form
    chunk_rows = dataset.chunks[0] if dataset.chunks else None
    offset = None if dataset.chunks else dataset.id.get_offset()
    return NativeDataset(
        *(state.path, name, shape, dtype, dims, chunk_rows, state, chunk, swap, filters, fill, chunks),
        offset,
    )


def native_form(dataset: Any, dtype: np.dtype) -> tuple[tuple[Any, ...], Chunks]:
    """(shape, chunk, bytes of an element, swap_bytes, filters, fill) as _core.ChunkedArray takes them, and
    the places of the chunks, for a dataset without a reason of keeps_from_native(). `dtype`: from
    plain_dtype().
    """
    stored, shape = dataset.dtype, dataset.shape
    parts = 2 if dtype.kind == "c" else 1
    first = stored if stored.fields is None else next(iter(stored.fields.values()))[0]
    swap = 1 if first.isnative else dtype.itemsize // parts
    fill = np.asarray(dataset.fillvalue if dataset.fillvalue is not None else 0).astype(dtype).tobytes()
    properties = dataset.id.get_create_plist()
    stored_by = [properties.get_filter(i) for i in range(properties.get_nfilters())]
    filters = tuple((_FILTERS[number], values[0] if number == 2 else 0) for number, _, values, _ in stored_by)
    if dataset.chunks:
        chunk, chunks = dataset.chunks, _chunk_places(dataset)
    else:
        chunk, chunks = _blocks(shape, dtype.itemsize, dataset.id.get_offset())
    return (shape, chunk, dtype.itemsize, swap, filters, fill), chunks


def _chunk_places(dataset: Any) -> Chunks:
    """The places of the chunks, from HDF5 itself, in one walk through its index."""
    found: list[Any] = []
    dataset.id.chunk_iter(found.append)
    corners = np.array([place.chunk_offset for place in found], np.int64).reshape(len(found), dataset.ndim)
    grid = [-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks)]
    steps = np.array([math.prod(grid[axis + 1 :]) for axis in range(dataset.ndim)], np.int64)
    return (
        (corners // np.array(dataset.chunks)) @ steps,
        np.array([place.byte_offset for place in found], np.int64),
        np.array([place.size for place in found], np.int64),
        np.array([place.filter_mask for place in found], np.uint32),
    )


def _blocks(shape: tuple[int, ...], element_bytes: int, offset: int | None) -> tuple[tuple[int, ...], Chunks]:
    """A contiguous dataset as chunks of whole rows. Without an offset, it was never written, and all its
    values are the fill value.
    """
    row_bytes = math.prod(shape[1:]) * element_bytes
    rows = max(1, min(max(shape[0], 1), _BLOCK_BYTES // max(row_bytes, 1)))
    starts = np.arange(0, shape[0], rows, dtype=np.int64)
    if offset is None or row_bytes == 0:
        starts = starts[:0]
    sizes = np.minimum(shape[0] - starts, rows) * row_bytes
    left_out = np.zeros(len(starts), np.uint32)
    places = starts // rows, (offset or 0) + starts * row_bytes, sizes, left_out
    return (rows, *(max(size, 1) for size in shape[1:])), places
