"""xarray's and dask's objects as ArraySources: their graphs run in the thread that reads, without a pool of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .sources import ArraySource, Fields, Range, named_fields, plain_dtype, slices


@dataclass
class LazyArray(ArraySource):
    """`array`: an xarray Variable, or a dask array: whatever gives a part of itself for a tuple of slices."""

    array: Any

    @property
    def reader(self) -> str:
        return f"{_package(self.array)}, in the threads that read"

    def get(self, box: Sequence[Range]) -> Any:
        part = self.array[slices(box)]
        part = getattr(part, "variable", part)
        # of a Variable: `data` would load it into the user's object
        data = part._data if hasattr(part, "_data") else part
        return data.compute(scheduler="synchronous") if hasattr(data, "compute") else part


def _package(given: Any) -> str:
    return type(given).__module__.partition(".")[0]


def is_lazy(given: Any) -> bool:
    """Whether lazy_sources() takes it: xarray's Dataset or DataArray, a dask array, or a dict of these."""
    if isinstance(given, Mapping):
        return bool(given) and all(map(is_lazy, given.values()))
    return _package(given) in ("xarray", "dask") and (_package(given) == "xarray" or hasattr(given, "dask"))


def lazy_sources(given: Any, fields: Fields) -> dict[str, ArraySource]:
    """{field: source}. A Dataset has its data variables, coordinates where they are named; ValueError for
    names it has not.
    """
    kind = type(given).__name__
    if isinstance(given, Mapping) and _package(given) != "xarray":
        variables, usual = dict(given), list(given)
    elif kind == "Dataset":
        variables, usual = (
            {str(name): array for name, array in given.variables.items()},
            [str(name) for name in given.data_vars],
        )
    else:
        name = str(getattr(given, "name", None) or "array") if kind == "DataArray" else "array"
        variables, usual = {name: given}, [name]
    where = str(getattr(given, "encoding", {}).get("source") or f"{_package(given)} {kind}")
    whole = {name: name for name in usual if variables[name].ndim}
    named = whole if fields is None else named_fields(fields)
    for path in named.values():
        if path not in variables:
            raise ValueError(f"{where} has no array {path!r}; it has {', '.join(variables) or 'none'}")
    return {name: _source(variables[path], path, where) for name, path in named.items()}


def _source(array: Any, name: str, where: str) -> LazyArray:
    if not array.ndim:
        raise ValueError(f"{name!r} in {where} has no rows: it is a single value")
    chunks, rows = getattr(array, "chunks", None), None
    if chunks:
        rows = max(chunks[0])
    elif _package(array) == "xarray":
        preferred = array.encoding.get("preferred_chunks") or {}
        rows = (
            preferred.get(array.dims[0])
            or (array.encoding.get("chunksizes") or array.encoding.get("chunks") or (None,))[0]
        )
    dims = tuple(str(dim) for dim in array.dims) if _package(array) == "xarray" else (None,) * array.ndim
    variable = getattr(array, "variable", array)
    return LazyArray(where, name, tuple(array.shape), plain_dtype(array.dtype), dims, rows, variable)
