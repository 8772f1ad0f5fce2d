"""The indexes of shards: beside the shard, `shard.tar.index`, where `millrace pack` puts them, or in this
user's cache (kept.py).
"""

from __future__ import annotations

from millrace import _core

from ..kept import Version, kept_index

SUFFIX = ".index"


def index_of(
    url: str, source: _core.ByteSource, path: str | None, folder: str | None, version: Version
) -> _core.TarIndex:
    """The index of a shard: loaded, or made and kept for the next time. `path`: of a local shard. `version`:
    what the shard had before it was opened. `folder`: in place of the user's cache.

    UnavailableError: the shard is packed. CorruptDataError: it is damaged.
    """
    return kept_index(
        "tar-indexes",
        SUFFIX,
        url,
        source,
        path,
        folder,
        version,
        beside=SUFFIX,
        load=_core.TarIndex.load,
        fits=lambda index: index.shard_bytes == source.size,
        build=lambda: _core.TarIndex.build(source),
    )
