"""One interface to all stores: metadata, and ranges of bytes in chunks.

http(s), s3, gs and az come from the PyPI package `obstore`, everything else from `fsspec`; both are imported
at first use. obstore's own retries are off, because ours resume a transfer at its offset; its timeouts only
guard the connection, because ours watch progress. It hands out no response headers but size, ETag and date:
Retry-After and stores' checksums stay unseen.

obstore's threads do not survive a fork, and its calls would then wait for ever: `_obstore()` gives a forked
child a copy of its own.
"""

from __future__ import annotations

import asyncio
import configparser
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from ..errors import UnavailableError
from .settings import OBJECT_STORES, Location, shown

# Of a response. Each costs a tenth of a millisecond of Python; what came of one before a transfer broke is
# lost.
CHUNK_BYTES, MOST_CHUNK_BYTES = 256 << 10, 1 << 20


@dataclass(frozen=True)
class Meta:
    """Of an object: bytes, and what tells its versions apart (ETag, or date when there is none; "" when
    neither is known).
    """

    size: int
    version: str
    etag: str | None = None  # a strong one, good for If-Match

    @classmethod
    def known(cls, size: int, version: str) -> Meta:
        """Of what was noted of an object: an ETag, or a date."""
        return cls(size, version, version if version.startswith('"') else None)


class RangesUnsupported(OSError):
    """The server sends whole objects only."""


class ObstoreClient:
    def __init__(self, location: Location, options: dict[str, Any], connect_timeout: float) -> None:
        self._obstore = obstore = _obstore()
        options = dict(options)
        client = {
            "connect_timeout": f"{max(1, round(connect_timeout * 1000))}ms",
            "timeout": "24h",
            "allow_http": True,
        }
        client.update(options.pop("client_options", {}))
        options.setdefault("retry_config", {"max_retries": 0})
        kind = location.scheme
        if kind in ("s3", "s3a"):
            options = {**_profile_credentials(options), **options}
        if kind in ("http", "https"):
            self._store = obstore.store.HTTPStore.from_url(location.root, client_options=client, **options)
        else:
            self._store = obstore.store.from_url(location.root, client_options=client, **options)

    @property
    def store(self) -> Any:
        """obstore's own object, for libraries that take one."""
        return self._store

    async def head(self, path: str) -> Meta:
        return _meta(await self._obstore.head_async(self._store, path))

    async def get(
        self, path: str, start: int, end: int | None, etag: str | None, chunk: int = CHUNK_BYTES
    ) -> tuple[Meta, int, AsyncIterator[Any]]:
        """(metadata, where the bytes begin, the bytes in chunks of `chunk`). `end` None: the whole object,
        without a range.
        """
        options: dict[str, Any] = {} if end is None else {"range": (start, end)}
        if etag is not None:
            options["if_match"] = etag
        try:
            result = await self._obstore.get_async(self._store, path, options=options)
        except self._obstore.exceptions.NotSupportedError as error:
            raise RangesUnsupported(str(error)) from error
        return _meta(result.meta), result.range[0], result.stream(min_chunk_size=chunk).__aiter__()


class FsspecClient:
    def __init__(self, location: Location, options: dict[str, Any], connect_timeout: float) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise UnavailableError(
                f"{location.scheme}:// is read through fsspec, which is missing: pip install fsspec"
            ) from error
        try:
            self._fs = fsspec.filesystem(location.scheme, **options)
        except ImportError as error:
            raise UnavailableError(
                f"fsspec needs another package for {location.scheme}://: {error}"
            ) from error
        except ValueError as error:
            known = ", ".join(sorted(OBJECT_STORES))
            raise ValueError(
                f"{shown(location.url)!r}: {error}; millrace reads {known} and fsspec's schemes"
            ) from error

    async def head(self, path: str) -> Meta:
        info = await asyncio.to_thread(self._fs.info, path)
        if info.get("size") is None:
            raise OSError(f"{path}: the store does not say how large it is")
        version = next(
            (
                str(info[k])
                for k in ("ETag", "etag", "mtime", "LastModified", "last_modified", "created")
                if info.get(k)
            ),
            "",
        )
        return Meta(int(info["size"]), version)

    async def get(
        self, path: str, start: int, end: int | None, etag: str | None, chunk: int = CHUNK_BYTES
    ) -> tuple[Meta, int, AsyncIterator[Any]]:
        meta = await self.head(path)
        data = (
            await asyncio.to_thread(self._fs.cat_file, path, start, min(meta.size, end or meta.size))
            if meta.size
            else b""
        )

        async def chunks() -> AsyncIterator[Any]:
            yield data

        return meta, start, chunks()


def client_for(
    location: Location, options: dict[str, Any] | None, connect_timeout: float = 5.0
) -> ObstoreClient | FsspecClient:
    """UnavailableError with the pip line when the package for this scheme is missing."""
    kind = ObstoreClient if location.scheme in OBJECT_STORES else FsspecClient
    return kind(location, dict(options or {}), connect_timeout)


def _meta(meta: dict[str, Any]) -> Meta:
    etag = meta.get("e_tag")
    date = meta.get("last_modified")
    known_date = date.isoformat() if date is not None and date.timestamp() > 0 else ""
    # A weak ETag never satisfies If-Match.
    return Meta(meta["size"], etag or known_date, etag if etag and not etag.startswith("W/") else None)


_forked_from_obstore = False


def _note_fork() -> None:
    global _forked_from_obstore
    if "obstore" in sys.modules:
        _forked_from_obstore = True


os.register_at_fork(after_in_child=_note_fork)


def _obstore() -> Any:
    global _forked_from_obstore
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise UnavailableError(
            "http, s3, gs and az are read through obstore, which is missing: pip install 'obstore>=0.6'"
        ) from error
    if _forked_from_obstore:
        obstore = _fresh_obstore()
        _forked_from_obstore = False
    return obstore


def _fresh_obstore() -> Any:
    """obstore imported anew from a copy of its library in memory: the loader takes it for another library,
    with its own threads.
    """
    library = sys.modules["obstore._obstore"].__file__
    memory = os.memfd_create("obstore")
    assert library is not None
    with open(library, "rb") as source:
        left = os.fstat(source.fileno()).st_size
        while left > 0:
            left -= os.sendfile(memory, source.fileno(), None, left)
    path = f"/proc/self/fd/{memory}"
    for name in [n for n in sys.modules if n == "obstore" or n.startswith("obstore.")]:
        del sys.modules[name]
    loader = importlib.machinery.ExtensionFileLoader("obstore._obstore", path)
    module = importlib.util.module_from_spec(
        importlib.machinery.ModuleSpec("obstore._obstore", loader, origin=path)
    )
    sys.modules["obstore._obstore"] = module
    loader.exec_module(module)
    module.__file__ = library  # for a fork of this process
    os.close(memory)
    fresh = importlib.import_module("obstore")
    importlib.import_module("obstore.store")
    importlib.import_module("obstore.exceptions")
    return fresh


def _profile_credentials(options: dict[str, Any]) -> dict[str, Any]:
    """What obstore does not read by itself: AWS profile files. The environment and the user's options come
    first.
    """
    named = {str(key).lower().removeprefix("aws_") for key in options}
    if named & {"access_key_id", "skip_signature", "credential_provider"} or os.environ.get(
        "AWS_ACCESS_KEY_ID"
    ):
        return {}
    if os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true") or os.environ.get(
        "AWS_WEB_IDENTITY_TOKEN_FILE"
    ):
        return {}
    profile = os.environ.get("AWS_PROFILE", "default")
    files = configparser.RawConfigParser()
    home = os.path.expanduser("~/.aws")
    files.read(
        [
            os.environ.get("AWS_CONFIG_FILE", f"{home}/config"),
            os.environ.get("AWS_SHARED_CREDENTIALS_FILE", f"{home}/credentials"),
        ]
    )
    found: dict[str, str] = {}
    for section in (f"profile {profile}", profile):
        if files.has_section(section):
            found.update(files.items(section))
    result: dict[str, Any] = {}
    for name, value in (("region", found.get("region")), ("endpoint", found.get("endpoint_url"))):
        if value and name not in named and not os.environ.get(f"AWS_{name.upper()}"):
            result[name] = value
    if "aws_access_key_id" in found:
        for name in ("access_key_id", "secret_access_key", "session_token"):
            if found.get(f"aws_{name}"):
                result[name] = found[f"aws_{name}"]
    elif found and importlib.util.find_spec("boto3") is not None:
        # single sign-on, assumed roles and the like
        from obstore.auth.boto3 import Boto3CredentialProvider

        result["credential_provider"] = Boto3CredentialProvider()
    return result
