"""The common part of the replacements of packages' decoders: a regular JPEG goes to the engine's decoder,
everything else to the package, which then reports faults itself. Also small JPEGs that tell decoders apart:
by how they enlarge colours, by their inverse transform, and by whether they turn pictures by their EXIF.
"""

from __future__ import annotations

import base64
import functools
import os
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from .. import _core
from .._common.regular_files import open_regular
from .asking import asked, look_around_once
from .replaced import replacements

T = TypeVar("T")

_JPEG = b"\xff\xd8\xff"
_WHOLE = 2  # as _core.last_decode() says; some files are decoded when they are opened
_MOST_PIXELS = 1 << 28  # packages have limits of their own, all of them above


def is_jpeg(data: bytes) -> bool:
    return data.startswith(_JPEG)


def jpeg_in(path: Any) -> bytes | None:
    """A JPEG file's bytes; None for anything else and for errors, which the package then meets, too."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    try:
        with open_regular(path, "rb", buffering=0) as file:
            if not is_jpeg(file.read(len(_JPEG))):
                return None
            file.seek(0)
            return file.read()
    except (OSError, ValueError):
        return None


def decoded(jpeg: bytes, make: Callable[[_core.RecordedPicture], T | None]) -> T | None:
    """The result of `make` for a regular JPEG; None for any other file, which the package has to decode."""
    if not is_jpeg(jpeg):
        return None
    try:
        header = _core.probe_jpeg(jpeg)
    except _core.CorruptDataError:
        return None
    if header["components"] not in (1, 3) or header["arithmetic"]:  # CMYK is in colours of each package
        return None
    if header["width"] * header["height"] > _MOST_PIXELS:
        return None
    record = _core.RecordedPicture.open(jpeg)
    if record is None:
        return None
    try:
        return make(record)
    except (_core.CorruptDataError, _core.UnavailableError):
        return None


class Replacement:
    """Replaces `original`. While a dataset is asked, it calls `ours` first, and `original` if `ours` returns
    None. It is pickled as a name: unpickling gives the object of that name in the other process, after
    look_around() there.
    """

    def __init__(self, original: Callable[..., Any], ours: Callable[..., Any], name: str) -> None:
        """`name`: the place of `original`, as "package.module:attribute"."""
        functools.update_wrapper(self, original, updated=())
        self._original, self._ours, self._name = original, ours, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        counts = asked()
        if counts is None:
            return self._original(*args, **kwargs)
        made = self._ours(*args, **kwargs)
        if made is None:
            made = self._original(*args, **kwargs)
            counts.left_to_pillow += made is not None  # OpenCV's None: there is no picture
        else:
            counts.opened += 1
            counts.decoded(_WHOLE, first=True)
            counts.called(self._name.rpartition(":")[2])
        return made

    def __getattr__(self, name: str) -> Any:
        if name == "_original":  # not made yet
            raise AttributeError(name)
        return getattr(self._original, name)

    def __reduce__(self) -> Any:
        return _standing, (self._name,)


def _standing(name: str) -> Any:
    """The object of this name, after look_around(): a spawned worker gets its dataset, with the functions
    that the dataset holds, before it first asks the dataset.
    """
    pkgutil.resolve_name(name)  # imports the package
    look_around_once()
    return pkgutil.resolve_name(name)


def put_in_front(owner: Any, attribute: str, ours: Callable[..., Any], name: str) -> None:
    """A Replacement by `ours`, of that name, becomes owner.attribute, unless one is there."""
    if not isinstance(getattr(owner, attribute), Replacement):
        replacements.put(owner, attribute, lambda original: Replacement(original, ours, name))


# 19 x 13 pixels of a synthetic photo, colours at half the width, and at half the width and height.
_HALF_BOTH = base64.b85decode(
    b"|JeWF01!$>Nk#wx0RR9200961|JwjV03a3^92gWJ92y)XA|NI(P&6<sEHGk5N;*(<W_oyXW^itRkhq+Hh^~rmaG=_vuD-<1(9V3C"
    b";_~3g@VLs(#{b&@LjfWrBrqy4UNkgb#)NQ$#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>W4^"
    b"01*fP4FD4Z0U`hb5di}c0sq7R7ytkR0RaF20000000000000020|5m8!~h=<009I70s{a500000000000RRF65fUL2K?G58|HJ?n"
    b"0RRI5000000000000000000331OLPT8W8{k0RRI40000000000000010ucieA^+L{3<CiG0ucid06zfe(AFdB!oc=f0ZGp~BUYM8"
    b"NNqGw?GqQ~6ORSqZ=i)}d}mD)WaY;C#S1Fsgz>TTXaCs"
)
_HALF_WIDTH = base64.b85decode(
    b"|JeWF01!$>Nk#wx0RR9200961|JwjV03a3^92gWJ92y)XA|NI(P&6<sEHGk5N;*(<W_oyXW^itRkhq+Hh^~rmaG=_vuD-<1(9V3C"
    b";_~3g@VLs(#{b&@LjfWrBrqy4UNkgb#)NQ$#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>U3R#>W4^"
    b"01*fP4FD4Z0U-ba5di}c0sq7R7ytkQ0{{R30000000000000030Rja7!~h=<009I70s{a500000000000RRF65fUL2K?G58|HJ?o"
    b"0RRF6000000000000000009C30|fuX038tk0s;XA0000000000000000Rj;c0|X&4VgK3y3<CiG0ucid06zfHp{z&M1%d3c0$9p~"
    b"%Ze4k-$4l30na)kR;?tYHkv4QtXfJ`$Hh>{d}mD)WaY;C#S0|&Dl%&xy$Xe&|Je"
)
_TURNED = (
    _HALF_BOTH[:20]
    + b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    + _HALF_BOTH[20:]
)
SAMPLES = _HALF_BOTH, _HALF_WIDTH, _TURNED


def agrees(theirs: Callable[[bytes], Any], ours: Callable[[bytes], Any]) -> bool:
    """Whether two decoders give the same arrays for all samples."""
    for jpeg in SAMPLES:
        try:
            one, other = theirs(jpeg), ours(jpeg)
        except Exception:  # whatever a package raises: it does not decode the sample
            return False
        if one is None or other is None or one.shape != other.shape or not bool((one == other).all()):
            return False
    return True
