"""Classifies the failure of a request: it is worth another try, or an error for the reader, of the type that
a local file would give.

404 -> FileNotFoundError; 401, 403, expired or missing credentials -> PermissionError; an object that changed
while it was read, or with bytes that contradict the store's answer -> CorruptDataError; a store that stays
away -> TimeoutError, ConnectionError or OSError. Every message names the URL and the remedy.
"""

from __future__ import annotations

import errno
import re

from ..errors import CorruptDataError, UnavailableError, corrupt_data
from .settings import shown, without_secrets

_STATUS = re.compile(r"status code: (\d{3})")
_EXPIRED = re.compile(
    r"ExpiredToken|TokenRefreshRequired|InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|RequestTimeTooSkewed"
)
_CREDENTIALS = re.compile(
    r"credential|/latest/api/token|/latest/meta-data|169\.254\.169\.254|metadata\.google", re.IGNORECASE
)
_TRANSIENT_4XX = {408, 409, 425, 429}


class BrokenTransfer(OSError):
    """A transfer that ended early, stalled or lied about its length: the rest is asked for again."""


class Throttled(OSError):
    """The store asked for fewer requests: 429 or 503. `after`: seconds it asked to wait, 0 when it did not
    say.
    """

    after: float = 0.0


def changed(url: str, what: str) -> CorruptDataError:
    url = shown(url)
    return corrupt_data(
        url, f"{url} changed while it was read ({what}); start over when nobody writes to it any more"
    )


def status_of(error: BaseException) -> int | None:
    """The HTTP status in an exception of obstore, aiohttp, requests or botocore; None if there is none."""
    for name in ("status", "status_code", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def retry_after(error: BaseException) -> float:
    """Seconds of a Retry-After header, where the exception carries headers (fsspec's do; obstore's do
    not).
    """
    headers = (
        getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None) or {}
    )
    try:
        return min(60.0, max(0.0, float(headers.get("Retry-After", 0))))
    except (TypeError, ValueError, AttributeError):
        return 0.0


class GaveUp(Exception):
    """Carries the error to give up with, as its cause. `unreachable`: every try failed, and another one might
    not have.
    """

    unreachable = False


def classify(error: BaseException, url: str) -> tuple[bool, Exception]:
    """(try again?, the error to give up with)."""
    if isinstance(error, GaveUp):
        return False, error.args[0]
    if isinstance(error, (CorruptDataError, UnavailableError)):
        return False, error
    text = str(error).split("\n\nDebug source")[0].strip() or type(error).__name__
    text = without_secrets(text.replace(url, shown(url)))
    url = shown(url)
    status = status_of(error)
    kind = type(error).__name__
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return False, FileNotFoundError(
            errno.ENOENT, "no such object in the store; check its name and the bucket's", url
        )
    if (
        status in (401, 403)
        or kind in ("PermissionDeniedError", "UnauthenticatedError")
        or _EXPIRED.search(text)
    ):
        return False, PermissionError(
            errno.EACCES,
            f"the store refused: {_first_line(text)}; renew the credentials, or read a public "
            "bucket without any by store_options={'skip_signature': True}",
            url,
        )
    if status == 412 or kind == "PreconditionError":
        return False, changed(url, "its ETag is another one now")
    if isinstance(
        error, (TypeError, ValueError, NotImplementedError, AttributeError, ImportError)
    ) or kind in (
        "UnknownConfigurationKeyError",
        "InvalidPathError",
    ):
        return False, error if isinstance(error, Exception) else OSError(text)
    if status is not None and 400 <= status < 500 and status not in _TRANSIENT_4XX:
        return False, OSError(errno.EIO, f"the store answered {status}: {_first_line(text)}", url)
    said = text
    # an object's own name says nothing
    for named in url.partition("://")[2].removesuffix("?...").partition("/"):
        said = said.replace(named, "") if _CREDENTIALS.search(named) else said
    if _CREDENTIALS.search(said):
        return False, PermissionError(
            errno.EACCES,
            f"no credentials were found: {_first_line(text)}; set the store's variables "
            "(AWS_ACCESS_KEY_ID, AWS_PROFILE, ...) or, for a public bucket, "
            "store_options={'skip_signature': True}",
            url,
        )
    if status in (429, 503):
        throttled = Throttled(
            errno.EAGAIN, f"the store answered {status} again and again; ask for less at once or later", url
        )
        throttled.after = retry_after(error)
        return True, throttled
    if isinstance(error, TimeoutError):
        return True, TimeoutError(
            errno.ETIMEDOUT,
            "the store sent nothing for too long; check the network, or raise stall_timeout",
            url,
        )
    if "ECONNREFUSED" in text or "Connection refused" in str(error):
        return True, ConnectionRefusedError(
            errno.ECONNREFUSED, "nobody answers at the store's address; check it, and that it runs", url
        )
    return True, OSError(errno.EIO, f"the store failed again and again: {_first_line(text)}", url)


def as_block_failure(error: BaseException) -> tuple[str, str, int]:
    """(kind, message, errno) for BlockFile.fail(), so that native readers raise the same."""
    if isinstance(error, CorruptDataError):
        return "corrupt_data", str(error), 0
    text = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileNotFoundError):
        return "not_found", text, errno.ENOENT
    if isinstance(error, OSError):
        return "system", text, error.errno or errno.EIO
    return "system", f"{type(error).__name__}: {error}", errno.EIO


def _first_line(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 300 else line[:297] + "..."
