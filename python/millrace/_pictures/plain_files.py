"""Which opened files can wait: ordinary JPEGs and PNGs."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable
from typing import Any

import numpy
from PIL import ImageFile, JpegImagePlugin

from .. import _core
from .decoding import agrees


def is_plain(image: ImageFile.ImageFile, load: Callable[[Any], Any]) -> bool:
    """A JPEG or a PNG of bytes in one piece, as it was opened. `load`: Pillow's own."""
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
        type(image) is getattr(sys.modules.get("PIL.PngImagePlugin"), "PngImageFile", None)
        and decoder == "zip"
        and how == image.mode
        and "_PngImageFile__prepare_idat" in image.__dict__
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


def end_png(image: Any, data: bytes) -> None:
    """Let Pillow read the part of the file after the pixels, as it does after decoding them."""
    at = image.tile[0][2] - 8  # the first data chunk's length
    while data[at + 4 : at + 8] == b"IDAT":
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    image.fp.seek(at - 4)  # the last one's checksum
    image.__dict__["_PngImageFile__idat"] = 0  # bytes left in the data chunk at Pillow's position
    image.load_end()
