"""Which opened files can wait: ordinary JPEGs, PNGs and WebPs."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable
from typing import Any

import numpy
from PIL import Image, ImageFile, JpegImagePlugin

from .. import _core
from .decoding import agrees


def is_plain(image: Any, load: Callable[[Any], Any]) -> bool:
    """A JPEG, a PNG or a WebP of bytes in one piece, as it was opened. `load`: Pillow's own."""
    if is_webp(image):
        return image.mode == "RGB" and not image.tile and image.n_frames == 1 and _decodes_webp_alike()
    if image.mode not in ("RGB", "L") or len(image.tile) != 1 or ImageFile.LOAD_TRUNCATED_IMAGES:
        return False
    decoder, box, offset, how = image.tile[0]
    # draft() may have chosen a smaller picture, or none; another mode than the file's is found later.
    if box != (0, 0, *image.size) or image.decoderconfig not in ((), (1, 0)):
        return False
    if type(image) is JpegImagePlugin.JpegImageFile:
        return decoder == "jpeg" and offset == 0 and _decodes_alike(load)
    if getattr(image, "is_animated", False):
        return False
    return (
        type(image) is _png()
        and decoder == "zip"
        and how == image.mode
        and _PNG + "prepare_idat" in image.__dict__
    )


@functools.cache
def _decodes_alike(load: Any) -> bool:
    """Whether this Pillow's decoder of JPEGs gives the engine's pixels; those over another libjpeg do not."""

    def pillows(jpeg: bytes) -> Any:
        image = JpegImagePlugin.JpegImageFile(io.BytesIO(jpeg))
        load(image)
        return numpy.frombuffer(image.tobytes(), numpy.uint8)

    def ours(jpeg: bytes) -> Any:
        record = _core.RecordedPicture.open(jpeg)
        return None if record is None else record.array(record.mode).reshape(-1)

    return agrees(pillows, ours)


_PNG = "_PngImageFile__"  # "idat": how many bytes are left of the data chunk in which Pillow stands


def _png() -> Any:
    module = sys.modules.get("PIL.PngImagePlugin")
    return None if module is None else module.PngImageFile


_WEBP = "_WebPImageFile__"  # "loaded", "physical_frame", "timestamp": which frame Pillow has decoded


def is_webp(image: Any) -> bool:
    """Whether it is one, of which Pillow has decoded nothing."""
    module = sys.modules.get("PIL.WebPImagePlugin")
    return (
        module is not None
        and type(image) is module.WebPImageFile
        and image.__dict__.get(_WEBP + "loaded") == -1
        and image.__dict__.get(_WEBP + "physical_frame") == 0
        and image.tell() == 0
        and not ImageFile.LOAD_TRUNCATED_IMAGES
    )


@functools.cache
def _decodes_webp_alike() -> bool:
    """Whether this Pillow's libwebp enlarges colours as the engine's does."""
    values = numpy.arange(19 * 13 * 3) * 37 % 251
    file = io.BytesIO()
    Image.fromarray(values.astype(numpy.uint8).reshape(13, 19, 3)).save(file, "WEBP", quality=70)
    record = _core.RecordedPicture.open(file.getvalue())
    image: Any = sys.modules["PIL.WebPImagePlugin"].WebPImageFile(io.BytesIO(file.getvalue()))
    pillows = numpy.frombuffer(image._decoder.get_next()[0], numpy.uint8).reshape(-1, 4)[:, :3]
    return record is not None and bool((record.array("RGB").reshape(-1, 3) == pillows).all())


def end_webp(image: Any) -> None:
    """As Pillow leaves a picture whose only frame it has decoded."""
    image.info["timestamp"] = image.info["duration"] = 0
    image.__dict__ |= {_WEBP + "loaded": 0, _WEBP + "physical_frame": 1}


def end_png(image: Any, data: bytes) -> None:
    """What stands behind the pixels is read by Pillow, as it does when it has them."""
    at = image.tile[0][2] - 8  # the first data chunk's length
    while data[at + 4 : at + 8] == b"IDAT":
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    image.fp.seek(at - 4)  # the last one's checksum
    image.__dict__[_PNG + "idat"] = 0
    image.load_end()
