"""Removes from URLs the signatures and secrets, which are no part of the object's name.

The rule, for URLs with a scheme: user and password before the host are removed. These parameters of the query
are removed, in upper or lower case:

- X-Amz-..., X-Goog-..., X-Oss-...: signatures of S3, GCS and OSS, version 4;
- where there is a Signature, also Expires, Key-Pair-Id, Policy, AWSAccessKeyId, OSSAccessKeyId,
  GoogleAccessId: version 2, and CloudFront's;
- where there is a sig, also the other parameters of an Azure SAS (sv, se, sp, sr, ...);
- token, access_token, auth_token, auth, api_key, apikey, password, secret, credential, hmac.

The others stay, in their order, a version's id for example. So the same object signed twice has one name: in
the disk cache, for indexes, as `__url__` of its samples, and in messages.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

_ALWAYS = re.compile(
    r"x-(amz|goog|oss)-.+|((access_|auth_)?token|auth|api_?key|password|secret|credential|hmac)",
    re.IGNORECASE,
)
_WITH = {
    "signature": {
        "signature",
        "expires",
        "key-pair-id",
        "policy",
        "awsaccesskeyid",
        "ossaccesskeyid",
        "googleaccessid",
    },
    "sig": {
        "sig",
        "sv",
        "ss",
        "srt",
        "sp",
        "se",
        "st",
        "spr",
        "sr",
        "sip",
        "si",
        "sdd",
        "sks",
        "skv",
        "ske",
        "skt",
        "skoid",
        "sktid",
        "saoid",
        "suoid",
        "scid",
        "ses",
    },
}


def unsigned(url: str) -> str:
    """The URL by this rule; a path as it is."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    rest = re.sub(r"^[^/?#]*@", "", rest)
    path, question, query = rest.partition("?")
    if not question:
        return f"{scheme}://{rest}"
    parts = [(unquote_plus(part.partition("=")[0]).lower(), part) for part in query.split("&")]
    names = {name for name, _ in parts}
    secret = set().union(*(others for sign, others in _WITH.items() if sign in names))
    kept = "&".join(part for name, part in parts if name not in secret and not _ALWAYS.fullmatch(name))
    return f"{scheme}://{path}?{kept}" if kept else f"{scheme}://{path}"


def is_signed(url: str) -> bool:
    """Its query has a signature, which may be good for one method only."""
    return (
        "?" in url
        and re.search(r"[?&](x-(amz|goog|oss)-signature|signature|sig)=", url, re.IGNORECASE) is not None
    )
