"""Which format a path of tokens has, and its stretches: raw numbers, numpy's .npy, llm.c's .bin, Megatron's
.bin and .idx.

Formats are told by their contents where these say it; the rest is taken for raw numbers, whose dtype the user
gives.

Sources: the .npy format is numpy's NEP 1; Megatron's index that of Megatron-Core's indexed_dataset.py;
llm.c's header of 256 int32 that of its dev/data/data_common.py, which modded-nanogpt's data have too.
"""

from __future__ import annotations

import os

import numpy as np

from ... import _core
from ..._common.regular_files import open_regular
from ...errors import corrupt_data, damage_named
from .folders import open_folder
from .stretches import DTYPES, Stretch, numbers, open_file, same_dtype

_INDEX_MAGIC = b"MMIDIDX\x00\x00"
_INDEX_DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
_LLMC = {(20240520, 1): "uint16", (20240801, 7): "uint32"}  # (magic, version)
_LLMC_HEADER = 1024


def open_path(path: str, dtype: str | None) -> list[Stretch]:
    """The stretches of a file, a folder with an index.json, or a Megatron prefix."""
    if os.path.isdir(path):
        return open_folder(path, dtype)
    index = _index_of(path)
    if index is not None:
        return [_megatron(index, dtype)]
    if path.endswith((".npz", ".gz", ".zst", ".xz", ".bz2", ".zip")):
        raise ValueError(
            f"{path} is compressed, so its tokens cannot be read in place; unpack it, or numpy.save() the"
            " tokens as .npy"
        )
    file = open_file(path)
    head = bytes(memoryview(file)[:12])
    if head[:6] == b"\x93NUMPY":
        return [_npy(file, dtype)]
    if (
        stored := _LLMC.get((int.from_bytes(head[:4], "little"), int.from_bytes(head[4:8], "little")))
    ) and file.size >= _LLMC_HEADER:
        count = int.from_bytes(head[8:12], "little")
        return [Stretch(file, numbers(file, same_dtype(path, stored, dtype), _LLMC_HEADER, count))]
    if dtype is None:
        raise ValueError(
            f"{path} holds raw numbers, which do not say what they are: give dtype=, 'uint16' for nanoGPT's"
            " train.bin"
        )
    return [Stretch(file, numbers(file, dtype))]


def _index_of(path: str) -> str | None:
    """The Megatron index that belongs to `path`: one of prefix, prefix.bin and prefix.idx."""
    prefix, ending = os.path.splitext(path)
    if ending not in (".bin", ".idx"):
        prefix = path
    index = prefix + ".idx"
    if os.path.isfile(path) and ending not in (".bin", ".idx"):
        return None
    if not os.path.isfile(index):
        if ending == ".idx":
            raise FileNotFoundError(f"no such file: {index}")
        return None
    with open_regular(index, "rb") as file:
        is_megatron = file.read(len(_INDEX_MAGIC)) == _INDEX_MAGIC
    if not is_megatron and ending != ".bin":
        raise corrupt_data(index, "this is no Megatron index: it does not begin with MMIDIDX")
    return index if is_megatron else None


def _npy(file: _core.MappedFile, dtype: str | None) -> Stretch:
    with open_regular(file.path, "rb") as opened, damage_named(file.path, "its .npy header cannot be read"):
        version = np.lib.format.read_magic(opened)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, kind = read(opened)
        offset = opened.tell()
    if kind.name not in DTYPES or not kind.isnative:
        raise ValueError(
            f"{file.path} holds {kind}; token files hold {', '.join(DTYPES)}, in this machine's byte order"
        )
    if len(shape) != 1:
        raise ValueError(
            f"{file.path} has shape {shape}; a file of tokens is one row of them: save array.reshape(-1)"
        )
    return Stretch(file, numbers(file, same_dtype(file.path, kind.name, dtype), offset, shape[0]))


def _megatron(index: str, dtype: str | None) -> Stretch:
    """Layout: magic, uint64 version 1, uint8 dtype, uint64 sequences, uint64 documents + 1; then int32
    lengths and int64 byte offsets of
    the sequences, and int64 numbers of the sequences with which documents begin, the last one that of their
    end.
    """
    name, head = index, len(_INDEX_MAGIC)
    file = open_file(index)

    def refuse(reason: str) -> Exception:
        return corrupt_data(name, reason)

    if file.size < head + 25:
        raise refuse("the index ends within its header")
    view = memoryview(file)
    version, code = int.from_bytes(view[head : head + 8], "little"), view[head + 8]
    sequences, documents = (int.from_bytes(view[at : at + 8], "little") for at in (head + 9, head + 17))
    if version != 1 or code not in _INDEX_DTYPES:
        raise refuse(
            f"the index has version {version} and dtype code {code}; known are version 1 and"
            f" {sorted(_INDEX_DTYPES)}"
        )
    stored = same_dtype(index, _INDEX_DTYPES[code], dtype)
    if sequences == 0 or documents < 2:
        raise refuse("the index has no documents")
    # Huge counts from a damaged header must not become huge reads: numbers() compares with the file's size.
    at = head + 25
    lengths = numbers(file, "int32", at, sequences)[0]
    pointers = numbers(file, "int64", at + 4 * sequences, sequences)[0]
    borders = numbers(file, "int64", at + 12 * sequences, documents)[0]
    size = np.dtype(stored).itemsize
    if borders[0] != 0 or borders[-1] != sequences or (np.diff(borders) < 0).any() or (lengths < 0).any():
        raise refuse("its documents do not cover its sequences in order; the index is damaged")
    data_path = index.removesuffix(".idx") + ".bin"
    data = open_file(data_path)
    total = int(lengths.sum(dtype=np.int64))
    expected = np.cumsum(lengths, dtype=np.int64) - lengths
    if data.size != total * size or not np.array_equal(pointers, expected * size):
        raise refuse(
            f"the index is of {total} {stored} ids behind each other, and {data_path} has {data.size} bytes"
            f" instead of {total * size}; they are not of one data set, or one of them was cut short"
        )
    starts = expected[borders[:-1][borders[:-1] < sequences]]
    return Stretch(data, numbers(data, stored), np.unique(starts))
