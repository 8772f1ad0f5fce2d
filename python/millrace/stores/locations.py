"""What a URL names: a local file, or an object in one of the stores."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

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
