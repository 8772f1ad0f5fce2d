"""Zarr arrays as ArraySources. zarr-python lists a group's arrays once; tensorstore reads the arrays that it
can read, zarr-python reads the others.

Both are well maintained. tensorstore decodes in C++ without the GIL, and reads whole chunks of files several
times as fast as zarr-python 3, which runs asyncio in one thread; zarr-python knows every store and every kind
of array, and lists a group's arrays.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..._common.optional import optional
from ..._common.per_process import PerProcess
from ..._common.regular_files import check_regular
from ..._core import cpu_budget
from ...errors import UnavailableError, corrupt_data
from ...stores.clients import ObstoreClient, client_for
from ...stores.settings import OBJECT_STORES, locate, shown
from .sources import ArraySource, Fields, Range, named_fields, package_of, plain_dtype, slices

_forked_from_tensorstore = False


def _note_fork() -> None:
    global _forked_from_tensorstore
    if "tensorstore" in sys.modules:  # its threads do not exist here, and its reads would wait for ever
        _forked_from_tensorstore = True


os.register_at_fork(after_in_child=_note_fork)


@dataclass
class ZarrArray(ArraySource):
    """One array of a store. `store`: for zarr-python, `path`: the array in it; `local`: its folder, for
    tensorstore.

    `why_not`: the reason for zarr-python, if it is known beforehand.
    """

    store: Any
    path: str
    zarr_format: Literal[2, 3]
    local: str | None
    why_not: str | None
    _opened: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._opened = PerProcess(
            _open_array, self.store, self.path, self.zarr_format, self.local, self.why_not
        )

    @property
    def reader(self) -> str:
        """The library that reads the array, and why. Opens the array, unless this process has."""
        return self._opened()[1]

    def get(self, box: Sequence[Range]) -> Any:
        array = self._opened()[0][slices(box)]
        return array if isinstance(array, np.ndarray) else array.read().result()


def _open_array(
    store: Any, path: str, zarr_format: Literal[2, 3], local: str | None, why_not: str | None
) -> tuple[Any, str]:
    """(the opened array, its reader and the reason)"""
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

        location = locate(self.url)
        if location.scheme not in OBJECT_STORES:
            return zarr.storage.FsspecStore.from_url(
                self.url, storage_options=dict(self.options), read_only=True
            )
        # With obstore's own retries: ours resume only transfers that they watch.
        client = client_for(location, {"retry_config": {}, **dict(self.options)})
        assert isinstance(client, ObstoreClient)
        return zarr.storage.ObjectStore(client.store, read_only=True)


_METADATA = ("zarr.json", ".zmetadata", ".zgroup", ".zarray", ".zattrs")


def read_metadata(given: Any, fields: Fields, store_options: Mapping[str, Any]) -> dict[str, ArraySource]:
    """{field: source}. An array by itself is a field of the last part of its path, or "array"."""
    zarr = optional("zarr", "Zarr is read by", "'zarr>=3' tensorstore")
    if int(zarr.__version__.partition(".")[0]) < 3:
        raise UnavailableError(f"zarr {zarr.__version__} is too old: pip install 'zarr>=3' tensorstore")
    opened, store, where = _opened(zarr, given, store_options)
    if isinstance(opened, zarr.Array):
        return _of_one_array(opened, store, where, fields)
    names = _all_arrays(zarr, opened) if fields is None else named_fields(fields)
    if not names:
        raise ValueError(f"{where} holds no array with rows")
    found = {}
    for name, path in names.items():
        try:
            array = opened[path]
        except KeyError:
            listed = ", ".join(sorted(_all_arrays(zarr, opened)))
            raise ValueError(f"{where} has no array {path!r}; it has {listed or 'none'}") from None
        if not isinstance(array, zarr.Array):
            raise ValueError(f"{path!r} in {where} is a group, not an array")
        found[name] = _source(array, path, store, where)
    return found


def _opened(zarr: Any, given: Any, options: Mapping[str, Any]) -> tuple[Any, Any, str]:
    """(group or array, the object that opens its store in another process, its name in messages)"""
    if isinstance(given, (zarr.Array, zarr.Group)):
        return given, given.store, str(given.store_path)
    if package_of(given) == "zarr":  # a store
        return _open(zarr, given, "", str(given)), given, str(given)
    url = os.fspath(given)
    location = locate(url)
    if location.local is not None:
        path = os.path.abspath(location.local)
        return _open(zarr, path, "", path), path, path
    remote = RemoteStore(url, tuple(options.items()))
    return (
        _open(zarr, remote(), location.path if location.scheme in OBJECT_STORES else "", shown(url)),
        remote,
        shown(url),
    )


def _open(zarr: Any, store: Any, path: str, where: str) -> Any:
    if isinstance(store, str):
        _check_files(store)
    try:
        return zarr.open(store, path=path, mode="r")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{where} is no Zarr group or array: {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise corrupt_data(where, f"{where}: its metadata cannot be read: {error}") from error


def _check_files(path: str) -> None:
    """The file (of a zip store) or the metadata at the root are regular files: zarr-python would wait for a
    FIFO.
    """
    for name in _METADATA if os.path.isdir(path) else (path,):
        file = os.path.join(path, name)
        if os.path.exists(file):
            check_regular(file)


def _of_one_array(array: Any, store: Any, where: str, fields: Fields) -> dict[str, ArraySource]:
    name = array.path.rpartition("/")[2] or "array"
    names = {name: name} if fields is None else named_fields(fields)
    if list(names.values()) != [name]:
        raise ValueError(f"{where} is one array, {name!r}: leave fields out")
    return {field: _source(array, name, store, where) for field in names}


def _all_arrays(zarr: Any, group: Any) -> dict[str, str]:
    """All with rows, but for coordinates: arrays [n] called as their axis, as xarray writes them."""
    found = {}
    for name, member in group.members(max_depth=None):
        if isinstance(member, zarr.Array) and member.ndim and _dims(member) != (name.rpartition("/")[2],):
            found[name] = name
    return dict(sorted(found.items()))


def _dims(array: Any) -> tuple[str | None, ...]:
    names = (
        getattr(array.metadata, "dimension_names", None)
        or array.attrs.get("_ARRAY_DIMENSIONS")
        or (None,) * array.ndim
    )
    return tuple(names)


def _source(array: Any, name: str, store: Any, where: str) -> ArraySource:
    if not array.ndim:
        raise ValueError(f"array {name!r} in {where} has no rows: it is a single value")
    dtype = plain_dtype(array.dtype)
    root = getattr(array.store, "root", None) if type(array.store).__name__ == "LocalStore" else None
    local = os.path.join(str(root), array.path) if dtype is not None and root is not None else None
    why_not = None if dtype is not None else f"its values are {array.dtype}"
    chunk_rows = (array.shards or array.chunks)[0]
    return ZarrArray(
        where,
        name,
        array.shape,
        dtype,
        _dims(array),
        chunk_rows,
        store,
        array.path,
        array.metadata.zarr_format,
        local,
        why_not,
    )
