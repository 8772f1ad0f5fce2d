"""What the replacements of packages' decoders have in common: a regular JPEG goes to the engine's decoder,
everything else to the package, which then says itself what is wrong with it.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from .. import _core
from .asking import asked, look_around_once
from .replaced import Replaced

T = TypeVar("T")

_JPEG = b"\xff\xd8\xff"
_WHOLE = 2  # as _core.last_decode() says; some files are decoded when they are opened
_MOST_PIXELS = 1 << 28  # packages have limits of their own, all of them above


def is_jpeg(data: bytes) -> bool:
    return data.startswith(_JPEG)


def decoded(jpeg: bytes, make: Callable[[_core.RecordedPicture], T | None]) -> T | None:
    """What `make` gives of a regular JPEG; None for any other file, which is the package's."""
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
    """Stands where `original` stood. While a dataset is asked it calls `ours` first, whose None means that
    `original` is to be called. Pickled as a name: what stands there in the process that unpickles, once that
    has looked around.
    """

    def __init__(self, original: Callable[..., Any], ours: Callable[..., Any], name: str) -> None:
        """`name`: where it stands, as "package.module:attribute"."""
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
    """A spawned worker gets its dataset, with the functions that it holds, before it first asks it."""
    pkgutil.resolve_name(name)  # imports the package
    look_around_once()
    return pkgutil.resolve_name(name)


def put_in_front(replaced: Replaced, owner: Any, attribute: str, ours: Callable[..., Any], name: str) -> None:
    """A Replacement by `ours`, of that name, becomes owner.attribute, unless one is there."""
    if not isinstance(getattr(owner, attribute), Replacement):
        replaced.put(owner, attribute, lambda original: Replacement(original, ours, name))
