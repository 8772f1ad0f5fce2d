"""Tells the format of a path of tokens, and opens its stretches: raw numbers, numpy's .npy, llm.c's .bin,
Megatron's .bin and .idx, and folders with an index.json: MosaicML's MDS, with shards of records, and
LitData's chunks.

The format comes from a file's contents if these tell it; other files are taken for raw numbers of the dtype
that the user gives.

Sources: the .npy format is numpy's NEP 1; Megatron's index is that of Megatron-Core's indexed_dataset.py;
llm.c's header of 256 int32 is that of its dev/data/data_common.py, which modded-nanogpt's data have, too. An
MDS shard begins with a uint32 count n and n + 1 uint32 offsets of the records from the shard's beginning. A
record has, for each column in the order of the index, its bytes; the sizes of columns without a fixed size
come first, as uint32 (mosaicml/streaming, format/mds/writer.py). A LitData chunk of tokens begins with a
uint32 count n and n + 1 uint32 offsets, and then has its `dim` tokens without a gap (litdata,
streaming/item_loader.py).
"""

from __future__ import annotations

import functools
import json
import os
from typing import Any

import numpy as np

from ... import _core
from ..._common.regular_files import open_regular
from ...errors import corrupt_data, damage_named
from ..arrays import npy_header
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
        if os.path.isfile(path):
            return None
        prefix = path
    index = prefix + ".idx"
    if ending != ".idx" and not os.path.isfile(index):
        return None
    with open_regular(index, "rb") as file:
        is_megatron = file.read(len(_INDEX_MAGIC)) == _INDEX_MAGIC
    if not is_megatron and ending != ".bin":
        raise corrupt_data(index, "this is no Megatron index: it does not begin with MMIDIDX")
    return index if is_megatron else None


def _npy(file: _core.MappedFile, dtype: str | None) -> Stretch:
    with open_regular(file.path, "rb") as opened, damage_named(file.path, "its .npy header cannot be read"):
        shape, _, kind = npy_header(opened)
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
    lengths and int64 byte offsets of the sequences, and int64 numbers of the sequences with which documents
    begin, the last one that of their end.
    """
    head, file = len(_INDEX_MAGIC), open_file(index)
    refuse = functools.partial(corrupt_data, index)
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


_WORD = 4
_INT = {13: "int16", 14: "int16", 15: "int32", 16: "int32", 17: "int64", 18: "int64"}
_LITDATA_TORCH = {11: "uint8", 12: "int8", 20: "uint16", **_INT}
_LITDATA_NUMPY = {0: "int8", 1: "int16", 2: "int32", 3: "int64", 4: "uint8", 5: "uint16", 6: "uint32"}


def open_folder(path: str, dtype: str | None) -> list[Stretch]:
    """The stretches of an MDS or LitData folder. ValueError for other folders, and for columns or compression
    that cannot be read in place.
    """
    name = os.path.join(path, "index.json")
    if not os.path.isfile(name):
        raise ValueError(
            f"{path} is a folder without index.json; give the files in it, in their order: sorted(glob(...))"
        )
    with open_regular(name, "rb") as opened:
        try:
            index = json.load(opened)
        except ValueError as error:
            raise corrupt_data(name, f"it is no JSON ({error})") from None
    try:
        if "chunks" in index and "config" in index:
            return _litdata(path, index, dtype)
        if index.get("shards"):
            return [_mds(path, shard, dtype) for shard in index["shards"]]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise corrupt_data(name, f"the index lacks what it should have ({error!r})") from None
    raise ValueError(f"{name} is neither that of MDS shards nor of LitData chunks")


def _litdata(path: str, index: dict[str, Any], dtype: str | None) -> list[Stretch]:
    config = index["config"]
    form = str((config.get("data_format") or [""])[0])
    kind, _, code = form.partition(":")
    known = {"no_header_tensor": _LITDATA_TORCH, "no_header_numpy": _LITDATA_NUMPY}.get(kind, {})
    stored = known.get(int(code)) if code.isdigit() else None
    if stored is None or config.get("compression") or config.get("encryption"):
        raise ValueError(
            f"{path}: these LitData chunks are {form or 'of no format'}, compression"
            f" {config.get('compression')}; tokens are read from chunks that"
            " optimize(item_loader=TokensLoader()) wrote without compression"
        )
    stored, stretches = same_dtype(path, stored, dtype), []
    for chunk in index["chunks"]:
        file = open_file(os.path.join(path, chunk["filename"]))
        count = int.from_bytes(memoryview(file)[:_WORD], "little")
        if count != chunk["chunk_size"]:
            raise corrupt_data(
                file.path, f"the chunk has {count} items and index.json says {chunk['chunk_size']}"
            )
        stretches.append(Stretch(file, numbers(file, stored, (count + 2) * _WORD, chunk["dim"])))
    return stretches


def _mds(path: str, shard: dict[str, Any], dtype: str | None) -> Stretch:
    if shard.get("format") != "mds":
        raise ValueError(f"{path}: shards of format {shard.get('format')}; tokens are read from MDS")
    file = open_file(os.path.join(path, shard["raw_data"]["basename"]))
    head = memoryview(file)
    count = int.from_bytes(head[:_WORD], "little")
    if count != shard["samples"] or count == 0:
        raise corrupt_data(file.path, f"the shard has {count} records and index.json says {shard['samples']}")
    offsets = numbers(file, "uint32", _WORD, count + 1)[0].astype(np.int64)
    sizes = np.diff(offsets)
    if int(sizes.min()) < 0 or int(offsets[-1]) > file.size:
        raise corrupt_data(
            file.path,
            "its records do not lie behind each other within the shard; it is damaged, or was cut short",
        )
    if int(sizes.min()) != int(sizes.max()):
        raise ValueError(
            f"{file.path}: its records have {sizes.min()} to {sizes.max()} bytes; windows are read from"
            " records of one length"
        )
    offset, length, stored = _column(file, shard, int(sizes[0]), dtype)
    size, stride = np.dtype(stored).itemsize, int(sizes[0])
    first = np.frombuffer(file, stored, length, int(offsets[0]) + offset)  # type: ignore[call-overload]  # any buffer
    return Stretch(
        file, np.lib.stride_tricks.as_strided(first, (count, length), (stride, size), writeable=False)
    )


def _column(
    file: _core.MappedFile, shard: dict[str, Any], record: int, dtype: str | None
) -> tuple[int, int, str]:
    """(byte offset in a record, tokens, their dtype) of the only column that can be tokens."""
    names, encodings, sizes = shard["column_names"], shard["column_encodings"], shard["column_sizes"]
    found = [
        i for i, encoding in enumerate(encodings) if encoding == "bytes" or encoding.startswith("ndarray:")
    ]
    if len(found) != 1 or sizes.count(None) > 1:
        raise ValueError(
            f"{file.path}: columns {dict(zip(names, encodings))}; tokens are read from one column of bytes or"
            " ndarray:dtype:length"
        )
    chosen, heads = found[0], sizes.count(None) * _WORD
    own = sizes[chosen]
    if own is None:
        own = record - heads - sum(size for size in sizes if size is not None)
    if None in sizes[:chosen]:
        raise ValueError(
            f"{file.path}: column {names[chosen]!r} lies behind one of varying size; write the tokens alone"
        )
    before = heads + sum(sizes[:chosen])
    parts = encodings[chosen].split(":")
    if parts[0] == "bytes":
        if dtype is None:
            raise ValueError(
                f"{file.path}: column {names[chosen]!r} is bytes, which do not say what they are: give"
                " dtype=, 'int64' for llm-foundry's"
            )
        stored = dtype
    elif len(parts) == 3 and parts[1] in DTYPES:
        stored = same_dtype(file.path, parts[1], dtype)
    else:
        raise ValueError(
            f"{file.path}: column {names[chosen]!r} is {encodings[chosen]}; give it a dtype and a length:"
            " ndarray:uint16:2049"
        )
    length, rest = divmod(own, np.dtype(stored).itemsize)
    if rest or length == 0:
        raise corrupt_data(
            file.path, f"records of {own} bytes are no whole number of {stored} ids; give another dtype="
        )
    return before, length, stored
