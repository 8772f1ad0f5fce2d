"""The progress of a pack, in files beside its shards: `pack.journal` while it works, `dataset.json` when it
is complete; and verify(), which checks that dataset.json is true of a folder of shards.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

from millrace import _core
from millrace._common.regular_files import open_regular
from millrace.errors import corrupt_data

from ..texts import Progress
from .shard_writer import PART, index_path

REPORT = "dataset.json"
_JOURNAL = "pack.journal"


class Journal:
    """Lines of JSON: the first one is the plan of the pack, each other one is a complete shard. A line
    that was cut by a crash does not count: its shard is written again, to the same bytes.

    Raises FileExistsError when the folder holds anything but this pack, begun or complete.
    """

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self.folder, self.plan, self._path = folder, plan, folder / _JOURNAL
        self.shards: list[dict[str, Any]] = []
        self.report: dict[str, Any] = {}  # nothing until the pack is complete
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / REPORT).exists():
            self.report = read_report(folder)
            self._same(self.report.get("plan"), plan)
            return
        lines = self._complete_lines()
        if lines:
            self._same(lines[0], plan)
            self.shards = lines[1:]
        else:
            others = sorted(
                name for name in os.listdir(folder) if name != _JOURNAL and not name.endswith(PART)
            )
            if others:
                raise FileExistsError(
                    f"{folder} holds {others[0]!r} and is no pack that was begun: name an empty or a new"
                    " folder"
                )
        self._replace(_JOURNAL, "".join(json.dumps(line) + "\n" for line in [plan, *self.shards]))

    def append(self, shard: dict[str, Any]) -> None:
        """`shard` is complete, on the disk."""
        self.shards.append(shard)
        with open_regular(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(shard) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self, report: dict[str, Any]) -> None:
        """Note that the pack is complete; `report` becomes the contents of dataset.json."""
        self._replace(REPORT, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        self._path.unlink()
        self.report = read_report(self.folder)

    def _replace(self, name: str, text: str) -> None:
        part = self.folder / f"{name}{PART}"
        part.write_text(text, encoding="utf-8", errors="surrogateescape")
        os.rename(part, self.folder / name)

    def _same(self, old: Any, new: dict[str, Any]) -> None:
        was = old if isinstance(old, dict) else {}
        for name in new:
            if was.get(name) != new[name]:
                raise FileExistsError(
                    f"{self.folder} holds a pack whose {name} is {was.get(name)!r}, not {new[name]!r}: name"
                    " another folder, or delete this one to begin anew"
                )

    def _complete_lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        lines: list[dict[str, Any]] = []
        with open_regular(self._path, encoding="utf-8") as file:
            content = file.read()
        for line in content.split("\n")[:-1]:  # after the last newline is nothing, or a cut line
            try:
                lines.append(json.loads(line))
            except ValueError:
                break
        return lines


def read_report(folder: Path) -> dict[str, Any]:
    """dataset.json of a complete pack. FileNotFoundError without one, ValueError when it is damaged."""
    try:
        with open_regular(folder / REPORT, encoding="utf-8", errors="surrogateescape") as file:
            return json.load(file)
    except ValueError as error:
        raise ValueError(
            f"{folder / REPORT} is damaged ({error}): delete the folder and pack again"
        ) from None


_PIECE = 4 << 20


def verify(folder: str | os.PathLike[str], progress: bool = False) -> dict[str, Any]:
    """Read every shard of a pack again, and check its bytes' checksum, its samples, and their places in its
    index. Returns dataset.json.

    Raises CorruptDataError, which names the shard; FileNotFoundError if a shard or dataset.json is missing.
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
        known = samples <= len(index) and index.key(samples - 1) == sample["__key__"]
        if not known or {name: size for name, (_, size) in index.files(samples - 1).items()} != lengths:
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
