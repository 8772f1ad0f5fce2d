"""What a Zarr group says of its arrays, asked of zarr-python once: a path, a URL, or a group or array that is
open already.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

from ..._common.regular_files import check_regular
from ...errors import UnavailableError, corrupt_data
from ...stores.locations import locate, shown
from .sources import ArraySource, plain_dtype
from .zarr_sources import RemoteStore, ZarrArray

_METADATA = ("zarr.json", ".zmetadata", ".zgroup", ".zarray", ".zattrs")
Fields = Union[None, str, Sequence[str], Mapping[str, str]]


def import_zarr() -> Any:
    try:
        zarr = importlib.import_module("zarr")
    except ImportError as error:
        raise UnavailableError(
            f"Zarr is read with the package zarr: pip install 'zarr>=3' tensorstore ({error})"
        ) from None
    if int(zarr.__version__.partition(".")[0]) < 3:
        raise UnavailableError(f"zarr {zarr.__version__} is too old: pip install 'zarr>=3' tensorstore")
    return zarr


def is_zarr_object(given: Any) -> bool:
    return type(given).__module__.partition(".")[0] == "zarr"


def read_metadata(given: Any, fields: Fields, store_options: Mapping[str, Any]) -> dict[str, ArraySource]:
    """{field: source}. An array by itself is a field of the last part of its path, or "array"."""
    zarr = import_zarr()
    opened, store, where = _opened(zarr, given, store_options)
    if isinstance(opened, zarr.Array):
        return _of_one_array(opened, store, where, fields)
    names = _all_arrays(zarr, opened) if fields is None else _named(fields)
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
    """(group or array, what opens its store in another process, what messages call it)"""
    if is_zarr_object(given) and isinstance(given, (zarr.Array, zarr.Group)):
        return given, given.store, str(given.store_path)
    if is_zarr_object(given):  # a store
        return _open(zarr, given, "", str(given)), given, str(given)
    url = os.fspath(given)
    location = locate(url)
    if location.local is not None:
        path = os.path.abspath(location.local)
        return _open(zarr, path, "", path), path, path
    remote = RemoteStore(url, tuple(options.items()))
    return (
        _open(zarr, remote(), location.path if _is_object_store(location.scheme) else "", shown(url)),
        remote,
        shown(url),
    )


def _is_object_store(scheme: str) -> bool:
    from ...stores.locations import OBJECT_STORES

    return scheme in OBJECT_STORES


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


def _named(fields: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(fields, str):
        return {fields: fields}
    return dict(fields) if isinstance(fields, Mapping) else {name: name for name in fields}


def _of_one_array(array: Any, store: Any, where: str, fields: Fields) -> dict[str, ArraySource]:
    name = array.path.rpartition("/")[2] or "array"
    if fields is not None and (
        len(_named(fields)) != 1
        or name not in (fields if isinstance(fields, str) else _named(fields).values())
    ):
        raise ValueError(f"{where} is one array, {name!r}: leave fields out")
    return {name: _source(array, name, store, where)}


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
        store,
        array.path,
        array.shape,
        dtype,
        _dims(array),
        chunk_rows,
        array.metadata.zarr_format,
        local,
        why_not,
    )
