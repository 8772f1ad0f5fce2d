"""ArraySource: one array in a file or store, from which boxes are read; and Cut, the part of it to read.
xarray's and dask's objects are sources, too: their graphs run in the thread that reads, without a pool of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from ...errors import CorruptDataError, UnavailableError, corrupt_data


@dataclass
class ArraySource:
    """The interface of an array for datasets. Sources hold no open file: they can be pickled, and open files
    once per process.

    `where`: the file or store, for messages; `name`: the array in it. `dtype`: in the machine's byte order,
    None for values that are no numbers (text, records). `dims`: names of the axes, None for an axis without a
    name. `chunk_rows`: rows of a chunk, None if any cut is as good.
    """

    where: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype | None
    dims: tuple[str | None, ...]
    chunk_rows: int | None

    @property
    def reader(self) -> str:
        """The name of the reader, for people."""
        raise NotImplementedError

    def get(self, box: Sequence[Range]) -> Any:
        """The box, as numpy's array, or an object that becomes one. Any thread, several at once."""
        raise NotImplementedError

    def read(self, box: Sequence[Range]) -> np.ndarray:
        """The box, dense. For any error of the libraries, CorruptDataError names the rows."""
        try:
            array = np.asarray(self.get(box))
        except (MemoryError, CorruptDataError, UnavailableError):
            raise
        except Exception as error:
            start, count, _ = box[0]
            chunk = f"chunk {start // self.chunk_rows}, " if self.chunk_rows else ""
            raise corrupt_data(
                self.where,
                f"{self.where}: {self.name!r}, {chunk}rows {start}:{start + count}, cannot be read:"
                f" {type(error).__name__}: {error}",
            ) from error
        return array if self.dtype is None else np.ascontiguousarray(array, self.dtype)


def named_fields(fields: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """{field: path}. ValueError for one that is named twice."""
    if isinstance(fields, Mapping):
        return dict(fields)
    names = [fields] if isinstance(fields, str) else list(fields)
    if len(set(names)) != len(names):
        raise ValueError(f"fields are named twice: {', '.join(names)}")
    return {name: name for name in names}


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


@dataclass(frozen=True)
class Cut:
    """Rows `first` to `first + rows` of a source, and `others`, the box of its other axes; rows leave out the
    axes in `dropped`.
    """

    first: int
    rows: int
    others: tuple[Range, ...]
    dropped: frozenset[int]

    @property
    def row_shape(self) -> tuple[int, ...]:
        return tuple(count for axis, (_, count, _) in enumerate(self.others) if axis not in self.dropped)

    def is_whole(self, source: ArraySource) -> bool:
        """Whether the cut takes whole rows."""
        return all(part == (0, size, 1) for part, size in zip(self.others, source.shape[1:]))


def check_select(select: Mapping[str, Any] | None, sources: Mapping[str, ArraySource]) -> dict[str, Any]:
    """`select` as given, if each of its keys names a field or an axis; else ValueError."""
    select = dict(select or {})
    axes = {name for source in sources.values() for name in source.dims if name is not None}
    for key in select:
        if key not in sources and key not in axes:
            raise ValueError(
                f"select names {key!r}, which is neither a field ({', '.join(sources)}) nor an axis of one "
                f"({', '.join(sorted(axes)) or 'the file names none'})"
            )
    return select


def cut_of(field: str, source: ArraySource, select: Mapping[str, Any]) -> Cut:
    """The part of one field that `select` leaves. A field's own entry takes precedence over its axes'."""
    parts: list[Any] = [
        select.get(name, slice(None)) if name is not None else slice(None) for name in source.dims
    ]
    if field in select and not (field in source.dims and len(source.shape) == 1):
        own = select[field]
        own = own if isinstance(own, tuple) else (own,)
        if len(own) > len(source.shape) - 1:
            raise ValueError(
                f"select[{field!r}] has {len(own)} parts, and {source.name!r} in {source.where} has"
                f" {len(source.shape) - 1} axes behind its first; rows are chosen by samplers, or by the name"
                " of the first axis"
            )
        parts[1 : 1 + len(own)] = own
    start, count, step = _range(parts[0], source, 0)
    if not isinstance(parts[0], slice) or step != 1:
        raise ValueError(
            f"rows of {source.name!r} in {source.where} are chosen by a slice with step 1, not {parts[0]!r};"
            " use stride="
        )
    others = tuple(_range(part, source, axis) for axis, part in enumerate(parts) if axis > 0)
    dropped = frozenset(
        axis - 1 for axis, part in enumerate(parts) if axis > 0 and not isinstance(part, slice)
    )
    return Cut(start, count, others, dropped)


def _range(part: Any, source: ArraySource, axis: int) -> Range:
    size = source.shape[axis]
    called = (
        f"axis {axis}"
        + (f" ({source.dims[axis]})" if source.dims[axis] else "")
        + f" of {source.name!r} in {source.where}"
    )
    if isinstance(part, slice):
        try:
            start, stop, step = part.indices(size)
        except TypeError:
            raise ValueError(
                f"{part!r} does not choose positions of {called}; slices count elements, not labels"
            ) from None
        if step < 1:
            raise ValueError(f"{part!r} goes backwards along {called}; flip the batch instead")
        return start, len(range(start, stop, step)), step
    try:
        number = part.__index__()
    except (AttributeError, TypeError):
        raise ValueError(f"{called} is selected by {part!r}; use a slice or a number") from None
    if not -size <= number < size:
        raise ValueError(f"{number} is outside {called}, which has {size}")
    return number % size, 1, 1


def common_length(cuts: Mapping[str, Cut], sources: Mapping[str, ArraySource]) -> int:
    """The number of rows that all fields have; ValueError lists those that differ."""
    lengths = {name: cut.rows for name, cut in cuts.items()}
    if len(set(lengths.values())) != 1:
        listed = ", ".join(f"{name} has {rows}" for name, rows in lengths.items())
        where = next(iter(sources.values())).where
        raise ValueError(
            f"{where}: fields differ in length: {listed}; name those that belong together, as fields=[...]"
        )
    return next(iter(lengths.values()))


@dataclass
class LazyArray(ArraySource):
    """`array`: an xarray Variable, a dask array, or another object that a tuple of slices cuts."""

    array: Any

    @property
    def reader(self) -> str:
        return f"{package_of(self.array)}, in the threads that read"

    def get(self, box: Sequence[Range]) -> Any:
        part = self.array[slices(box)]
        part = getattr(part, "variable", part)
        # of a Variable: `data` would load it into the user's object
        data = part._data if hasattr(part, "_data") else part
        return data.compute(scheduler="synchronous") if hasattr(data, "compute") else part


def package_of(given: Any) -> str:
    return type(given).__module__.partition(".")[0]


def is_lazy(given: Any) -> bool:
    """Whether lazy_sources() takes it: xarray's Dataset or DataArray, a dask array, or a dict of these."""
    if isinstance(given, Mapping):
        return bool(given) and all(map(is_lazy, given.values()))
    return package_of(given) == "xarray" or (package_of(given) == "dask" and hasattr(given, "dask"))


def lazy_sources(given: Any, fields: Fields) -> dict[str, ArraySource]:
    """{field: source}. A Dataset gives its data variables, and coordinates only if `fields` names them;
    ValueError for names that it does not have.
    """
    kind = type(given).__name__
    if isinstance(given, Mapping) and package_of(given) != "xarray":
        variables, usual = dict(given), list(given)
    elif kind == "Dataset":
        variables, usual = (
            {str(name): array for name, array in given.variables.items()},
            [str(name) for name in given.data_vars],
        )
    else:
        name = str(getattr(given, "name", None) or "array") if kind == "DataArray" else "array"
        variables, usual = {name: given}, [name]
    where = str(getattr(given, "encoding", {}).get("source") or f"{package_of(given)} {kind}")
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
    elif package_of(array) == "xarray":
        preferred = array.encoding.get("preferred_chunks") or {}
        rows = (
            preferred.get(array.dims[0])
            or (array.encoding.get("chunksizes") or array.encoding.get("chunks") or (None,))[0]
        )
    dims = tuple(str(dim) for dim in array.dims) if package_of(array) == "xarray" else (None,) * array.ndim
    variable = getattr(array, "variable", array)
    return LazyArray(where, name, tuple(array.shape), plain_dtype(array.dtype), dims, rows, variable)


Fields = Union[None, str, Sequence[str], Mapping[str, str]]
Range = tuple[int, int, int]  # start, count, step along one axis
