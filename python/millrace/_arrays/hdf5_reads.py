"""Answers a dataset's calls of h5py (a name in a group, a row of an array) without HDF5, if the file is open
for reading alone, in one process, so that nothing in it changes.

    file["x"]        the object that the first such lookup made, 100 us sooner
    file["x"][i]     read by ChunkedArray from the descriptor that HDF5 has open; decoded chunks are kept

Everything else is h5py's: other keys, values, filters and drivers, files that are written, closed ones; and
whatever fails here, so that errors are h5py's own.
"""

from __future__ import annotations

import math
import os
import sys
from typing import Any

from .. import _core
from .._pictures.asking import asked
from .._pictures.replaced import around, replacements
from ..datasets.array_files.hdf5_arrays import keeps_from_native, native_form
from ..datasets.array_files.sources import plain_dtype

_NAMES, _READER = "_millrace_names", "_millrace_reader"
_MOST_NAMES = 64  # per group: with more names, there is an object for each sample, looked up once
# By h5py: a file that is opened for each sample must not cost more than without us, and an array that is read
# once is not worth its chunks' places.
_READS_BEFORE = 3
_CHUNKS_PER_READ = 100  # their places are asked for when this many reads would have paid for it
_CACHE_BYTES = 64 << 20  # of decoded chunks, in this process


class _Process:
    """This process's cache. A forked process gets a new one, since another thread may have held the lock."""

    def __init__(self) -> None:
        self.cache = _core.ChunkCache(_CACHE_BYTES)


_process = _Process()


def _forked() -> None:
    global _process
    _process = _Process()


os.register_at_fork(after_in_child=_forked)


class _Names(dict):
    """A group's objects by name; None: the name was looked up once. `room`: how many more names fit.
    `is_still`: _is_still() of the file; None: not asked yet.
    """

    room = _MOST_NAMES
    is_still: bool | None = None


class _Reader:
    """Reader of one dataset. `array`: None until opening it is worthwhile, or if h5py has to read it.
    `reads`: number of reads by h5py; read number `due` checks whether opening is worthwhile.
    """

    __slots__ = ("array", "dtype", "due", "process", "reads")

    def __init__(self) -> None:
        self.array: _core.ChunkedArray | None = None
        self.process = _process
        self.reads, self.due = 0, _READS_BEFORE

    def look(self, dataset: Any) -> None:
        """At the first look only the number of chunks is known; at the last it is opened, or left to h5py."""
        shape, chunks = dataset.shape, dataset.chunks
        count = math.prod(-(-size // part) for size, part in zip(shape, chunks)) if chunks and shape else 0
        self.due = _READS_BEFORE + count // _CHUNKS_PER_READ
        if self.reads == self.due:
            self._open(dataset)

    def _open(self, dataset: Any) -> None:
        self.dtype = dataset.dtype
        h5py, file = sys.modules["h5py"], dataset.file
        dtype = plain_dtype(self.dtype)
        if dtype is None or dtype != self.dtype or self.dtype.metadata or not dataset.shape:
            return
        layout = dataset.id.get_create_plist().get_layout()
        if not _is_still(file) or keeps_from_native(h5py, dataset, layout, dtype) is not None:
            return
        form, chunks = native_form(dataset, dtype)
        parts: tuple[Any, ...] = *form, *chunks, self.process.cache
        same_file = _core.open_local_file(f"/proc/self/fd/{file.id.get_vfd_handle()}", file.filename)
        self.array = _core.ChunkedArray(same_file, dataset.name or "", *parts)


def _is_still(file: Any) -> bool:
    """Whether the file cannot change while it is open here: HDF5 locks it."""
    return file.mode == "r" and not file.swmr_mode


def _lookup(self: Any, name: Any, *, original: Any) -> Any:
    """h5py.Group.__getitem__"""
    if type(name) is not str or asked() is None:
        return original(self, name)
    names = self.__dict__.get(_NAMES)
    if names is None:
        names = self.__dict__[_NAMES] = _Names()
    if (kept := names.get(name)) is not None and kept.id.valid:
        return kept
    found = original(self, name)
    if name not in names:
        if names.room > 0:
            names[name] = None
            names.room -= 1
    elif names.is_still is not False and type(found) in _kinds():
        names.is_still = _is_still(self.file)
        if names.is_still:
            names[name] = found
    return found


def _kinds() -> tuple[type, type]:
    h5py: Any = sys.modules["h5py"]
    return h5py.Dataset, h5py.Group


def _read(self: Any, args: Any, new_dtype: Any = None, *, original: Any) -> Any:
    """h5py.Dataset.__getitem__"""
    if new_dtype is not None or asked() is None:
        return original(self, args, new_dtype)
    reader = self.__dict__.get(_READER)
    if reader is None or reader.process is not _process:
        reader = self.__dict__[_READER] = _Reader()
    try:
        if reader.array is not None:
            if self.id.valid and (made := reader.array.get(args, reader.dtype)) is not None:
                return made if made.ndim else made[()]
        else:
            reader.reads += 1
            if reader.reads == reader.due:
                reader.look(self)
    except Exception:  # h5py reports the fault, if it finds it, too
        reader.array = None  # and reads on: `due` is over
    return original(self, args, new_dtype)


def install() -> bool:
    """False while h5py is being imported."""
    h5py = sys.modules["h5py"]
    if not all(hasattr(h5py, name) for name in ("Group", "Dataset", "File", "version")):
        return False
    replacements.put(h5py.Group, "__getitem__", around(_lookup))
    replacements.put(h5py.Dataset, "__getitem__", around(_read))
    return True
