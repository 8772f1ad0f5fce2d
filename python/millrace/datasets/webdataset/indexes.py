"""Where the indexes of shards are kept: beside the shard, where `millrace pack` puts them, or in this user's
cache.

Beside the shard: `shard.tar.index`, which is the shard's as long as it says the shard's size and mark (a
checksum of some of its places) and is no older. In the cache, $XDG_CACHE_HOME/millrace or ~/.cache/millrace:
named after path and version (kept.py), so that a changed shard has another one.
"""

from __future__ import annotations

import contextlib
import os

from millrace import _core
from millrace.errors import CorruptDataError

from ..kept import Version, is_no_older, kept_path

SUFFIX = ".index"


def index_of(
    url: str, source: _core.ByteSource, path: str | None, folder: str | None, version: Version
) -> _core.TarIndex:
    """The index of a shard: loaded, or made and kept for the next time. `path`: of a local shard. `version`:
    what the shard had before it
    was opened. `folder`: in place of the user's cache.

    UnavailableError: the shard is packed. CorruptDataError: it is damaged.
    """
    if path is not None and is_no_older(path + SUFFIX, path):
        beside = _loaded(path + SUFFIX, source.size)
        if beside is not None and beside.mark == _core.content_mark(source):
            return beside
    kept = kept_path("tar-indexes", SUFFIX, url, source.size, path, folder, version)
    index = None if kept is None else _loaded(kept, source.size)
    if index is not None:
        return index
    index = _core.TarIndex.build(source)
    if kept is not None:
        with contextlib.suppress(OSError):  # a full or read-only disk: it is made again next time
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            index.save(kept)
    return index


def _loaded(path: str, shard_bytes: int) -> _core.TarIndex | None:
    try:
        index = _core.TarIndex.load(path)
    except (CorruptDataError, OSError):
        return None
    return index if index.shard_bytes == shard_bytes else None
