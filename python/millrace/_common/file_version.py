"""FileVersion: what tells one version of a local file from another, by stat() alone."""

from __future__ import annotations

import os
from typing import NamedTuple

from .regular_files import check_mode


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
        """FileNotFoundError; OSError for what is no regular file."""
        status = os.stat(path)
        check_mode(path, status.st_mode)
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)

    def is_of(self, other: FileVersion) -> bool:
        """Whether a file that is in use is still the same: another mode or owner does not matter, and neither
        does the inode alone, as some file systems of user space give a file another number whenever it is
        looked up.
        """
        return self[:2] == other[:2] and (self.inode == other.inode or self.changed_ns == other.changed_ns)
