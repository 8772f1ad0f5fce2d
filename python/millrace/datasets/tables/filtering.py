"""Filters: pyarrow's expressions, or lists of (column, operator, value) as pyarrow.parquet takes them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Union

import numpy as np

from millrace import _core

from .arrow_package import compute, parquet

Progress = Union[bool, Callable[[int, int], None]]


def as_expression(filters: Any) -> Any | None:
    """A pyarrow.compute.Expression, or None. ValueError for what is no filter."""
    if filters is None or isinstance(filters, compute().Expression):
        return filters
    try:
        return parquet().filters_to_expression(filters)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"filters={filters!r} should be an expression of pyarrow.compute, as field('age') > 30, or a list"
            f" of (column, operator, value), or a list of such lists, of which one has to hold ({error})"
        ) from None


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
        futures = [pool.submit(work, item) for item in items]
        try:
            for done, future in enumerate(futures, 1):
                results.append(future.result())
                say(done, len(items))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
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
