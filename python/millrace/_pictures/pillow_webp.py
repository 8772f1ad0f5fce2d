"""WebPs that are opened with Pillow: decoded by the engine when Pillow would decode them, as damage shows
only then; what a script does to them after that is recorded, as in pillow.py.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import numpy
from PIL import Image, ImageFile, WebPImagePlugin

from .. import _core
from .._common.shipped import replaced
from . import pillow
from .asking import asked
from .pillow import FILE, recording_of, waits
from .replaced import around, replacements

_LOADED, _FRAME = "_WebPImageFile__loaded", "_WebPImageFile__physical_frame"  # what Pillow has decoded
_ANIMATION = 2  # of the flags at byte 20 of an extended file


def _is_plain(image: Any, data: bytes) -> bool:
    """A WebP of one picture in colour, of which Pillow has decoded nothing. `data`: all of the file."""
    return (
        image.mode == "RGB"
        and image.n_frames == 1
        and not (data[12:16] == b"VP8X" and data[20] & _ANIMATION)  # of one frame: it says how long it lasts
        and image.__dict__.get(_LOADED) == -1
        and image.__dict__.get(_FRAME) == 0
        and not image.tile
        and image.tell() == 0
        and not ImageFile.LOAD_TRUNCATED_IMAGES
        and _decodes_alike()
    )


@functools.cache
def _decodes_alike() -> bool:
    """Whether this Pillow's libwebp enlarges colours as the engine's does."""
    values = numpy.arange(19 * 13 * 3) * 37 % 251
    file = io.BytesIO()
    Image.fromarray(values.astype(numpy.uint8).reshape(13, 19, 3)).save(file, "WEBP", quality=70)
    record = _core.RecordedPicture.open(file.getvalue())
    image: Any = WebPImagePlugin.WebPImageFile(io.BytesIO(file.getvalue()))
    pillows = numpy.frombuffer(image._decoder.get_next()[0], numpy.uint8).reshape(-1, 4)[:, :3]
    return record is not None and bool((record.array("RGB").reshape(-1, 3) == pillows).all())


def _end(image: Any) -> None:
    """Leave `image` as Pillow leaves a picture after decoding its only frame."""
    image.info["timestamp"] = image.info["duration"] = 0
    image.__dict__ |= {_LOADED: 0, _FRAME: 1}


def _begin(image: ImageFile.ImageFile, data: bytes) -> None:
    """`image`, a WebP that consists of `data`, waits from now on, if it can. Else Pillow decodes it, and then
    comes to ImageFile.load(), which counts it.
    """
    counts = asked()
    if counts is None or not _is_plain(image, data) or (record := recording_of(image, data)) is None:
        return
    _end(image)
    waits(image, record, image._exclusive_fp)
    counts.opened += 1


@around
def _open(self: ImageFile.ImageFile, *, original: Callable[..., None]) -> None:
    """Pillow reads the whole file here, and never again, whatever becomes of the file: so its bytes stay."""
    if asked() is None:
        return original(self)
    file: Any = self.fp
    data = file.read()
    self.fp = io.BytesIO(data)
    try:
        original(self)
    finally:
        self.fp = file
    self.__dict__[FILE] = data


@around
def _load(self: ImageFile.ImageFile, *, original: Callable[..., Any]) -> Any:
    data = self.__dict__.pop(FILE, None)
    if type(data) is bytes:
        _begin(self, data)
    return original(self)


def install() -> None:
    """Nothing where other pictures do not wait either."""
    pillow.install()
    if pillow.is_installed() and not replaced("PIL.WebPImagePlugin"):
        replacements.put(WebPImagePlugin.WebPImageFile, "load", _load)
        replacements.put(WebPImagePlugin.WebPImageFile, "_open", _open)
