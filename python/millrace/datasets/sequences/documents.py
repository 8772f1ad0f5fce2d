"""Documents of tokens, in whatever form they are given, as flat arrays with offsets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..._common.regular_files import MappedPart
from ...errors import corrupt_data


@dataclass(frozen=True)
class TokenArray:
    """Document i is tokens[offsets[i] : offsets[i + 1]]. tokens: integers [n]; offsets: int64 [documents +
    1]; name: for messages.
    """

    tokens: np.ndarray
    offsets: np.ndarray
    name: str
    file: tuple[int, ...] | None = None  # that it is mapped from, when it was: device, inode, bytes

    def check_file(self) -> None:
        """CorruptDataError when its file is shorter now. Whole pages that are missing the native reader sees
        itself; in the last one the system reads zeros.
        """
        if self.file is None:
            return
        now = _file_of(self.name)
        if now is not None and now[:2] == self.file[:2] and now[2] < self.file[2]:
            raise corrupt_data(
                self.name,
                f"the file was {self.file[2]} bytes when it was mapped and is {now[2]} now; write it again",
            )

    def __getstate__(self) -> dict[str, Any]:
        """A mapped file travels as its name: workers that are started anew map it again."""
        return {**vars(self), "tokens": MappedPart.of(self.tokens)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, tokens=MappedPart.again(state["tokens"]))


def _file_of(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:  # its name is gone: the mapping keeps it whole
        return None
    return found.st_dev, found.st_ino, found.st_size


def token_arrays(documents: Any) -> list[TokenArray]:
    """The flat arrays of `documents`, not copied unless it is a list:

    - an object with documents() -> (flat arrays, int64 offsets of each), such as millrace.datasets.Tokens;
    - an object with `tokens` and `offsets`, or a tuple of these two: one flat array [n], and where documents
      begin [documents + 1];
    - an Arrow array or chunked array of lists of integers, such as a column of a table;
    - a list, or any other sequence, of documents: arrays, tensors or lists of ints [n]; copied into one
      array.
    """
    if callable(getattr(documents, "documents", None)):
        arrays, offsets = documents.documents()
        if len(arrays) != len(offsets):
            raise ValueError(
                f"{type(documents).__name__}.documents() gave {len(arrays)} arrays and offsets of"
                f" {len(offsets)}"
            )
        return [_array(tokens, own, number) for number, (tokens, own) in enumerate(zip(arrays, offsets))]
    if hasattr(documents, "tokens") and hasattr(documents, "offsets"):
        return [_array(documents.tokens, documents.offsets, 0)]
    if isinstance(documents, tuple) and len(documents) == 2:
        return [_array(documents[0], documents[1], 0)]
    if isinstance(documents, _arrow_types()):
        return _arrow_arrays(documents)
    if isinstance(documents, (str, bytes)) or not hasattr(documents, "__iter__"):
        raise ValueError(
            "documents should be a list of arrays, or (flat tokens, offsets), but got"
            f" {type(documents).__name__}; token files are read by millrace.datasets.Tokens"
        )
    return [concatenated(documents)]


def _arrow_types() -> tuple[Any, ...]:
    pyarrow = sys.modules.get("pyarrow")
    return () if pyarrow is None else (pyarrow.ListArray, pyarrow.LargeListArray, pyarrow.ChunkedArray)


def _arrow_arrays(documents: Any) -> list[TokenArray]:
    """The chunks' values, where Arrow has them; documents that are null are empty."""
    found = []
    for number, chunk in enumerate(getattr(documents, "chunks", [documents])):
        name = f"Arrow chunk {number}"
        if not isinstance(chunk, _arrow_types()):
            raise ValueError(f"{name} is {chunk.type}; documents should be lists of integers")
        # nulls among them make floats, which are refused
        values = integers(chunk.values.to_numpy(zero_copy_only=False), name)
        offsets = integers(chunk.offsets.to_numpy(), name)
        found.append(TokenArray(values, offsets.astype(np.int64), name))
    return found


def concatenated(documents: Iterable[Any], name: str = "documents") -> TokenArray:
    """One array of all documents; ValueError names one that holds something else than integers."""
    arrays = [integers(document, f"{name}[{number}]") for number, document in enumerate(documents)]
    offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    filled = [array for array in arrays if len(array)]
    tokens = np.concatenate(filled) if filled else np.empty(0, dtype=np.int64)
    if tokens.dtype.kind not in "iu":  # uint64 beside int64 would be floats
        raise ValueError(
            f"{name} mix {' and '.join(sorted({str(array.dtype) for array in filled}))}; make them one type"
            " of integers"
        )
    return TokenArray(tokens, offsets, name)


def integers(tokens: Any, name: str) -> np.ndarray:
    """`tokens` as integers in one dimension, dense, in this machine's byte order; copied only if they are not
    that already.
    """
    if isinstance(tokens, torch.Tensor):
        tokens = tokens.numpy(force=True)
    try:
        array = np.asanyarray(tokens)  # a memmap stays one
    except ValueError:
        raise ValueError(
            f"{name} is a {type(tokens).__name__} of sequences; tokens should be integers in one dimension"
        ) from None
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size > 0):
        raise ValueError(
            f"{name} is {array.dtype} of {array.ndim} dimensions; tokens should be integers in one dimension"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _array(tokens: Any, offsets: Any, number: int) -> TokenArray:
    path = getattr(tokens, "filename", None)
    name = str(path) if path else f"tokens of array {number}"
    flat = integers(tokens, name)
    return TokenArray(
        flat,
        integers(offsets, f"offsets of {name}").astype(np.int64, copy=False),
        name,
        _file_of(name) if path else None,
    )
