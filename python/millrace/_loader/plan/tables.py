"""`millrace.datasets.Table` of plain numbers: its rows lie in Arrow's buffers, and are gathered from
there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..._common.lowering.refusal import loaded
from ..._common.lowering.rows import Column, RowSet


def is_plain_table(dataset: Any) -> bool:
    """Imports nothing: who has a Table has imported what is behind it."""
    cls = loaded("millrace.datasets.tables.table", "Table")
    return type(dataset) is cls and dataset.plain_tables() is not None


def recognise_table(dataset: Any) -> RowSet:
    """The RowSet of a Table for which is_plain_table() holds."""
    columns = []
    for field, tables in zip(dataset.fields, dataset.plain_tables()):
        sample_type = torch.Tensor if field.shape else np.dtype(field.dtype).type
        columns.append(Column(tuple(tables), sample_type, field.dtype, field.shape))
    layout = (dict, tuple((field.name, number) for number, field in enumerate(dataset.fields)))
    return RowSet("Table", len(dataset), tuple(columns), layout)
