"""Names of samples and fields inside shards: safe to unpack anywhere, and read back by every reader as they
were written.

A key is a path with "/" whose last part has no dot, because readers take what is behind the first dot for the
field. The rule:

- a key that keeps to it stays as it is;
- in others, dots in the last part become "%2E" and "%" becomes "%25"; empty parts and a leading "/" go; the
  parts "." and ".." become "%2E" and "%2E%2E"; characters below " " become "%XX"; a first part
  "__like_this__", which readers pass over, becomes "%5F_like_this__";
- a key that is too long for a ustar header is cut to its last 40 characters' worth of bytes, "~" and 16 hex
  digits of its hash before it.
"""

from __future__ import annotations

import hashlib
import re

_SAFE = re.compile(r"(?!__[^/]*__(?:/|$))(?:(?!\.{1,2}/)[^/\x00-\x1f]+/)*[^/.\x00-\x1f]+\Z")
_MOST_NAME, _MOST_FOLDERS, _MOST_FIELD = 68, 155, 31  # bytes; the last part, its dot and its field share 100


def safe_key(key: str) -> str:
    """The key under which a sample is stored; see the module's rule. ValueError for an empty one."""
    result = key if _SAFE.match(key) else _escaped(key)
    folders, _, name = result.rpartition("/")
    if len(_bytes(name)) > _MOST_NAME or len(_bytes(folders)) > _MOST_FOLDERS:
        digest = hashlib.blake2b(_bytes(key), digest_size=8).hexdigest()
        result = f"{digest}~{_bytes(name)[-40:].decode('utf-8', 'ignore')}"
    return result


def _escaped(key: str) -> str:
    parts = [part for part in key.replace("%", "%25").split("/") if part]
    if not parts:
        raise ValueError(
            f"{key!r} is no name for a sample: a key should have at least one character besides '/'"
        )
    parts = [part.replace(".", "%2E") if part in (".", "..") else part for part in parts]
    parts[-1] = parts[-1].replace(".", "%2E")
    if parts[0].startswith("__") and parts[0].endswith("__"):
        parts[0] = "%5F" + parts[0][1:]
    return re.sub(r"[\x00-\x1f]", lambda match: f"%{ord(match[0]):02X}", "/".join(parts))


def checked_field(name: str) -> str:
    """`name` in lower case, as readers give it back. ValueError for what cannot be the ending of a file's
    name.
    """
    field = name.lower()
    if (
        not re.fullmatch(r"[^/\x00-\x1f]+", field)
        or field.startswith(".")
        or len(_bytes(field)) > _MOST_FIELD
    ):
        raise ValueError(
            f"{name!r} cannot be a field of a shard: its name should be a file's ending, such as 'jpg' or"
            f" 'mask.png', of at most {_MOST_FIELD} bytes"
        )
    return field


def rank(key: str, seed: int, purpose: str) -> int:
    """A number of 64 bits that looks random and is a function of its arguments on every machine: orders and
    choices are made by it.
    """
    return int.from_bytes(hashlib.blake2b(_bytes(f"{purpose}/{seed}/{key}"), digest_size=8).digest(), "big")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
