"""Filters: pyarrow's expressions, or lists of (column, operator, value) as pyarrow.parquet takes them."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Union

import numpy as np

from millrace import _core

from .arrow_package import arrow, compute, parquet

Progress = Union[bool, Callable[[int, int], None]]


def as_expression(filters: Any) -> Any | None:
    """A pyarrow.compute.Expression, or None. ValueError for anything that is no filter."""
    if filters is None or isinstance(filters, compute().Expression):
        return filters
    try:
        return parquet().filters_to_expression(filters)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"filters={filters!r} should be an expression of pyarrow.compute, as field('age') > 30, or a list"
            f" of (column, operator, value), or a list of such lists, of which one has to hold ({error})"
        ) from None


def named_by(filter: Any, names: Sequence[str]) -> set[str]:
    """The columns that an expression may name, perhaps among others: it does not tell, but prints them."""
    text = str(filter)
    return {name for name in names if name in text or "FieldPath" in text}


def is_float(leaf: Any) -> bool:
    """Of a Parquet file's schema."""
    return leaf.physical_type in ("FLOAT", "DOUBLE") or leaf.logical_type.type == "FLOAT16"


def known_without_floats(metadata: Any, group: int, leaves: Sequence[int], schema: Any) -> Any | None:
    """The statistics of a row group about these leaves, as an expression that is true of all rows. Leaves out
    floats and nested columns. None: nothing is known.
    """
    pa, known, there = arrow(), None, metadata.schema.to_arrow_schema()
    for number in leaves:
        leaf = metadata.schema.column(number)
        found = metadata.row_group(group).column(number).statistics
        is_column = leaf.name == leaf.path and leaf.max_repetition_level == 0
        if is_float(leaf) or not is_column or found is None or not found.has_min_max:
            continue
        kind = there.field(leaf.name).type
        if kind != schema.field(leaf.name).type:
            continue
        try:
            least, most = pa.scalar(found.min, kind), pa.scalar(found.max, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue
        field = compute().field(leaf.name)
        here = (field >= least) & (field <= most)
        if not found.has_null_count or found.null_count:
            here |= field.is_null()
        known = here if known is None else known & here
    return known


def true_rows(table: Any) -> np.ndarray:
    """int64: where the table's only column is true; a null is not."""
    keep = table.column(0).fill_null(False)
    return np.flatnonzero(keep.to_numpy()).astype(np.int64, copy=False)


def for_each(
    work: Callable[[Any], Any], items: Sequence[Any], what: str = "", progress: Progress = False
) -> list[Any]:
    """[work(item), ...] by as many threads as there are CPUs for this process. The first error ends it."""
    if len(items) <= 1:
        return [work(item) for item in items]
    results, say = [], _teller(what, progress)
    threads = max(1, min(len(items), int(_core.cpu_budget()["cpus"])))
    with ThreadPoolExecutor(threads, thread_name_prefix="millrace-scan") as pool:
        found: Any = pool.map(work, items)
        with contextlib.closing(found):  # what nobody has begun by then is left
            for done, result in enumerate(found, 1):
                results.append(result)
                say(done, len(items))
    return results


def _teller(what: str, progress: Progress) -> Callable[[int, int], None]:
    if callable(progress):
        return progress
    if not progress:
        return lambda done, total: None
    started, said = time.monotonic(), 0.0

    def say(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - started > 1 and (now - said > 1 or done == total):
            said = now
            print(f"millrace: {what}: {done:,} of {total:,} chunks", file=sys.stderr, flush=True)

    return say
