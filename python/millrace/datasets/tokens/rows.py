"""Windows of `millrace.datasets.Tokens` as rows: each file is a table whose rows overlap, x and y two columns
over the same memory.
"""

from __future__ import annotations

from typing import Any

import torch

from ..._common.lowering.rows import Column, RowSet


def token_rows(dataset: Any) -> RowSet:
    windows = dataset.windows
    excluded = None if windows.excluded is None else (*windows.excluded, dataset.ignore_index)
    made = dataset.out_dtype.removeprefix("torch.")

    def column(first: int, **more: Any) -> Column:
        """The tokens at [first, first + length) of each window."""
        return Column(
            tuple(windows.tables(first)),
            torch.Tensor,
            windows.dtype,
            (dataset.length,),
            made=made,
            index_map=windows.starts,
            mapped=True,
            files=windows.files,
            highest=dataset.max_token,
            **more,
        )

    if dataset.targets is None:
        return RowSet("Tokens", len(dataset), (column(0),), 0)
    borders = windows.borders if excluded is not None else ()
    columns = column(0), column(1, borders=borders, excluded=excluded)
    return RowSet("Tokens", len(dataset), columns, (list, (0, 1)))
