"""One shard on its way to the disk: a plain ustar archive, with bytes that depend on the samples alone."""

from __future__ import annotations

import contextlib
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millrace import _core
from millrace.datasets.webdataset.indexed import SUFFIX

PART = ".part"  # ending of a shard that is not complete
_BLOCK = 512
_END = bytes(2 * _BLOCK)


def index_path(shard: Any) -> Path:
    """The path of a shard's index, which is in the same folder."""
    return Path(os.fspath(shard) + SUFFIX)


class WriteError(OSError):
    """The shard could not be written: an error of the whole shard, not of one sample."""


class ShardWriter:
    """Writes `path`.part; finish() writes its index into the same folder, and renames it to `path`.

    Headers have owner, group and time 0 and mode 0644. Leaves only a .part file if the process dies.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.samples = self.bytes = self.crc32 = 0
        self._last_key: str | None = None
        with self._of_the_shard():
            self._file = open(f"{path}{PART}", "wb")

    @contextlib.contextmanager
    def _of_the_shard(self) -> Iterator[None]:
        """An OSError inside is a WriteError."""
        try:
            yield
        except OSError as error:
            raise WriteError(error.errno, error.strerror, str(self.path)) from error

    def write(self, key: str, fields: dict[str, bytes]) -> None:
        """Appends a sample. ValueError for one that readers could not tell from the last."""
        if key == self._last_key:
            raise ValueError(
                f"two samples behind each other have the key {key!r}: readers would take them for one"
            )
        headers = []
        for field, content in fields.items():
            header = tarfile.TarInfo(f"{key}.{field}")
            header.size = len(content)
            # ValueError above 8 GiB
            headers.append(header.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape"))
        self._last_key = key
        for header_bytes, content in zip(headers, fields.values()):
            self._append(b"".join([header_bytes, content, bytes(-len(content) % _BLOCK)]))
        self.samples += 1

    def size_with(self, fields: dict[str, bytes]) -> int:
        """The archive's size if this sample were its last."""
        return (
            self.bytes
            + sum(_BLOCK + len(content) + -len(content) % _BLOCK for content in fields.values())
            + len(_END)
        )

    def finish(self) -> None:
        """The shard and its index are there, each of them whole."""
        self._append(_END)
        with self._of_the_shard():
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()
        part = self._file.name
        _core.TarIndex.build(part).save(str(index_path(self.path)))
        os.rename(part, self.path)

    def abandon(self) -> None:
        """Remove the file written so far."""
        self._file.close()
        Path(self._file.name).unlink(missing_ok=True)

    def _append(self, data: bytes) -> None:
        with self._of_the_shard():
            self._file.write(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        self.bytes += len(data)
