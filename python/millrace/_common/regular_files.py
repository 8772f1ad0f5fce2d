"""How files are opened in Python: regular files only, as src/io/file_errors.cpp does it in C++, in the same
words; what tells one version of a file from another; and files that are replaced as a whole.

FileVersion uses stat() alone. A reader of a file that is replaced meanwhile gets the old text or the new one.

Opening a FIFO waits for a writer, and a device may give bytes without end. `open_regular`, `open_descriptor`
and `map_regular` never wait; `check_regular` is for libraries that open a path themselves.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, Union

import numpy as np

_Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


def open_regular(
    path: _Path, mode: str = "r", buffering: int = -1, encoding: str | None = None, **more: Any
) -> IO[Any]:
    """open() of a regular file; OSError that says what it is for anything else (IsADirectoryError for a
    folder).
    """
    return open(path, mode, buffering, encoding, opener=open_descriptor, **more)


def open_descriptor(path: Any, flags: int) -> int:
    """os.open() of a regular file."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV, errno.EISDIR, errno.EAGAIN):
            check_regular(path)  # says better what it is: a socket, say
        if error.errno != errno.EAGAIN:
            raise
        # somebody has a lease on the file, and gives it up if asked for it
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    try:
        check_mode(path, os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def map_regular(
    path: _Path, dtype: Any, offset: int, shape: Any, order: Literal["C", "F"] = "C"
) -> np.memmap:
    """A part of a regular file as an array, read only."""
    with open_regular(path, "rb") as file:
        return np.memmap(file, dtype, "r", offset, shape, order)  # type: ignore[call-overload]


class MappedPart(NamedTuple):
    """The file part that a memmap maps. It is sent to other processes in place of the memmap; they map it
    again.
    """

    path: str
    dtype: np.dtype
    offset: int
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @staticmethod
    def of(value: Any) -> Any:
        """A memmap as a MappedPart. Other values are returned as they are, also views of a memmap, which do
        not tell where they begin.
        """
        if type(value) is not np.memmap or not value.filename or not isinstance(value.base, mmap.mmap):
            return value
        order: Literal["C", "F"] = "C" if value.flags.c_contiguous else "F"
        path = os.path.abspath(os.fspath(value.filename))
        return MappedPart(path, value.dtype, value.offset, value.shape, order)

    @staticmethod
    def again(value: Any) -> Any:
        """The value that of() was given: maps a MappedPart again, returns other values as they are."""
        return map_regular(*value) if isinstance(value, MappedPart) else value


def check_regular(path: _Path) -> None:
    """OSError unless a regular file is there (FileNotFoundError where nothing is)."""
    check_mode(path, os.stat(path).st_mode)


def check_mode(path: _Path, mode: int) -> None:
    """The same, of what stat() said."""
    if stat.S_ISREG(mode):
        return
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no file with data")
    code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(
        code,
        f"cannot read: it is {kind}, not a regular file; name a regular file, or take this one away",
        os.fspath(path),
    )


class FileVersion(NamedTuple):
    """`changed_ns`: of the inode. Nobody can set it, so a copy that has another file's size, time and place
    has another one of these.
    """

    size: int
    modified_ns: int
    inode: int
    changed_ns: int

    @classmethod
    def now(cls, path: str) -> FileVersion:
        """The version of the file at `path`. FileNotFoundError; OSError if it is no regular file."""
        status = os.stat(path)
        check_mode(path, status.st_mode)
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)

    def is_of(self, other: FileVersion) -> bool:
        """Whether a file in use is still the same. A changed mode or owner does not matter, nor does a
        changed inode alone: some file systems of user space give a file another number at each lookup.
        """
        return self[:2] == other[:2] and (self.inode == other.inode or self.changed_ns == other.changed_ns)


def write_whole(path: str | os.PathLike[str], text: str) -> Path:
    """Writes `text` as UTF-8 under another name beside `path`, then renames it, so that `path` is whole at
    any time.

    OSError of the kind that came up, naming the path and what to do.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            part.write_text(text, encoding="utf-8", errors="backslashreplace")  # file names: any bytes
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        rule = "give a path in a folder that exists and may be written to"
        raise type(error)(error.errno, f"cannot write {path}: {reason}; {rule}") from error
    return path
