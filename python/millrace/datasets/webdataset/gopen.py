"""wds.gopen: any URL as a Python file: local ones, commands (pipe:) where they are allowed, objects of stores
through millrace.stores.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from millrace import stores
from millrace._common.regular_files import open_regular
from millrace.errors import UnavailableError

from ..source_file import SourceFile
from . import utils
from .open_shards import Pipe, is_command, is_local, local_path, opened

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_STANDARD = {"rb": "stdin", "wb": "stdout"}

__all__ = ["Pipe", "gopen", "gopen_schemes", "reader", "rewrite_url"]

#: A script's own functions (url, mode, bufsize, **kw), by scheme; they come before the built-in ones.
gopen_schemes: dict[str, Callable[..., Any]] = {}


def rewrite_url(url: str) -> str:
    """The URL as the environment's GOPEN_REWRITE changes it: "prefix=other;prefix2=other2", prefixes being
    regular expressions.
    """
    rules = os.environ.get("GOPEN_REWRITE")
    if not rules:
        return url
    if utils.enforce_security:
        raise ValueError(
            f"{url}: GOPEN_REWRITE of the environment changes no URLs while enforce_security is set; unset it"
        )
    for rule in rules.split(";"):
        pattern, _, other = rule.partition("=")
        changed = re.sub("^" + pattern, other, url)
        if changed != url:
            return changed
    return url


def gopen(url: str, mode: str = "rb", bufsize: int = -1, **kw: Any) -> Any:
    """A file of bytes, to be read or written.

    Args:
        url: any URL or path; "-": standard input or output. Objects of stores are read only.
        mode: "rb" to read, "wb" to write.
        bufsize: of local files and commands, in bytes.
        **kw: those of Pipe for commands, those of millrace.stores.open_source for stores.
    """
    if mode not in _STANDARD:
        raise ValueError(f"gopen(mode={mode!r}): give 'rb' or 'wb'")
    if url == "-":
        return getattr(sys, _STANDARD[mode]).buffer
    url = rewrite_url(url)
    scheme = _SCHEME.match(url)
    if scheme is not None and scheme[1] in gopen_schemes:
        return gopen_schemes[scheme[1]](url, mode, bufsize, **kw)
    if is_command(url):
        return opened(url, mode, bufsize, **kw)
    if is_local(url):
        if utils.enforce_security:
            raise ValueError(f"{url}: gopen() opens no local files while enforce_security is set")
        if kw:
            raise TypeError(f"gopen({url!r}): {', '.join(kw)} mean nothing for a local file")
        # streams come from "-" or a command, not from a FIFO among the files
        opens = open_regular if mode == "rb" else open
        return opens(local_path(url), mode, buffering=int(os.environ.get("GOPEN_BUFFER", bufsize)))
    if mode == "wb":
        raise UnavailableError(
            f"{url}: objects of stores are not written; write a local file, and copy it there"
        )
    return io.BufferedReader(SourceFile(stores.open_source(url, **kw)), 1 << 20)


def reader(url: str, **kw: Any) -> Any:
    """gopen(url, "rb")."""
    return gopen(url, "rb", **kw)
