"""Opens shards by their URLs: local files, objects that millrace.stores opens, and the output of commands,
"pipe:cat shard.tar", if these may run (utils.py).
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from millrace import _core, stores
from millrace.errors import UnavailableError
from millrace.stores.disk_cache import data_path
from millrace.stores.settings import Settings, locate
from millrace.stores.sources import RemoteObject

from . import utils
from .urls import expand_urls

_COMMAND = "pipe:"


def is_command(url: str) -> bool:
    """Whether the shard is the output of a command."""
    return url.startswith(_COMMAND)


def opened(url: str, mode: str = "rb", bufsize: int = -1, **kw: Any) -> Pipe:
    """Starts the command, if it may run; **kw: Pipe's."""
    commands_allowed(url)
    return Pipe(url[len(_COMMAND) :], mode, bufsize, **kw)


def commands_allowed(url: str) -> None:
    """Raises UnavailableError, or ValueError under enforce_security, unless the script allowed shards to run
    commands.
    """
    if utils.enforce_security:
        raise ValueError(f"{url}: commands are not run while enforce_security is set")
    if utils.enforce_security is None:
        raise UnavailableError(
            f"{url}: shards are not read from commands; give the URL that the command reads (s3://, https://,"
            " ...). If you trust all URLs: wds.utils.enforce_security = False, or WDS_SECURE=0 in the"
            " environment"
        )


class Pipe(utils.Closing):
    """The output of a command, or its input. Its failure is an OSError, at the end of its output or at
    close().

    timeout: seconds that it may take to end after that. ignore_errors: its status does not matter;
        ignore_status: these statuses do not.
    """

    def __init__(
        self,
        command: str,
        mode: str = "rb",
        bufsize: int = -1,
        timeout: float = 7200.0,
        ignore_errors: bool = False,
        ignore_status: Any = (),
    ) -> None:
        self.command = command
        self.status: int | None = None
        self._timeout, self._ignored = timeout, None if ignore_errors else {0, *ignore_status}
        reads = mode.startswith("r")
        direction: dict[str, Any] = {"stdout" if reads else "stdin": subprocess.PIPE}
        self._process = subprocess.Popen(command, shell=True, bufsize=bufsize, **direction)
        self.stream: Any = self._process.stdout if reads else self._process.stdin
        self._reads = reads

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        if not data and size != 0:
            self._wait()
        return data

    def readline(self, size: int = -1) -> bytes:
        return self.stream.readline(size)

    def write(self, data: Any) -> int:
        return self.stream.write(data)

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        """Closes the pipe. Ends a command that is still writing: nobody reads the rest."""
        if self.stream.closed:
            return
        self.stream.close()
        if self._reads and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(self._timeout)
        else:
            self._wait()

    def _wait(self) -> None:
        self.status = self._process.wait(self._timeout)
        if self._ignored is not None and self.status not in self._ignored:
            raise OSError(
                f"{_COMMAND}{self.command}: the command ended with status {self.status}; look at what it"
                " printed"
            )


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True)
class StoreOptions:
    """Options for reading shards that are not local: WebDataset's arguments of these names. `since`: when the
    run began, for the cache's rules (stores.DiskCache); copies in other processes keep it.
    """

    cache_dir: str | None = None
    cache_size: int = -1
    memory: int = 256 << 20
    store_options: dict[str, Any] | None = None
    since: int = field(default_factory=time.time_ns, compare=False)


def is_local(url: str) -> bool:
    """Whether `url` is a path, with or without file: before it."""
    return url.startswith("file:") or not _SCHEME.match(url)


def check_url(url: str, commands: bool = False) -> None:
    """Checks a URL before it is opened. UnavailableError for a command, unless `commands` are read here and
    allowed; ValueError for a URL that names no object, and for a pattern.
    """
    if is_command(url) and not commands:
        raise _no_command(url)
    if is_command(url):
        commands_allowed(url)
    elif not is_local(url):
        locate(url)
    elif any(sign in url for sign in "*?{") and not os.path.exists(
        os.path.expanduser(url.removeprefix("file:"))
    ):
        raise ValueError(
            f"{url!r} is no file; shards are named by {{000..127}}, {{a,b}} or a list: sorted(glob.glob(...))"
            " makes one"
        )


def checked_urls(urls: str | Iterable[str], commands: bool = False) -> tuple[str, ...]:
    """The URLs that `urls` expands to, after check_url() of each."""
    found = tuple(expand_urls(urls))
    for url in found:
        check_url(url, commands)
    return found


def opened_shards(
    urls: Iterable[str],
    all_local: bool | None = None,
    options: StoreOptions = StoreOptions(),
    commands: bool = False,
) -> Iterator[tuple[str, Any]]:
    """(url, a path or ByteSource) of each; an exception in place of the source that cannot be opened, and
    then the others all the same.
    `commands`: the caller can run commands, too; they come as their URLs.

    If `all_local` is given, `urls` may be endless. For shards in stores, the next URLs are drawn, and their
    objects requested, ahead of their turn.
    """
    if all_local is None:
        urls = list(urls)
        all_local = all(map(is_local, urls))
    if not all_local:
        return _from_stores(urls, options)
    return ((url, url if commands and is_command(url) else _local(url)) for url in urls)


def remote_object(url: str, options: StoreOptions, memory: int) -> Any:
    """A shard of a store that can be read at any place and opened as often as needed:
    millrace.stores.sources.RemoteObject. `memory`: bytes of it that are kept while it is open.
    """
    return RemoteObject(
        locate(url), Settings(memory=memory, store_options=options.store_options or {}), _cache(options)
    )


def open_shard(url: str, options: StoreOptions) -> Any:
    """A path or ByteSource of one shard, for reads at any place; raises the error of opening it."""
    if is_command(url):
        raise _no_command(url)
    if is_local(url):
        source = _local(url)
        if isinstance(source, Exception):
            raise source
        return source
    return stores.open_source(url, cache=_cache(options), store_options=options.store_options)


def local_path(url: str) -> str:
    """The path of a shard for which is_local() holds."""
    if not url.startswith("file:"):
        return os.path.expanduser(url) if url.startswith("~") else url
    path = url[len("file:") :]
    return "/" + path.lstrip("/") if path.startswith("//") else path


def cached_path(url: str, options: StoreOptions) -> str:
    """The file of a shard on this machine: the local shard, or its file in the cache, which holds the bytes
    that were read.
    """
    if is_local(url):
        return local_path(url)
    return data_path(options.cache_dir or "", url)


def _cache(options: StoreOptions) -> Any:
    return (
        None
        if options.cache_dir is None
        else stores.DiskCache(options.cache_dir, options.cache_size, since=options.since)
    )


def _no_command(url: str) -> UnavailableError:
    return UnavailableError(
        f"{url}: what a command writes is not read here; give the URL that the command reads (s3://,"
        " https://, ...)"
    )


def _local(url: str) -> Any:
    if is_command(url):
        return _no_command(url)
    path = local_path(url)
    if not url.startswith("file:"):
        return path
    try:
        return _core.open_local_file(path, name=url)
    except Exception as error:
        return error


def _from_stores(urls: Iterable[str], options: StoreOptions) -> Iterator[tuple[str, Any]]:
    drawn: deque[str] = deque()

    def drawing() -> Iterator[str]:
        for url in urls:
            drawn.append(url)
            yield url

    stream = stores.open_shards(
        drawing(), cache=_cache(options), memory=options.memory, store_options=options.store_options
    )
    source: _core.ByteSource | Exception
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
