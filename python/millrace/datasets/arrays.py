"""Arrays: samples that are dicts of rows, from arrays in memory and in files."""

from __future__ import annotations

import contextlib
import math
import os
import struct
import zipfile
from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import torch
from torch.utils.data import StackDataset

from .._common.indices import checked_index
from .._common.lowering.memory_rows import stacked, table_rows
from .._common.lowering.recognising import NotLowered
from .._common.regular_files import MappedPart, map_regular, open_regular
from ..errors import damage_named
from .kept import FirstVersions
from .row_samples import RowSamples

Field = Union[torch.Tensor, np.ndarray, str, "os.PathLike[str]"]
_LOCAL_HEADER = 30


class Arrays(StackDataset):
    """A map-style dataset of arrays: sample i is {name: row i of that array}.

    The arrays' first dimensions are equal. A millrace.DataLoader gathers batches natively.

    Rows of tensors are tensors. Rows of numpy arrays are numpy arrays, or numpy's scalars where an array has
    one dimension: torch's default_collate makes the same tensors of them. The dataset pickles files as their
    paths, so that worker processes map them themselves. Batches and samples are copies.

    Args:
        **fields: the arrays by name, one per field. Each is a torch tensor on the CPU; a numpy array or
            memmap; the path of a .npy file, which is mapped; or the path of a .npz file, of which the array
            with the field's name is taken, or "file.npz:name" for another. Arrays that numpy.savez() stored
            are mapped, those of savez_compressed() are read into memory.

    Raises:
        ValueError: if fields have different lengths, if there are no fields, or if an array has Python
            objects.
        CorruptDataError, OSError: if a file cannot be read. A mapped file that is cut short later is a
            CorruptDataError, too.
    """

    datasets: dict[str, Any]

    def __init__(self, **fields: Field) -> None:
        if not fields:
            raise ValueError("Arrays has no fields; name at least one: Arrays(x=array)")
        self._given = {name: _described(value) for name, value in fields.items()}
        self._first = FirstVersions()
        self._open()

    def _open(self) -> None:
        for value in self._given.values():
            if isinstance(value, tuple):
                self._first.check_file(value[0])
        arrays = {name: _opened(name, value) for name, value in self._given.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"fields have different numbers of rows: {lengths}; a sample has a row of each")
        super().__init__(**arrays)
        self._samples: RowSamples | None = None
        with contextlib.suppress(NotLowered):  # dtypes that torch has not, say
            rows = [table_rows(array) for array in arrays.values()]
            self._samples = RowSamples(stacked("Arrays", rows, dict, tuple(arrays)))

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        length = len(self)
        numbers = [checked_index(index, length) for index in indices]
        if self._samples is not None:
            return self._samples[numbers]
        return [{name: array[number] for name, array in self.datasets.items()} for number in numbers]

    def __getstate__(self) -> dict[str, Any]:
        return {
            "_given": {name: MappedPart.of(value) for name, value in self._given.items()},
            "_first": self._first,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


def _described(value: Field) -> Any:
    """A path as (absolute path, member or None), anything else as it is."""
    if isinstance(value, (str, os.PathLike)):
        path, colon, member = os.fspath(value).rpartition(":")
        return (
            (os.path.abspath(path), member)
            if colon and path.endswith(".npz")
            else (os.path.abspath(os.fspath(value)), None)
        )
    return value


def _opened(name: str, value: Any) -> Any:
    array = MappedPart.again(value)
    if type(array) is tuple:
        path, member = array
        array = _npz(path, member or name, member is None) if path.endswith(".npz") else _npy(path)
    if not isinstance(array, (torch.Tensor, np.ndarray)):
        raise TypeError(
            f"field {name!r} is a {type(array).__name__}; use a tensor, an array, or the path of a .npy or"
            " .npz file"
        )
    if isinstance(array, np.ndarray) and array.dtype.hasobject:
        raise ValueError(f"field {name!r} is an array of Python objects; use numbers")
    if array.ndim == 0:
        raise ValueError(f"field {name!r} has no rows: it is a single number")
    return array


def _npy(path: str) -> np.ndarray:
    with damage_named(path, "it is no .npy file that can be mapped"):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def _npz(path: str, member: str, may_be_only: bool) -> np.ndarray:
    """The array `member`; with `may_be_only` also the only one, whatever its name."""
    with damage_named(path, "it is no .npz file"), zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if member not in names:
            if not (may_be_only and len(names) == 1):
                raise ValueError(
                    f"{path} has the arrays {names}, not {member!r}; name one:"
                    f" 'file.npz:{names[0] if names else 'name'}'"
                )
            member = names[0]
        info = archive.getinfo(member + ".npy")
        if info.compress_type == zipfile.ZIP_STORED:
            return _stored(path, info)
        with archive.open(info) as opened:
            shape, _, dtype = npy_header(opened)
            # before so much memory is asked for
            if math.prod(shape) * dtype.itemsize + opened.tell() != info.file_size:
                raise ValueError(f"{shape} of {dtype} are not the {info.file_size} bytes of {info.filename}")
        with archive.open(info) as opened:
            return np.lib.format.read_array(opened, allow_pickle=False)


def npy_header(opened: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, in Fortran's order, dtype) of a .npy header. Leaves the file at the first byte after it."""
    version = np.lib.format.read_magic(opened)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(opened)


def _stored(path: str, info: zipfile.ZipInfo) -> np.ndarray:
    """An uncompressed member, mapped. The local header in front of it may be longer than the directory says,
    so it is read.
    """
    with open_regular(path, "rb") as opened:
        opened.seek(info.header_offset)
        lengths = struct.unpack("<HH", opened.read(_LOCAL_HEADER)[26:30])
        opened.seek(info.header_offset + _LOCAL_HEADER + sum(lengths))
        shape, fortran, dtype = npy_header(opened)
        return map_regular(path, dtype, opened.tell(), shape, "F" if fortran else "C")
