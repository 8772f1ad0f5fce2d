"""Numbers in Arrow arrays as numpy arrays, where they lie when that can be: buffers without copies, validity
beside them.

Everything here takes one array (not chunked) and gives (values, valid): values of shape (rows, *shape), with
anything where valid, bool of the same shape, is False; valid is None where nothing is null.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrow_package import arrow, compute

Numbers = tuple[np.ndarray, np.ndarray | None]

_PLAIN = {
    "bool": "bool",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "uint64": "int64",
    **{
        f"{sign}int{bits}": f"{sign}int{bits}"
        for sign, sizes in (("", (8, 16, 32, 64)), ("u", (8, 16, 32)))
        for bits in sizes
    },
}


class BadValue(ValueError):
    """A bad value in one row of a column. Callers that know file, chunk and column add them."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row, self.what = row, what
        self.column: str | None = None  # within a struct


def dtype_of(kind: Any, decimals: str) -> str | None:
    """The dtype for numbers of an Arrow type; None for other types."""
    types = arrow().types
    if types.is_decimal(kind):
        return "float64" if decimals == "float64" else "int64"
    if types.is_temporal(kind) and not types.is_interval(kind):
        return "int64"
    return _PLAIN.get(str(kind))


def read_numbers(array: Any, decimals: str) -> Numbers:
    """A column of numbers of shape (rows,)."""
    pa, kind = arrow(), array.type
    valid = valid_rows(array)
    if pa.types.is_boolean(kind):
        return array.fill_null(False).to_numpy(zero_copy_only=False), valid
    if pa.types.is_decimal(kind):
        return (_scaled(array, valid) if decimals == "scaled" else _rounded(array, valid)), valid
    if pa.types.is_temporal(kind):
        return _buffer(array, f"i{kind.bit_width // 8}").astype(np.int64, copy=False), valid
    if pa.types.is_uint64(kind):
        return _fitting(_buffer(array, np.uint64), valid), valid
    return _buffer(array, _PLAIN[str(kind)]), valid


def valid_rows(array: Any) -> np.ndarray | None:
    """bool (rows,): which rows are not null; None: all."""
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def _buffer(array: Any, dtype: Any) -> np.ndarray:
    dtype, data = np.dtype(dtype), array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def _fitting(values: np.ndarray, valid: np.ndarray | None) -> np.ndarray:
    signed = values.view(np.int64)
    row = first_of(signed < 0, valid)
    if row is not None:
        raise BadValue(
            row,
            f"{values[row]} is more than an int64 holds; read it as floats with types={{name: 'float64'}}",
        )
    return signed


def first_of(wrong: np.ndarray, valid: np.ndarray | None) -> int | None:
    """The first row that is wrong, of those that are not null."""
    rows = wrong if valid is None else wrong & valid
    return int(rows.argmax()) if rows.any() else None


def _rounded(array: Any, valid: np.ndarray | None) -> np.ndarray:
    """Decimals as the nearest float64, which Arrow's own cast misses at times: one division of exact numbers,
    or Python's.
    """
    scale = array.type.scale
    try:
        whole = _scaled(array, valid)
        if valid is not None:
            whole = np.where(valid, whole, 0)
        if 0 <= scale <= 22 and len(whole) and -(2**53) <= whole.min() and whole.max() <= 2**53:
            return whole / 10.0**scale
    except BadValue:
        pass
    return np.array([0.0 if value is None else float(value) for value in array.to_pylist()], np.float64)


def _scaled(array: Any, valid: np.ndarray | None) -> np.ndarray:
    """Decimals as whole numbers of their last digit: two words each, of which the higher one must be the sign
    of the lower.
    """
    pa = arrow()
    try:
        array = array.cast(pa.decimal128(38, array.type.scale))
    except pa.ArrowInvalid:
        raise BadValue(0, "a decimal has more than 38 digits; use decimals='float64'") from None
    words = _buffer(array, (np.int64, 2))
    row = first_of(words[:, 1] != words[:, 0] >> 63, valid)
    if row is not None:
        raise BadValue(row, "a scaled decimal is more than an int64 holds; use decimals='float64'")
    return np.ascontiguousarray(words[:, 0])


# -- lists
# ------------------------------------------------------------------------------------------------------------


def read_lists(array: Any, shape: tuple[int, ...], decimals: str) -> Numbers:
    """Lists, nested len(shape) deep, of the sizes `shape`; BadValue for a row of another size."""
    if not shape:
        return read_numbers(array, decimals)
    rows, size, valid = len(array), shape[0], valid_rows(array)
    if hasattr(array.type, "list_size"):
        if array.type.list_size != size:
            raise BadValue(0, f"lists have {array.type.list_size} elements, not {size}")
        elements = array.values.slice(array.offset * size, rows * size)  # those of null lists included
    else:
        starts, elements = list_ends(array)
        sizes = np.diff(starts)
        row = first_of(sizes != size, valid)
        if row is not None:
            raise BadValue(
                row,
                f"a list has {sizes[row]} elements, and fixed_lists says {size}; drop that, and pad with"
                " millrace.Pad",
            )
    try:
        values, inner = read_lists(elements, shape[1:], decimals)
    except BadValue as error:  # counted in elements
        raise BadValue(error.row // max(size, 1), error.what) from None
    if valid is not None and len(values) != rows * size:  # null lists take no room
        values = _spread(values, valid, size)
        inner = None if inner is None else _spread(inner, valid, size)
    values = values.reshape(rows, *shape)
    if valid is None and inner is None:
        return values, None
    known = np.ones(values.shape, bool) if inner is None else inner.reshape(values.shape).copy()
    if valid is not None:
        known[~valid] = False
    return values, known


def _spread(values: np.ndarray, valid: np.ndarray, size: int) -> np.ndarray:
    spread = np.zeros((len(valid), size, *values.shape[1:]), values.dtype)
    spread[valid] = values.reshape(-1, size, *values.shape[1:])
    return spread.reshape(-1, *values.shape[1:])


def list_ends(array: Any) -> tuple[np.ndarray, Any]:
    """int64 (rows + 1,): where the elements of each list begin, from 0 on; and the elements, those of null
    lists left out.
    """
    if array.null_count:
        sizes = (
            compute().list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        )
        return np.concatenate(([0], np.cumsum(sizes))), array.flatten()
    ends = array.offsets.to_numpy().astype(np.int64)
    return ends - ends[0], array.values.slice(int(ends[0]), int(ends[-1] - ends[0]))


def numbers_within(kind: Any, decimals: str) -> tuple[Any, tuple[int, ...], int]:
    """(dtype or None, sizes of fixed-size lists around it, lists of any length around these)."""
    types, sizes, lists = arrow().types, [], 0
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        if types.is_fixed_size_list(kind):
            sizes.append(kind.list_size)
        elif sizes:
            return None, (), 0  # a list of any length within one of a fixed size
        else:
            lists += 1
        kind = kind.value_type
    return dtype_of(kind, decimals), tuple(sizes), lists
