"""Where what was made of a file is kept: this user's cache folder, under a name that another file, or the
same one changed, does not have.

The folder: $XDG_CACHE_HOME/millrace or ~/.cache/millrace, and below it one for each kind of thing. The name:
a hash of path and version (size, time of the last change, inode and its last change); of URL, size and the
store's version (ETag or date) where the file is in a store. What a store has no version of is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from typing import Any, Union

from millrace import _core
from millrace._common.signed_urls import unsigned
from millrace.errors import CorruptDataError, corrupt_data

from .._common.regular_files import FileVersion
from ..stores.settings import shown

Version = Union[FileVersion, str]  # of a local file; of an object in a store, "" when the store says none


def kept_path(
    kind: str, suffix: str, url: str, size: int, path: str | None, folder: str | None, version: Version
) -> str | None:
    """The file's name; None: nothing is to be kept. `path`: of a local file. `folder`: in place of the cache
    folder's part for `kind`.
    """
    if not version:
        return None
    name: tuple[Any, ...] = (
        (unsigned(url), size, version) if path is None else (os.path.realpath(path), size, tuple(version))
    )
    if folder is None:
        root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(root, "millrace", kind)
    return os.path.join(folder, hashlib.sha256(repr(name).encode()).hexdigest()[:32] + suffix)


def kept_index(
    kind: str,
    suffix: str,
    url: str,
    source: _core.ByteSource,
    path: str | None,
    folder: str | None,
    version: Version,
    *,
    beside: str,
    load: Callable[[str], Any],
    fits: Callable[[Any], bool],
    build: Callable[[], Any],
) -> Any:
    """An index of a file: the one beside it, `path` + `beside`, as long as that is no older and has the
    file's mark (a checksum of some of its places); else the one under kept_path(); else what build() makes,
    which is kept for the next time. `fits`: whether a loaded index is of such a file.
    """

    def loaded(name: str) -> Any:
        try:
            index = load(name)
        except (CorruptDataError, OSError):
            return None
        return index if fits(index) else None

    if path is not None and is_no_older(path + beside, path):
        index = loaded(path + beside)
        if index is not None and index.mark == _core.content_mark(source):
            return index
    kept = kept_path(kind, suffix, url, source.size, path, folder, version)
    index = None if kept is None else loaded(kept)
    if index is None:
        index = build()
        if kept is not None:
            with contextlib.suppress(OSError):  # a full or read-only disk: it is made again next time
                os.makedirs(os.path.dirname(kept), exist_ok=True)
                index.save(kept)
    return index


def is_no_older(made: str, path: str) -> bool:
    """Whether `made` exists and was changed no earlier than the file at `path`."""
    try:
        return os.stat(made).st_mtime_ns >= os.stat(path).st_mtime_ns
    except OSError:
        return False


class FirstVersions:
    """The versions in which a dataset's files were opened first. It travels with the dataset, so that no
    process reads another version:
    what one knows of a file, its samples' number and places, holds for no other.
    """

    def __init__(self) -> None:
        self._versions: dict[str, tuple[int, Version]] = {}

    def check_file(self, path: str) -> None:
        """check() of a local file."""
        version = FileVersion.now(path)
        self.check(path, version.size, version)

    def check(self, url: str, size: int, version: Version) -> None:
        """CorruptDataError when the file is another one now. Any thread."""
        first = self._versions.setdefault(url, (size, version))
        if first != (size, version) and not _same(first[1], version):
            raise changed(url)


def _same(first: Version, now: Version) -> bool:
    return isinstance(first, FileVersion) and isinstance(now, FileVersion) and first.is_of(now)


def changed(url: str) -> Exception:
    name = shown(url)
    return corrupt_data(
        name,
        f"{name} changed since the dataset was opened first; make the dataset anew when nobody writes to it"
        " any more",
    )
