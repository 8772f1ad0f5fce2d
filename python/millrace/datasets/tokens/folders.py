"""Folders with an index.json: MosaicML's MDS, whose shards hold records, and LitData's chunks of tokens.

Facts: an MDS shard begins with a uint32 count n and n + 1 uint32 offsets of the records from the shard's
beginning; a record is, for each column in the order of the index, its bytes, with the sizes of columns
without a fixed size as uint32 in front (mosaicml/streaming, format/mds/writer.py). A LitData chunk of tokens
begins with a uint32 count n and n + 1 uint32 offsets, and then has its `dim` tokens without a gap (litdata,
streaming/item_loader.py).
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from ... import _core
from ..._common.regular_files import open_regular
from ...errors import corrupt_data
from .stretches import DTYPES, Stretch, numbers, open_file, same_dtype

_WORD = 4
_INT = {13: "int16", 14: "int16", 15: "int32", 16: "int32", 17: "int64", 18: "int64"}
_LITDATA_TORCH = {11: "uint8", 12: "int8", 20: "uint16", **_INT}
_LITDATA_NUMPY = {0: "int8", 1: "int16", 2: "int32", 3: "int64", 4: "uint8", 5: "uint16", 6: "uint32"}


def open_folder(path: str, dtype: str | None) -> list[Stretch]:
    """ValueError for folders that are neither, or whose columns or compression cannot be read in place."""
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
    first = np.frombuffer(file, stored, length, int(offsets[0]) + offset)
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
    chosen = found[0]
    varying = sizes.count(None)
    own = (
        record - varying * _WORD - sum(size for size in sizes if size is not None)
        if sizes[chosen] is None
        else sizes[chosen]
    )
    before = varying * _WORD
    for size in sizes[:chosen]:
        if size is None:
            raise ValueError(
                f"{file.path}: column {names[chosen]!r} lies behind one of varying size; write the tokens"
                " alone"
            )
        before += size
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
