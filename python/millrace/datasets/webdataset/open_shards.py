"""What a shard's URL stands for: a local file, or what millrace.stores opens."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

from millrace import _core
from millrace.errors import UnavailableError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True)
class StoreOptions:
    """How shards that are not local are read: WebDataset's arguments of these names. `since`: when the run began, by the cache's rules
    (stores.DiskCache), which copies in other processes take over."""

    cache_dir: Optional[str] = None
    cache_size: int = -1
    memory: int = 256 << 20
    store_options: Optional[dict[str, Any]] = None
    since: int = field(default_factory=time.time_ns, compare=False)


def is_local(url: str) -> bool:
    """Whether it is a path, with or without file: before it."""
    return url.startswith("file:") or not _SCHEME.match(url)


def check_url(url: str) -> None:
    """What can be said before it is opened. UnavailableError for a command, ValueError for a URL that names no object, or for a pattern."""
    if url.startswith("pipe:"):
        raise UnavailableError(f"{url}: shards are not read from commands; give the URL that the command reads (s3://, https://, ...)")
    if not is_local(url):
        from millrace.stores.locations import locate

        locate(url)
    elif any(sign in url for sign in "*?{") and not os.path.exists(os.path.expanduser(url.removeprefix("file:"))):
        raise ValueError(f"{url!r} is no file; shards are named by {{000..127}}, {{a,b}} or a list: sorted(glob.glob(...)) makes one")


def opened_shards(
    urls: Iterable[str], all_local: Optional[bool] = None, options: StoreOptions = StoreOptions()
) -> Iterator[tuple[str, Any]]:
    """(url, a path or ByteSource) of each; what cannot be opened comes as the exception instead, and the others behind it all the same.

    If `all_local` is given, `urls` may be endless. Of stores, those of the next shards are drawn and asked for ahead of their turn.
    """
    if all_local is None:
        urls = list(urls)
        all_local = all(map(is_local, urls))
    return ((url, _local(url)) for url in urls) if all_local else _from_stores(urls, options)


def remote_object(url: str, options: StoreOptions, memory: int) -> Any:
    """A shard of a store, to be read at any place and opened as often as needed: millrace.stores.sources.RemoteObject. `memory`: bytes
    of it that are kept while it is open."""
    from millrace.stores.locations import locate
    from millrace.stores.settings import Settings
    from millrace.stores.sources import RemoteObject

    return RemoteObject(locate(url), Settings(memory=memory, store_options=options.store_options or {}), _cache(options))


def open_shard(url: str, options: StoreOptions) -> Any:
    """A path or ByteSource of one shard, to be read at any place; raises what its opening meets."""
    if is_local(url):
        source = _local(url)
        if isinstance(source, Exception):
            raise source
        return source
    from millrace import stores

    return stores.open_source(url, cache=_cache(options), store_options=options.store_options)


def local_path(url: str) -> str:
    """Of a shard for which is_local() holds."""
    if not url.startswith("file:"):
        return os.path.expanduser(url) if url.startswith("~") else url
    path = url[len("file:") :]
    return "/" + path.lstrip("/") if path.startswith("//") else path


def _cache(options: StoreOptions) -> Any:
    from millrace import stores

    return None if options.cache_dir is None else stores.DiskCache(options.cache_dir, options.cache_size, since=options.since)


def _local(url: str) -> Any:
    path = local_path(url)
    if not url.startswith("file:"):
        return path
    try:
        return _core.open_local_file(path, name=url)
    except Exception as error:
        return error


def _from_stores(urls: Iterable[str], options: StoreOptions) -> Iterator[tuple[str, Any]]:
    from millrace import stores

    drawn: deque[str] = deque()

    def drawing() -> Iterator[str]:
        for url in urls:
            drawn.append(url)
            yield url

    stream = stores.open_shards(drawing(), cache=_cache(options), memory=options.memory, store_options=options.store_options)
    try:
        while True:
            try:
                url, source = next(stream)
            except StopIteration:
                stream.finish()  # pictures of the last shards may still be read
                return
            except Exception as error:
                if not drawn:
                    raise
                url, source = drawn[0], error
            drawn.popleft()
            yield url, source
    finally:
        stream.close()
