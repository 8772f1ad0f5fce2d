"""HDF5 files whose datasets are contiguous: rows that lie in mapped files, gathered like those in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .refusal import NotLowered
from .rows import Column, RowSet

if TYPE_CHECKING:
    from ...datasets.hdf5 import HDF5  # which asks this module for its rows


def recognise_mapped_arrays(dataset: HDF5) -> RowSet:
    tables = dataset.mapped_tables
    if tables is None:
        raise NotLowered("HDF5 datasets that are chunked make whole batches, and have no rows in memory")
    columns = []
    for field, parts in zip(dataset.fields, tables):
        arrays, files = zip(*parts)
        sample_type = torch.Tensor if field.shape else arrays[0].dtype.type
        columns.append(Column(arrays, sample_type, field.dtype, field.shape, mapped=True, files=files))
    layout = (
        0
        if dataset.layout == "single"
        else (dict, tuple((field.name, i) for i, field in enumerate(dataset.fields)))
    )
    return RowSet("HDF5, contiguous", len(dataset), tuple(columns), layout)
