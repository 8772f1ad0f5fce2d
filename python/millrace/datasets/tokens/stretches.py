"""Stretches: runs of token ids in mapped files, which is what every format of token files comes down to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...errors import corrupt_data

# What a file may hold -> what of it is int64 without loss.
DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")


@dataclass(frozen=True)
class Stretch:
    """Token ids of one mapped file, of shape (runs, n): windows lie within a run. One run but for formats of
    separate records.

    `documents`: int64 (documents,), ascending: the tokens of the only run with which documents begin; None
        where the format does not say.
    """

    file: _core.MappedFile
    tokens: np.ndarray
    documents: NDArray[np.int64] | None = None

    @property
    def offset(self) -> int:
        """Bytes before the first token."""
        return (
            self.tokens.__array_interface__["data"][0]
            - np.frombuffer(self.file, np.uint8).__array_interface__["data"][0]  # type: ignore[call-overload]  # any buffer
        )


def open_file(path: str) -> _core.MappedFile:
    """CorruptDataError for an empty one; FileNotFoundError, OSError."""
    file = _core.MappedFile(path)
    if file.size == 0:
        raise corrupt_data(path, "the file is empty; it should hold token ids")
    return file


def checked_dtype(dtype: object) -> str:
    """The name of a dtype that tokens may have; ValueError for others."""
    name = str(dtype).removeprefix("torch.") if "torch" in str(type(dtype)) else str(np.dtype(dtype))  # type: ignore[call-overload]
    if name not in DTYPES:
        raise ValueError(
            f"token files hold whole numbers in this machine's byte order: {', '.join(DTYPES)}; not {name}"
        )
    return name


def same_dtype(path: str, stored: str, given: str | None) -> str:
    """ValueError when the file says another dtype than the user."""
    if given not in (None, stored):
        raise ValueError(
            f"{path} says that it holds {stored}, and dtype={given!r} was given; leave dtype out"
        )
    return stored


def numbers(file: _core.MappedFile, dtype: str, offset: int = 0, count: int | None = None) -> np.ndarray:
    """`count` numbers from byte `offset` on, read-only, of shape (1, count); None: up to the end, which must
    be that of a number.
    """
    size, there = np.dtype(dtype).itemsize, file.size - offset
    if count is None:
        if there % size:
            raise corrupt_data(
                file.path,
                f"{there} bytes are no whole number of {dtype} ids of {size} bytes; the file is of another"
                " dtype, or was cut short",
            )
        count = there // size
    elif there < count * size:
        raise corrupt_data(
            file.path,
            f"the file ends {count * size - there} bytes before the last of its {count} {dtype} ids; it was"
            " cut short",
        )
    if count == 0:
        raise corrupt_data(file.path, "the file has no token ids")
    return np.frombuffer(file, dtype, count, offset)[None]  # type: ignore[call-overload]  # any buffer
