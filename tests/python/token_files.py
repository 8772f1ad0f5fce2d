"""Files of tokens in every format that Tokens reads, written byte by byte from what the formats say."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

MEGATRON_CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}
LITDATA_CODES = {"uint8": 11, "int8": 12, "int16": 13, "int32": 15, "int64": 17, "uint16": 20}


def write_raw(path: Path, tokens: np.ndarray) -> Path:
    tokens.tofile(path)
    return path


def write_npy(path: Path, tokens: np.ndarray) -> Path:
    np.save(path, tokens)
    return path


def write_llmc(path: Path, tokens: np.ndarray) -> Path:
    header = np.zeros(256, np.int32)
    header[:3] = {"uint16": (20240520, 1), "uint32": (20240801, 7)}[tokens.dtype.name] + (len(tokens),)
    path.write_bytes(header.tobytes() + tokens.tobytes())
    return path


def write_megatron(prefix: Path, sequences: list[np.ndarray], documents: list[int] | None = None) -> Path:
    """`documents`: the sequence with which each begins, and the end; None: each sequence is one."""
    kind = sequences[0].dtype
    lengths = np.array([len(s) for s in sequences], np.int32)
    pointers = (np.cumsum(lengths, dtype=np.int64) - lengths) * kind.itemsize
    borders = np.arange(len(sequences) + 1) if documents is None else np.array(documents)
    prefix.with_suffix(".bin").write_bytes(b"".join(s.tobytes() for s in sequences))
    head = b"MMIDIDX\x00\x00" + struct.pack(
        "<QBQQ", 1, MEGATRON_CODES[kind.name], len(sequences), len(borders)
    )
    prefix.with_suffix(".idx").write_bytes(
        head + lengths.tobytes() + pointers.tobytes() + borders.astype(np.int64).tobytes()
    )
    return prefix.with_suffix(".bin")


def write_litdata(folder: Path, chunks: list[list[np.ndarray]]) -> Path:
    folder.mkdir()
    entries = []
    for number, items in enumerate(chunks):
        offsets = np.cumsum([0] + [item.nbytes for item in items]) + 4 * (len(items) + 2)
        data = (
            np.uint32(len(items)).tobytes()
            + offsets.astype(np.uint32).tobytes()
            + b"".join(item.tobytes() for item in items)
        )
        name = f"chunk-0-{number}.bin"
        (folder / name).write_bytes(data)
        dim = sum(map(len, items))
        entries.append({"chunk_bytes": len(data), "chunk_size": len(items), "dim": dim, "filename": name})
    config = {
        "compression": None,
        "data_format": [f"no_header_tensor:{LITDATA_CODES[chunks[0][0].dtype.name]}"],
    }
    (folder / "index.json").write_text(json.dumps({"chunks": entries, "config": config}))
    return folder


def write_mds(
    folder: Path, shards: list[np.ndarray], encoding: str | None = None, extra: bool = False
) -> Path:
    """Shards of shape (records, tokens). `encoding`: "bytes", or that of an array of fixed shape. `extra`: an
    int column in front.
    """
    folder.mkdir()
    entries = []
    for number, records in enumerate(shards):
        form = encoding or f"ndarray:{records.dtype.name}:{records.shape[1]}"
        sizes = [None if form == "bytes" else records.shape[1] * records.itemsize]
        names, forms = ["tokens"], [form]
        if extra:
            names, forms, sizes = ["id", *names], ["int", *forms], [8, *sizes]
        samples = []
        for i, record in enumerate(records):
            head = np.uint32(record.nbytes).tobytes() if form == "bytes" else b""
            samples.append(head + (struct.pack("<q", i) if extra else b"") + record.tobytes())
        config = {"column_names": names, "column_encodings": forms, "column_sizes": sizes, "format": "mds"}
        text = json.dumps(config, sort_keys=True).encode()
        offsets = (
            np.cumsum([0] + [len(sample) for sample in samples]) + 4 + 4 * (len(samples) + 1) + len(text)
        )
        name = f"shard.{number:05d}.mds"
        (folder / name).write_bytes(
            np.uint32(len(samples)).tobytes() + offsets.astype(np.uint32).tobytes() + text + b"".join(samples)
        )
        entries.append({**config, "samples": len(samples), "raw_data": {"basename": name}, "zip_data": None})
    (folder / "index.json").write_text(json.dumps({"shards": entries, "version": 2}))
    return folder
