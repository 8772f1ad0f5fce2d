"""The user's rules for columns: nulls, categories, decimals, lists of one length, types; and columns of
Python values: text, lists of any length, all types without a dtype.

Rules are checked once, plain values, picklable. Each column has take(rows) -> list and nbytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np
import torch

from ...errors import corrupt_data
from .arrow_package import arrow

POLICIES = ("raise", "nan", "mask")
Nulls = Union[str, Mapping[str, Any]]
Shape = Union[int, Sequence[int]]


@dataclass(frozen=True)
class NullRule:
    """kind: "raise", "nan", "mask" or "fill", with `value`."""

    kind: str
    value: Any = None


@dataclass(frozen=True)
class Rules:
    """The arguments that all tables have; Parquet's docstring says what they mean."""

    nulls: Nulls = "raise"
    categories: None | Sequence[str] | Mapping[str, Any] = None
    decimals: str = "float64"
    fixed_lists: Mapping[str, Shape] = field(default_factory=dict)
    types: Union[str, Mapping[str, Any]] = field(default_factory=dict)  # "unified" until files are known

    def __post_init__(self) -> None:
        is_policy = isinstance(self.nulls, str) and self.nulls in POLICIES
        fits = {
            "nulls": (
                is_policy or isinstance(self.nulls, Mapping),
                '"raise", "nan", "mask", or a dict {column: one of these or a fill value}',
            ),
            "decimals": (
                self.decimals in ("float64", "scaled"),
                '"float64" or "scaled" (int64, counting the last digit)',
            ),
            "types": (
                not isinstance(self.types, str) or self.types == "unified",
                '"unified", or a dict {column: type}',
            ),
            "categories": (
                not isinstance(self.categories, str),
                "a list of columns, or a dict {column: list of values}",
            ),
        }
        for name, (is_one, wanted) in fits.items():
            if not is_one:
                raise ValueError(f"{name}={getattr(self, name)!r} should be {wanted}")
        for name, shape in self.fixed_lists.items():
            if not self.sizes(name) or min(self.sizes(name)) < 0:
                raise ValueError(
                    f"fixed_lists={{{name!r}: {shape!r}}} should be the number of elements, or the sizes of"
                    " nested lists"
                )

    def null_rule(self, name: str) -> NullRule:
        if isinstance(self.nulls, str):
            return NullRule(self.nulls)
        given = self.nulls.get(name, self.nulls.get(name.partition(".")[0], "raise"))
        return NullRule(given) if isinstance(given, str) and given in POLICIES else NullRule("fill", given)

    def sizes(self, name: str) -> tuple[int, ...]:
        shape = self.fixed_lists.get(name, ())
        return (shape,) if isinstance(shape, int) else tuple(shape)

    def type_of(self, name: str, kind: Any) -> Any:
        """The type that a column is read as."""
        asked = kind if isinstance(self.types, str) else self.types.get(name, kind)
        try:
            return arrow().type_for_alias(asked) if isinstance(asked, str) else asked
        except ValueError:
            raise ValueError(f"types={{{name!r}: {asked!r}}}: pyarrow knows no type of that name") from None

    def has_codes(self, name: str, kind: Any) -> bool:
        """Whether a column's values become codes."""
        if self.categories is None:
            return arrow().types.is_dictionary(kind)
        return name in self.categories

    def check_names(self, names: Sequence[str]) -> None:
        """ValueError for rules about columns that are not there."""
        for what in ("nulls", "categories", "fixed_lists", "types"):
            given = getattr(self, what)
            for name in () if given is None or isinstance(given, str) else given:
                if name.partition(".")[0] not in names and name not in names:
                    raise ValueError(f"{what}= speaks of column {name!r}, and there are {shown(names)}")


def shown(names: Sequence[str]) -> str:
    """Names for a message, the first few of many."""
    some = ", ".join(map(repr, names[:12]))
    return f"{some} and {len(names) - 12} more" if len(names) > 12 else some or "none"


def unified(kinds: Sequence[Any]) -> Any | None:
    """The type that pyarrow gives a column of these, without a loss; None where there is none."""
    pa = arrow()
    try:
        schemas = [pa.schema([("", kind)]) for kind in kinds]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowException, TypeError):  # TypeError: of pyarrow before 14
        return None


class PythonValues:
    """An Arrow array with rows that become str, bytes, lists and dicts, as in its to_pylist(). `place`: its
    name in messages.
    """

    def __init__(self, array: Any, file: str, place: str) -> None:
        self._array, self._file, self._place = array, file, place
        self.nbytes = array.nbytes

    def take(self, rows: np.ndarray) -> list[Any]:
        try:
            return self._array.take(arrow().array(rows)).to_pylist()
        except UnicodeDecodeError as error:
            raise corrupt_data(
                self._file, f"{self._file}: {self._place} holds text that is not UTF-8 ({error.reason})"
            ) from None


class Ragged:
    """Lists of numbers of any length: row i is values[ends[i]:ends[i + 1]], `values` of shape (elements,
    *shape).
    """

    def __init__(self, values: np.ndarray, ends: np.ndarray) -> None:
        self.values, self.ends = values, ends
        self.nbytes = values.nbytes + ends.nbytes

    def take(self, rows: np.ndarray) -> list[torch.Tensor]:
        """Tensors that share one block of memory, which is the caller's."""
        starts = self.ends[rows]
        sizes = self.ends[rows + 1] - starts
        borders = np.cumsum(sizes) - sizes
        chosen = np.repeat(starts - borders, sizes) + np.arange(int(sizes.sum()))
        return list(torch.from_numpy(self.values[chosen]).split(sizes.tolist())) if len(rows) else []
