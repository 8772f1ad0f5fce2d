"""pyarrow, resolved when a table is first asked for. UnavailableError where it is not installed."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..._common.optional import optional


def _module(name: str) -> Any:
    return optional(name, "tables are read by", "pyarrow")


arrow = partial(_module, "pyarrow")
parquet = partial(_module, "pyarrow.parquet")
compute = partial(_module, "pyarrow.compute")
arrow_dataset = partial(_module, "pyarrow.dataset")
arrow_files = partial(_module, "pyarrow.fs")
