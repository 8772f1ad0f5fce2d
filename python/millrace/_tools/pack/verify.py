"""verify(): what dataset.json says of a folder of shards is true."""

from __future__ import annotations

import os
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

from millrace import _core
from millrace._common.regular_files import open_regular
from millrace.errors import corrupt_data

from .journal import read_report
from .progress import Progress
from .shard_writer import index_path

_PIECE = 4 << 20


def verify(folder: str | os.PathLike[str], progress: bool = False) -> dict[str, Any]:
    """Reads every shard of a pack again: its bytes' checksum, its samples, and that its index says where they
    are. Returns dataset.json.

    Raises CorruptDataError naming the shard, FileNotFoundError for a shard or dataset.json that is missing.
    """
    folder = Path(folder)
    report = read_report(folder)
    with closing(Progress("verifying", report["samples"], quiet=not progress)) as bar:
        for shard in report["shards"]:
            path = folder / shard["name"]
            _check_bytes(path, shard)
            _check_samples(path, shard)
            bar.add(shard["samples"], shard["bytes"])
    return report


def _check_bytes(path: Path, shard: dict[str, Any]) -> None:
    size = crc32 = 0
    with open_regular(path, "rb") as file:
        while piece := file.read(_PIECE):
            crc32 = zlib.crc32(piece, crc32)
            size += len(piece)
    if (size, crc32) != (shard["bytes"], shard["crc32"]):
        raise corrupt_data(
            str(path),
            f"has {size} bytes with CRC-32 {crc32:08x}, but {shard['bytes']} with {shard['crc32']:08x} were "
            "written: it was changed or damaged; delete the folder and pack again",
        )


def _check_samples(path: Path, shard: dict[str, Any]) -> None:
    index = _core.TarIndex.load(str(index_path(path)))
    samples = 0
    for samples, sample in enumerate(_core.ShardReader(str(path)), 1):
        lengths = {name: len(content) for name, content in sample.items() if not name.startswith("__")}
        if (
            samples > len(index)
            or index.key(samples - 1) != sample["__key__"]
            or {name: size for name, (_, size) in index.files(samples - 1).items()} != lengths
        ):
            raise corrupt_data(
                str(index_path(path)),
                f"does not have sample {samples - 1}, {sample['__key__']}, of its shard; delete "
                "the folder and pack again",
            )
    if samples != shard["samples"] or samples != len(index):
        raise corrupt_data(
            str(path),
            f"has {samples} samples, but {shard['samples']} were written, and its index has {len(index)}",
        )
