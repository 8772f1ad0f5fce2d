"""HDF5: rows of datasets in HDF5 files, by any number of threads or processes."""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

import numpy as np
import torch

from .._common.lowering.recognising import NotLowered
from .._common.lowering.rows import Column, RowSet
from .._common.per_process import PerProcess
from .._core import MappedFile
from .array_files.hdf5_arrays import NativeDataset, read_metadata
from .array_files.rows import ArrayRows
from .array_files.sources import Fields
from .row_samples import RowSamples

Paths = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]


class HDF5(ArrayRows):
    """A map-style dataset of rows of HDF5 files: sample i is {field: row}.

    Rows are counted through, from each file to the next.

    >>> ds = millrace.datasets.HDF5("train.h5", fields=["images", "labels"])
    >>> loader = millrace.DataLoader(ds, 256, sampler=ds.shuffled(seed=0), num_workers=4)

    External links are followed: the file that they lead to is read, and watched for changes. If `fields` is
    None, no link is followed, as in h5py's visititems(). Elements that are arrays (HDF5's array types) add
    their axes to the row's.

    Numbers of any byte order become tensors of their dtype; bool (HDF5's enum) bool, complex numbers complex;
    other enums their numbers; text str; records (compound types) dicts. Parts that were never written have
    the dataset's fill value.

    The dataset asks h5py once, here, where the chunks lie. No handle stays open, so the dataset can be forked
    and pickled. Contiguous datasets are mapped, and their rows gathered like rows in memory. Chunks that are
    plain, deflated (gzip), shuffled or checksummed (fletcher32, verified) are read natively, at once by all
    threads. All other chunks go through h5py, one thread at a time: `readers` says which, and why.

    Args:
        paths: a file, several, or a pattern such as "run-*.h5" (sorted).
        fields: paths of datasets within the files, a mapping {name in the sample: path}, or one path with
            rows that are the samples themselves. None: every dataset with rows but coordinates (dimension
            scales).
        select: slices and numbers for the axes after the first. Either by the name of an axis (dimension
            labels and scales, as netCDF-4 files have them), {"lat": slice(0, 64)}, or by field, {"images":
            (slice(0, 3), 0)}. A number drops its axis. By the name of the first axis, rows are chosen.
        window: a sample is that many successive rows, [window, ...].
        stride: rows from the beginning of one window to that of the next. None: `window`.
        chunk_rows: rows that are read together. None: as the datasets are chunked.
        cache_bytes: bytes of chunks that are kept decoded.

    Raises:
        UnavailableError: if h5py is missing.
        FileNotFoundError: if a file is missing.
        CorruptDataError: if a file is no HDF5 file, or was cut short or changed since, and if a chunk is
            damaged: with file, dataset and rows.
        ValueError: if fields are missing or differ in length.
    """

    def __init__(
        self,
        paths: Paths,
        fields: Fields = None,
        *,
        select: Mapping[str, Any] | None = None,
        window: int | None = None,
        stride: int | None = None,
        chunk_rows: int | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        self.paths = _listed(paths)
        super().__init__(
            [read_metadata(path, fields) for path in self.paths],
            alone=isinstance(fields, str),
            select=select, window=window, stride=stride, chunk_rows=chunk_rows, cache_bytes=cache_bytes,
        )  # fmt: skip
        self._maps = PerProcess(self._map) if self._lies_in_rows() else None
        self._rows = PerProcess(self._row_samples)

    # -- contiguous datasets
    # --------------------------------------------------------------------------------------------------------

    def _lies_in_rows(self) -> bool:
        """Whether each sample of each field is one stretch of a file, as the engine copies them out of mapped
        files.
        """
        return (
            all(
                isinstance(source, NativeDataset)
                and source.offset is not None
                and source.swap_bytes == 1
                and cut.is_whole(source)
                and not cut.dropped
                for file in self._files
                for source, cut in zip(file.sources, file.cuts)
            )
            and len(self) > 0
        )

    @property
    def mapped_tables(self) -> list[list[tuple[np.ndarray, MappedFile]]] | None:
        """The arrays of each field in mapped files.

        Returns:
            Per field, an array [samples, ...] over each file that has some, and the mapping it lies in. None
            unless all datasets are contiguous, whole and of this machine's byte order.

        Raises:
            CorruptDataError: if a file has changed.
        """
        if self._maps is None:
            return None
        sources: Any = [source for file in self._files for source in file.sources]  # NativeDatasets all
        for found in {source.file for source in sources}:
            found.check()
        return self._maps()

    def _map(self) -> list[list[tuple[np.ndarray, MappedFile]]]:
        tables: list[list[tuple[np.ndarray, MappedFile]]] = [[] for _ in self.fields]
        for file in self._files:
            if file.samples == 0:
                continue
            maps = {where: MappedFile(where) for where in {source.where for source in file.sources}}
            for table, source, cut in zip(tables, file.sources, file.cuts):
                assert isinstance(source, NativeDataset) and source.offset is not None  # _lies_in_rows()
                mapped = maps[source.where]
                row_bytes = math.prod(cut.row_shape) * source.dtype.itemsize
                begin = source.offset + cut.first * row_bytes
                memory: Any = mapped  # a buffer
                rows = np.frombuffer(memory, np.uint8, cut.rows * row_bytes, begin).view(source.dtype)
                table.append((self._windows(rows.reshape(cut.rows, *cut.row_shape), file.samples), mapped))
        return tables

    def _samples(self, indices: np.ndarray) -> list[Any]:
        if self.mapped_tables is None:
            return super()._samples(indices)
        return self._rows()[indices.tolist()]

    def _row_samples(self) -> RowSamples:
        return RowSamples(mapped_rows(self))


def mapped_rows(dataset: HDF5) -> RowSet:
    """The rows of files with contiguous datasets: these lie in mapped files, and are gathered like rows in
    memory. NotLowered for others.
    """
    tables = dataset.mapped_tables
    if tables is None:
        raise NotLowered("HDF5 datasets that are chunked make whole batches, and have no rows in memory")
    columns = []
    for field, parts in zip(dataset.fields, tables):
        arrays, files = zip(*parts)
        sample_type = torch.Tensor if field.shape else arrays[0].dtype.type
        dtype, shape = str(field.dtype), field.shape or ()
        columns.append(Column(arrays, sample_type, dtype, shape, mapped=True, files=files))
    layout = (
        0
        if dataset.layout == "single"
        else (dict, tuple((field.name, i) for i, field in enumerate(dataset.fields)))
    )
    return RowSet("HDF5, contiguous", len(dataset), tuple(columns), layout)


def _listed(paths: Paths) -> Sequence[str]:
    if not isinstance(paths, (str, os.PathLike)):
        listed = [os.path.abspath(os.fspath(path)) for path in paths]
        if not listed:
            raise ValueError("paths is empty; name at least one HDF5 file")
        return listed
    path = os.fspath(paths)
    found = sorted(glob.glob(path)) if glob.has_magic(path) and not os.path.exists(path) else [path]
    if not found:
        raise FileNotFoundError(f"no file matches {path!r}")
    return [os.path.abspath(name) for name in found]
