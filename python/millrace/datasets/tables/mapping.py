"""From Arrow columns to what samples hold: one reader for each column, made from its type and the user's
rules.

A reader has `fields`, what it contributes to a sample, and read(array), which gives a column for each field,
of one array. The table in Parquet's docstring is what this file does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..batches import Field
from .arrow_package import arrow, compute
from .numbers import (
    BadValue,
    Numbers,
    dtype_of,
    first_of,
    list_ends,
    numbers_within,
    read_lists,
    valid_rows,
)
from .rules import NullRule, PythonValues, Ragged, Rules

Place = tuple[str, str]  # a file, and the place in it, for messages


class ColumnReader:
    """`fields`: of the sample, named by dotted paths where structs are nested."""

    fields: tuple[Field, ...]

    def __init__(self, name: str, kind: Any, rules: Rules) -> None:
        self.name, self.kind, self.rules = name, kind, rules
        self.null_rule = rules.null_rule(name)

    def read(self, array: Any, place: Place) -> list[Any]:
        raise NotImplementedError

    def _with_mask(self, field: Field, mask: Field) -> None:
        self.fields = (field, mask) if self.null_rule.kind == "mask" else (field,)

    def _of_numbers(self, dtype: str, temporal: bool = False) -> None:
        """Sets the dtype of the numbers, and the value in place of a null. Whole numbers that may be missing
        are floats under "nan"; times have a NaT.
        """
        floats = self.null_rule.kind == "nan" and "float" not in dtype and not temporal
        self.dtype = "float64" if floats else dtype
        self.fill = fill_of(self.name, self.dtype, self.null_rule, temporal)


def column_reader(name: str, kind: Any, rules: Rules, categories: Callable[[str], Any]) -> ColumnReader:
    """The reader of a column. `categories(name)`: the values that codes count. ValueError for types that have
    no mapping.
    """
    types = arrow().types
    if rules.has_codes(name, kind):
        return Codes(name, kind, rules, categories(name))
    tensor = tensor_shape(name, kind)
    kind = plain_type(kind)
    if types.is_struct(kind):
        return Struct(name, kind, rules, categories)
    dtype, sizes, lists = numbers_within(kind, rules.decimals)
    if tensor and dtype is not None and len(tensor) != lists + len(sizes):
        return FixedNumbers(name, kind, rules, dtype, sizes, tensor)
    asked = rules.sizes(name) or tensor
    if asked and (dtype is None or len(asked) != lists + len(sizes)):
        depth = f"{lists + len(sizes)} deep" if dtype else "not of numbers"
        raise ValueError(f"fixed_lists={{{name!r}: {asked}}}: the column is {kind}, lists {depth}")
    if dtype is not None and (asked or lists == 0):
        return FixedNumbers(name, kind, rules, dtype, asked or sizes)
    if dtype is not None and lists == 1:
        return RaggedNumbers(name, kind, rules, sizes)
    if types.is_null(kind):
        return Nothing(name, kind, rules)
    if types.is_union(kind) or types.is_interval(kind):
        raise ValueError(
            f"column {name!r} is of Arrow type {kind}, which has no mapping; leave it out with columns=, or"
            " cast it"
        )
    return Values(name, kind, rules)


def tensor_shape(name: str, kind: Any) -> tuple[int, ...]:
    """The shape in an extension type: Arrow's tensors, with flat storage, and the arrays of Hugging Face's
    datasets.
    """
    shape = getattr(kind, "shape", None)
    if not isinstance(kind, arrow().BaseExtensionType) or shape is None or None in shape:
        return ()
    if (order := getattr(kind, "permutation", None)) is not None and list(order) != sorted(order):
        raise ValueError(
            f"column {name!r} holds tensors of permuted dimensions ({kind}); leave it out with columns="
        )
    return tuple(shape)


def plain_type(kind: Any) -> Any:
    """The type that plain() gives arrays of `kind`."""
    pa = arrow()
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def plain(array: Any) -> Any:
    """The same values without extension types, dictionaries, run lengths and views."""
    pa = arrow()
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return plain(array.dictionary_decode())
    if pa.types.is_run_end_encoded(array.type):
        return plain(compute().run_end_decode(array))
    wanted = plain_type(array.type)
    return array if wanted == array.type else array.cast(wanted)


class FixedNumbers(ColumnReader):
    """Numbers, and lists of them that have one shape."""

    def __init__(
        self,
        name: str,
        kind: Any,
        rules: Rules,
        dtype: str,
        sizes: tuple[int, ...],
        shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(name, kind, rules)
        self.sizes, self.shape = sizes, sizes if shape is None else shape
        self._of_numbers(dtype, arrow().types.is_temporal(leaf_of(kind)))
        self._with_mask(Field(name, self.dtype, self.shape), Field(f"{name}_mask", "bool", self.shape))

    def read(self, array: Any, place: Place) -> list[Any]:
        values, valid = read_lists(plain(array), self.sizes, self.rules.decimals)
        shape = (len(values), *self.shape)
        numbers = values.reshape(shape), None if valid is None else valid.reshape(shape)
        return filled(numbers, self.null_rule, self.fill, self.dtype)


class RaggedNumbers(ColumnReader):
    """Lists of any length, of numbers or of fixed-size lists of them; null lists are empty unless the policy
    is to raise.
    """

    def __init__(self, name: str, kind: Any, rules: Rules, sizes: tuple[int, ...]) -> None:
        super().__init__(name, kind, rules)
        leaf, self.sizes = leaf_of(kind), sizes
        dtype = dtype_of(leaf, rules.decimals)
        assert dtype is not None  # of numbers
        self._of_numbers(dtype, arrow().types.is_temporal(leaf))
        self._with_mask(Field(name), Field(f"{name}_mask"))

    def read(self, array: Any, place: Place) -> list[Any]:
        array = plain(array)
        valid = valid_rows(array)
        if valid is not None and self.null_rule.kind == "raise":
            raise BadValue(int(valid.argmin()), "a null, where a list is expected; " + REMEDY)
        ends, elements = list_ends(array)
        try:
            values = filled(
                read_lists(elements, self.sizes, self.rules.decimals), self.null_rule, self.fill, self.dtype
            )
        except BadValue as error:
            row = int(np.searchsorted(ends, error.row, side="right")) - 1
            raise BadValue(row, error.what) from None
        return [Ragged(part, ends) for part in values]


class Codes(ColumnReader):
    """Values as int64 numbers of theirs in a list of categories."""

    def __init__(self, name: str, kind: Any, rules: Rules, categories: Any) -> None:
        super().__init__(name, kind, rules)
        self.categories = categories
        self._of_numbers("int64")
        self._with_mask(Field(name, self.dtype, ()), Field(f"{name}_mask", "bool", ()))

    def read(self, array: Any, place: Place) -> list[Any]:
        if not arrow().types.is_dictionary(array.type):
            array = plain(array).dictionary_encode()
        known = plain(array.dictionary)
        codes = compute().index_in(known.cast(self.categories.type), self.categories).take(array.indices)
        there = valid_rows(known.take(array.indices))  # the dictionary itself may hold a null, too
        row = first_of(codes.is_null().to_numpy(zero_copy_only=False), there)
        if row is not None:
            what = f"{array[row].as_py()!r} is none of its {len(self.categories)} categories"
            raise BadValue(row, what)
        numbers = codes.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return filled((numbers, there), self.null_rule, self.fill, self.dtype)


class Values(ColumnReader):
    """Text, bytes, and everything else that stays Python objects."""

    def __init__(self, name: str, kind: Any, rules: Rules) -> None:
        super().__init__(name, kind, rules)
        pa, self.fill = arrow(), None
        types = pa.types
        text = types.is_string(kind) or types.is_large_string(kind)
        if self.null_rule.kind in ("fill", "mask"):
            empty: Any = (
                ""
                if text
                else (
                    b""
                    if types.is_binary(kind) or types.is_large_binary(kind)
                    else []
                    if types.is_nested(kind)
                    else None
                )
            )
            if types.is_fixed_size_binary(kind):
                empty = bytes(kind.byte_width)
            value = self.null_rule.value if self.null_rule.kind == "fill" else empty
            try:
                self.fill = None if value is None else pa.scalar(value, kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
                raise ValueError(
                    f"nulls={{{name!r}: {value!r}}}: this does not fit a column of {kind} ({error})"
                ) from None
        self._with_mask(Field(name), Field(f"{name}_mask", "bool", ()))

    def read(self, array: Any, place: Place) -> list[Any]:
        array, masked = plain(array), self.null_rule.kind == "mask"
        valid = valid_rows(array)
        if valid is not None:
            if self.fill is None:
                raise BadValue(int(valid.argmin()), "a null; " + REMEDY)
            if arrow().types.is_nested(array.type):
                fill = self.fill.as_py()
                array = arrow().array(
                    [fill if value is None else value for value in array.to_pylist()], array.type
                )
            else:
                array = array.fill_null(self.fill)
        mask = np.ones(len(array), bool) if valid is None else valid
        return [PythonValues(array, *place), mask] if masked else [PythonValues(array, *place)]


class Nothing(ColumnReader):
    """A column of nulls alone: a number, when the policy says which."""

    def __init__(self, name: str, kind: Any, rules: Rules) -> None:
        super().__init__(name, kind, rules)
        rule = self.null_rule
        if rule.kind == "raise" or (rule.kind == "fill" and not isinstance(rule.value, (int, float))):
            raise ValueError(
                f"column {name!r} holds nulls alone; leave it out with columns=, or give nulls={{{name!r}: a"
                " number}"
            )
        self.value = np.float64("nan") if rule.kind == "nan" else np.array(rule.value or 0)[()]
        self._with_mask(Field(name, self.value.dtype.name, ()), Field(f"{name}_mask", "bool", ()))

    def read(self, array: Any, place: Place) -> list[Any]:
        return [np.full(len(array), self.value), np.zeros(len(array), bool)][: len(self.fields)]


class Struct(ColumnReader):
    """A dict of readers; a null struct's members are nulls. `fields` are those of its members, one after the
    other.
    """

    def __init__(self, name: str, kind: Any, rules: Rules, categories: Callable[[str], Any]) -> None:
        super().__init__(name, kind, rules)
        self.members = [
            (member.name, column_reader(f"{name}.{member.name}", member.type, rules, categories))
            for member in map(kind.field, range(kind.num_fields))
        ]
        self.fields = tuple(field for _, reader in self.members for field in reader.fields)

    def read(self, array: Any, place: Place) -> list[Any]:
        columns: list[Any] = []
        for (_, member), part in zip(self.members, plain(array).flatten()):
            try:
                columns += member.read(part, place)
            except BadValue as error:
                error.column = error.column or member.name
                raise
        return columns


def laid_out(readers: Iterable[tuple[str, ColumnReader]], values: Iterator[Any]) -> dict[str, Any]:
    """The dict of columns by these names, which takes the next value for each of their fields."""
    made: dict[str, Any] = {}
    for name, reader in readers:
        if isinstance(reader, Struct):
            made[name] = laid_out(reader.members, values)
        else:
            made |= {name + field.name.removeprefix(reader.name): next(values) for field in reader.fields}
    return made


# -- nulls
# ------------------------------------------------------------------------------------------------------------

REMEDY = 'give nulls={column: a fill value}, "mask", or for numbers "nan"'


def leaf_of(kind: Any) -> Any:
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    return kind


def fill_of(name: str, dtype: str, rule: NullRule, temporal: bool) -> Any:
    """The value in place of a null, of that dtype; None if nulls are errors."""
    if rule.kind == "raise":
        return None
    if rule.kind == "nan":
        return np.int64(np.iinfo(np.int64).min) if temporal else np.array("nan", dtype)[()]
    try:
        made = np.array(
            0 if rule.kind == "mask" else rule.value, dtype=np.dtype(dtype) if dtype != "bool" else None
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"nulls={{{name!r}: {rule.value!r}}}: this does not fit a column of {dtype} ({error})"
        ) from None
    value = made.astype(dtype)[()] if made.ndim == 0 else None
    if value is None or (
        rule.kind == "fill" and value != rule.value and rule.value == rule.value and "float" not in dtype
    ):
        raise ValueError(f"nulls={{{name!r}: {rule.value!r}}}: this does not fit a column of {dtype}")
    return value


def filled(numbers: Numbers, rule: NullRule, fill: Any, dtype: str) -> list[np.ndarray]:
    """The values with their nulls as the rule has them, and the mask where it asks for one."""
    values, valid = numbers
    if values.dtype != dtype:
        values = values.astype(dtype)
    if valid is not None:
        if rule.kind == "raise":
            where = valid.reshape(len(valid), -1).all(axis=1)
            raise BadValue(
                int(where.argmin()), ("a null; " if valid.ndim == 1 else "a null in it; ") + REMEDY
            )
        values = np.where(valid, values, fill)
    if rule.kind != "mask":
        return [values]
    return [values, np.ones(values.shape, bool) if valid is None else valid]
