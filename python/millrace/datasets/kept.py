"""Where what was made of a file is kept: this user's cache folder, under a name that another file, or the same one changed, does not have.

The folder: $XDG_CACHE_HOME/millrace or ~/.cache/millrace, and below it one for each kind of thing. The name: a hash of path, size and time
of the last change; of URL and size where the file is in a store.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Optional

from millrace.signed_urls import unsigned


def kept_path(kind: str, suffix: str, url: str, size: int, path: Optional[str], folder: Optional[str], version: str = "") -> str:
    """The file's name. `path`: of a local file. `version`: of a remote one. `folder`: in place of the cache folder's part for `kind`."""
    name: tuple[Any, ...] = (unsigned(url), size, version)
    if path is not None:
        name = (os.path.realpath(path), size, os.stat(path).st_mtime_ns)
    if folder is None:
        root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(root, "millrace", kind)
    return os.path.join(folder, hashlib.sha256(repr(name).encode()).hexdigest()[:32] + suffix)


def is_no_older(made: str, path: str) -> bool:
    """Whether `made` exists and was changed no earlier than the file at `path`."""
    try:
        return os.stat(made).st_mtime_ns >= os.stat(path).st_mtime_ns
    except OSError:
        return False
