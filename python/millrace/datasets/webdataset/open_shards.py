"""What a shard's URL stands for: a local file, or what millrace.stores opens."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from millrace import _core
from millrace.errors import UnavailableError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_local(url: str) -> bool:
    """Whether it is a path, with or without file: before it."""
    return url.startswith("file:") or not (_SCHEME.match(url) or url.startswith("pipe:"))


def opened_shards(urls: Iterable[str], cache_dir: Optional[str] = None, cache_size: int = -1) -> Iterator[tuple[str, Any]]:
    """(url, a path or ByteSource) of each; what cannot be opened comes as the exception instead, and the others behind it all the same.

    `urls` may be endless. Remote ones are opened ahead, in runs of those that lie behind each other.
    """
    waiting = iter(urls)
    for url in waiting:
        if is_local(url):
            yield url, _local(url)
        else:
            yield url, _remote_refusal(url)


def _local(url: str) -> Any:
    if not url.startswith("file:"):
        return os.path.expanduser(url) if url.startswith("~") else url
    path = url[len("file:") :]
    try:
        return _core.open_local_file("/" + path.lstrip("/") if path.startswith("//") else path, name=url)
    except Exception as error:
        return error


def _remote_refusal(url: str) -> Exception:
    if url.startswith("pipe:"):
        return UnavailableError(f"{url}: shards are not read from commands; give the URL that the command reads (s3://, https://, ...)")
    return UnavailableError(f"{url}: millrace.stores is not part of this build")
