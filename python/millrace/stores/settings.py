"""How remote objects are read: plain values, picklable, checked once; and what a URL names: a local file, or
an object in one of the stores.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

BLOCK_BYTES = 1 << 20
# of objects that are read in any order and not cached: what a read does not need costs bandwidth
SMALL_BLOCK_BYTES = 256 << 10


@dataclass(frozen=True)
class Settings:
    """How requests to a store are made: `open_source()` and `open_shards()` take these arguments by name.

    Args:
        memory: bytes that may be in memory or on their way.
        stall_timeout: seconds without 256 KiB more (less after failures, 4 KiB at least) after which a
            request is given up and its rest asked for again.
        connect_timeout: seconds, for http(s), s3, gs and az; fsspec's file systems have options of their own,
            in `store_options`.
        retries: failures in a row, without a byte between, after which an object is given up.
        max_requests: requests on their way at a time.
        request_bytes: bytes of one request at most.
        hedge: a request that takes so many times as long as usual gets a second one.
        store_options: for obstore or fsspec.
    """

    memory: int = 256 << 20
    max_requests: int = 64
    request_bytes: int = 8 << 20
    stall_timeout: float = 20.0
    connect_timeout: float = 5.0
    retries: int = 8
    hedge: float = 3.0
    store_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.memory < 4 * BLOCK_BYTES:
            raise ValueError(
                f"memory={self.memory} should be at least {4 * BLOCK_BYTES} bytes: four blocks of 1 MiB"
            )
        if self.request_bytes < BLOCK_BYTES:
            raise ValueError(
                f"request_bytes={self.request_bytes} should be at least {BLOCK_BYTES}, the size of a block"
            )
        for name in ("max_requests", "retries"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} should be 1 or more")
        for name in ("stall_timeout", "connect_timeout"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}={getattr(self, name)} should be more than 0 seconds")

    def request_blocks(self, block_bytes: int) -> int:
        """The number of blocks of one request: several requests fit into the budget."""
        return max(1, min(self.request_bytes, self.memory // 4) // block_bytes)


# Schemes that the PyPI package obstore serves; every other one is asked of fsspec.
OBJECT_STORES = {"http", "https", "s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss"}


@dataclass(frozen=True)
class Location:
    """`url` as the user wrote it; `local`: the path of a local file, else None; `root` and `path`: the store,
    and the object in it.
    """

    url: str
    scheme: str = "file"
    local: str | None = None
    root: str = ""
    path: str = ""


def locate(url: str | os.PathLike[str]) -> Location:
    """Splits a URL or path. ValueError when a store's URL names no object."""
    return _located(os.fspath(url))


@functools.lru_cache(8192)
def _located(text: str) -> Location:
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Location(text, local=text)
    scheme = scheme.lower()
    if scheme == "file":
        path = unquote(urlsplit(text).path) if rest.startswith(("/", "localhost/")) else rest
        return Location(text, local=path)
    if scheme not in OBJECT_STORES:
        return Location(text, scheme, root=scheme, path=text)
    if scheme in ("http", "https"):
        parts = urlsplit(text)
        query = f"?{parts.query}" if parts.query else ""
        return _checked(
            Location(
                text, scheme, root=f"{scheme}://{parts.netloc}/{query}", path=unquote(parts.path.lstrip("/"))
            )
        )
    bucket, _, path = rest.partition("/")
    return _checked(Location(text, scheme, root=f"{scheme}://{bucket}", path=path))


def shown(url: str) -> str:
    """A URL for messages and for files that stay: user, password and query, which may be secrets, are left
    out.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    rest = re.sub(r"^[^/?#]*@", "", rest)
    return f"{scheme}://{rest}" if "?" not in rest else f"{scheme}://{rest.partition('?')[0]}?..."


def without_secrets(text: str) -> str:
    """The same for every URL in a message."""
    return re.sub(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>)]+", lambda found: shown(found[0]), text)


def _checked(location: Location) -> Location:
    if not location.path:
        store = shown(location.root).rstrip("/?.")
        raise ValueError(
            f"{shown(location.url)!r} names a store but no object in it; write {store}/path/of/the/object"
        )
    return location
