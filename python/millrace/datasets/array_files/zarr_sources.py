"""Zarr arrays as ArraySources: read by tensorstore where it can, by zarr-python everywhere else.

Both are well kept. tensorstore decodes in C++ without the GIL, and reads whole chunks of files several times
as fast as zarr-python 3, whose asyncio runs in one thread; zarr-python knows every store and every kind of
array, and says what a group holds.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._core import cpu_budget
from ...errors import UnavailableError, corrupt_data
from .sources import PerProcess, Range, slices

_forked_from_tensorstore = False


def _note_fork() -> None:
    global _forked_from_tensorstore
    if "tensorstore" in sys.modules:  # its threads do not exist here, and its reads would wait for ever
        _forked_from_tensorstore = True


os.register_at_fork(after_in_child=_note_fork)


@dataclass
class ZarrArray:
    """One array of a store. `store`: what zarr-python opens, `path`: the array in it; `local`: its folder,
    for tensorstore.

    `why_not`: why it is zarr-python's, if that is known beforehand.
    """

    where: str
    name: str
    store: Any
    path: str
    shape: tuple[int, ...]
    dtype: np.dtype | None
    dims: tuple[str | None, ...]
    chunk_rows: int | None
    zarr_format: int
    local: str | None
    why_not: str | None
    _opened: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._opened = PerProcess(
            _open_array, self.store, self.path, self.zarr_format, self.local, self.why_not
        )

    @property
    def reader(self) -> str:
        """Opens the array, unless this process has."""
        return self._opened()[1]

    def read(self, box: Sequence[Range]) -> np.ndarray:
        try:
            array = self._opened()[0][slices(box)]
            array = array if isinstance(array, np.ndarray) else array.read().result()
        except (MemoryError, UnavailableError):
            raise
        except Exception as error:  # codecs and stores raise what they like
            raise self._unreadable(box, error) from error
        array = np.asarray(array)
        return array if self.dtype is None else np.ascontiguousarray(array, self.dtype)

    def _unreadable(self, box: Sequence[Range], error: Exception) -> Exception:
        start, count, _ = box[0]
        chunk = f"chunk {start // self.chunk_rows}, " if self.chunk_rows else ""
        return corrupt_data(
            self.where,
            f"{self.where}: array {self.name!r}, {chunk}rows {start}:{start + count}, cannot be read:"
            f" {type(error).__name__}: {error}",
        )


def _open_array(
    store: Any, path: str, zarr_format: int, local: str | None, why_not: str | None
) -> tuple[Any, str]:
    """(what is sliced, who that is)"""
    if local is None:
        why_not = why_not or "tensorstore does not know this store"
    elif _forked_from_tensorstore:
        why_not = "this process was forked from one that had used tensorstore, whose threads it lacks"
    else:
        try:
            return _open_with_tensorstore(local, zarr_format), "tensorstore"
        except ImportError:
            why_not = "tensorstore is not installed"
        except ValueError as error:  # a dtype, codec or chunk key that only zarr-python knows
            why_not = f"tensorstore refuses it: {str(error).splitlines()[0][:120]}"
    import zarr

    opened = zarr.open_array(
        store() if isinstance(store, RemoteStore) else store, path=path, mode="r", zarr_format=zarr_format
    )
    return opened, f"zarr-python: {why_not}"


def _open_with_tensorstore(local: str, zarr_format: int) -> Any:
    tensorstore = importlib.import_module("tensorstore")
    threads = cpu_budget()["threads"]
    # Threads of ours wait for its threads; together they are no more at work than there are CPUs. Nothing is
    # cached: our chunks are.
    context = tensorstore.Context(
        {"data_copy_concurrency": {"limit": threads}, "file_io_concurrency": {"limit": threads}}
    )
    spec = {"driver": "zarr3" if zarr_format == 3 else "zarr", "kvstore": {"driver": "file", "path": local}}
    return tensorstore.open(spec, context=context, open=True, read=True).result()


@dataclass(frozen=True)
class RemoteStore:
    """A URL as a read-only store of zarr-python, made in the process that reads."""

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self) -> Any:
        import zarr

        from ...stores.clients import client_for
        from ...stores.locations import OBJECT_STORES, locate

        location = locate(self.url)
        if location.scheme not in OBJECT_STORES:
            return zarr.storage.FsspecStore.from_url(
                self.url, storage_options=dict(self.options), read_only=True
            )
        # obstore's own retries: what ours resume is a transfer that they watch over.
        store = client_for(location, {"retry_config": {}, **dict(self.options)}).store
        return zarr.storage.ObjectStore(store, read_only=True)
