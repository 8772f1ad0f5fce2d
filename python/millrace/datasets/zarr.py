"""Zarr: rows of arrays in Zarr stores, v2 and v3, here or remote; xarray's and dask's objects, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .array_files.rows import ArrayRows
from .array_files.sources import Fields, is_lazy, lazy_sources
from .array_files.zarr_arrays import read_metadata


class Zarr(ArrayRows):
    """A map-style dataset of rows of Zarr arrays, in one or more groups: sample i is {field: row}.

    Rows are counted through, from each group to the next.

    >>> north = {"lat": slice(0, 64)}
    >>> ds = millrace.datasets.Zarr("s3://bucket/era5.zarr", ["t2m"], window=8, stride=1, select=north)
    >>> loader = millrace.DataLoader(ds, 64, sampler=ds.shuffled(buffer_chunks=8, seed=0), num_workers=4)

    Chunks of samples are the arrays' own along the first axis (of sharded arrays, their shards), so that
    shuffled() reads each once: the order of chunks is shuffled, then the samples of `buffer_chunks` at a
    time. Chunks that were never written have the fill value.

    Arrays in local folders are read by tensorstore when it is installed, without the GIL. All others are read
    by zarr-python 3; xarray's and dask's in the thread that reads, without a pool of theirs. `readers` says
    which.

    Args:
        groups: a folder, a URL (s3, gs, az, http(s); whatever fsspec reads), an open zarr Group, Array or
            store; an xarray Dataset or DataArray, a dask array, or a dict of these; or a list, in that order.
        fields, select, window, stride, chunk_rows, cache_bytes: as in `HDF5`. Axes have the names that xarray
            writes (v2's _ARRAY_DIMENSIONS, v3's dimension_names).
        store_options: for the constructor of obstore's store, or of fsspec's file system.

    Raises:
        UnavailableError: if zarr is missing.
        FileNotFoundError: if a group is missing.
        CorruptDataError: if metadata or chunks cannot be read: with store, array, chunk and rows.
        ValueError: if fields are missing or differ in length.
    """

    def __init__(
        self,
        groups: Any,
        fields: Fields = None,
        *,
        select: Mapping[str, Any] | None = None,
        window: int | None = None,
        stride: int | None = None,
        chunk_rows: int | None = None,
        cache_bytes: int | None = None,
        store_options: Mapping[str, Any] | None = None,
    ) -> None:
        listed = list(groups) if isinstance(groups, (list, tuple)) else [groups]
        if not listed:
            raise ValueError("groups is empty; name at least one Zarr group")
        super().__init__(
            [
                lazy_sources(g, fields) if is_lazy(g) else read_metadata(g, fields, store_options or {})
                for g in listed
            ],
            alone=isinstance(fields, str),
            select=select,
            window=window,
            stride=stride,
            chunk_rows=chunk_rows,
            cache_bytes=cache_bytes,
        )
