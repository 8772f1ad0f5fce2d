"""wds.cache: files of stores kept in a folder as files of their own, for scripts that use these classes
themselves.

WebDataset(..., cache_dir=...) has another cache (millrace.stores.DiskCache), which is verified, shared by all
processes and bounded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from millrace._common.regular_files import open_regular

from .gopen import gopen
from .handlers import Handler, handled, reraise_exception
from .open_shards import is_command, is_local, local_path

# schemes of which the path names the object
_PATHS = frozenset(("", "file", "http", "https", "ftp", "ftps", "gs", "s3", "ais"))


def islocal(url: str) -> bool:
    """Whether it is a path."""
    return is_local(url) and not is_command(url)


def pipe_cleaner(spec: str) -> str:
    """The URL that a command ("pipe:curl https://...") reads; others as they are."""
    words = spec[len("pipe:") :].split() if is_command(spec) else []
    return next((word for word in words if urllib.parse.urlparse(word).scheme in _PATHS - {"", "file"}), spec)


def url_to_cache_name(url: str, ndir: int = 0) -> str:
    """The last part of its path, with `ndir` folders before it; of other schemes, all of it, quoted."""
    assert isinstance(url, str), url
    parsed = urllib.parse.urlparse(url)
    if parsed.scheme not in _PATHS:
        return urllib.parse.quote(url, safe="_+{}*,-")[-128:]
    return "/".join(parsed.path.lstrip("/").split("/")[-1 - ndir :])


def check_tar_format(path: str) -> bool:
    """Whether a file begins as a tar or gzip file does."""
    with open_regular(path, "rb") as file:
        head = file.read(512)
    return head[:2] == b"\x1f\x8b" or head[257:262] == b"ustar"


class LRUCleanup:
    """A cleaner that keeps a folder below `cache_size` bytes.

    Args:
        cache_size: bytes that the folder may have.
        keyfn: a function of a path: the files with the smallest keyfn(path) are removed.
        interval: seconds in which files are removed at most once.
    """

    def __init__(
        self,
        cache_dir: Any = None,
        cache_size: float = 10**12,
        keyfn: Callable[[str], Any] = os.path.getctime,
        verbose: bool = False,
        interval: float | None = 30,
    ) -> None:
        self.cache_dir, self.cache_size, self.keyfn, self.verbose, self.interval = (
            cache_dir,
            cache_size,
            keyfn,
            verbose,
            interval,
        )
        self.last_run = 0.0

    def set_cache_dir(self, cache_dir: Any) -> None:
        """Use another folder."""
        self.cache_dir = cache_dir

    def cleanup(self) -> None:
        """Remove files until the folder is below `cache_size`.

        Files that other processes remove meanwhile are no errors.
        """
        if self.interval is not None and time.time() - self.last_run < self.interval:
            return
        self.last_run = time.time()
        files: list[tuple[Any, int, str]] = []
        for folder, _, names in os.walk(self.cache_dir):
            for path in (os.path.join(folder, name) for name in names):
                with contextlib.suppress(FileNotFoundError):
                    files.append((self.keyfn(path), os.path.getsize(path), path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.cache_size:
                return
            if self.verbose:
                print(f"millrace: removes {path}", file=sys.stderr)
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            total -= size


class StreamingOpen:
    """{"url", "stream"} of URLs, or of {"url": ...}; and "local_path" of those that are files. `verbose`
    prints them.
    """

    def __init__(self, verbose: bool = False, handler: Handler = reraise_exception) -> None:
        self.verbose, self.handler = verbose, handler

    def _path(self, url: str) -> str | None:
        return local_path(url) if islocal(url) else None

    def __call__(self, urls: Iterable[str | dict[str, Any]]) -> Iterator[dict[str, Any]]:
        # outside of what the handler decides about: a step before that gives no "url" is a mistake
        named = (entry["url"] if isinstance(entry, dict) else entry for entry in urls)
        return handled(self._opened, named, self.handler)

    def _opened(self, url: str) -> dict[str, Any]:
        if self.verbose:
            print(f"millrace: opens {url}", file=sys.stderr)
        path = self._path(url)
        if path is None:
            return {"url": url, "stream": gopen(url)}
        return {"url": url, "stream": open_regular(path, "rb"), "local_path": path}


class FileCache(StreamingOpen):
    """The same, of files in `cache_dir`, where each URL is copied when it is first met.

    url_to_name: a file's name in the folder. validator: of a copy; ValueError where it says no; None: all are
        right.
    cache_size: bytes, -1: no bound; looked at once in `cache_cleanup_interval` seconds.
    """

    def __init__(
        self,
        cache_dir: str | None = None,
        *,
        url_to_name: Callable[[str], str] = url_to_cache_name,
        verbose: bool = False,
        validator: Callable[[str], bool] | None = check_tar_format,
        handler: Handler = reraise_exception,
        cache_size: int = -1,
        cache_cleanup_interval: float = 30,
    ) -> None:
        super().__init__(verbose, handler)
        self.cache_dir = os.environ.get("WDS_CACHE", "./_cache") if cache_dir is None else cache_dir
        self.url_to_name, self.validator = url_to_name, validator
        self.cleaner = (
            LRUCleanup(self.cache_dir, cache_size, verbose=verbose, interval=cache_cleanup_interval)
            if cache_size > 0
            else None
        )

    def get_file(self, url: str) -> str:
        """The path of a URL's copy, or of the local file that it is."""
        if islocal(url):
            return local_path(url)
        path = os.path.join(self.cache_dir, self.url_to_name(url))
        if not os.path.exists(path):
            if self.cleaner is not None:
                self.cleaner.cleanup()
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._copy(url, path)
        return path

    def _copy(self, url: str, path: str) -> None:
        part = f"{path}.{os.getpid()}.part"
        try:
            with gopen(url) as stream, open(part, "wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
            if self.validator is not None and not self.validator(part):
                raise ValueError(
                    f"{url}: it is no tar archive; look what the store sent, or give validator=None"
                )
            os.replace(part, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(part)

    def _path(self, url: str) -> str:
        return self.get_file(url)
