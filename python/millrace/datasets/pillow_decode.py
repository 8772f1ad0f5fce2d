"""Pictures through Pillow: for ImageFolder without native transforms, and for the engine where a file is no
JPEG. Pillow itself is imported when it is needed: most loaders come by here, and few of them have pictures.
"""

from __future__ import annotations

import io
import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from millrace import errors
from millrace._common.regular_files import open_regular
from millrace._common.shipped import PillowLimits
from millrace._pictures.info import info_of
from millrace.errors import CorruptDataError, corrupt_data

if TYPE_CHECKING:
    from PIL import Image


def pil_loader(path: str | os.PathLike[str]) -> Image.Image:
    """The picture in `path`, in mode RGB.

    Raises:
        CorruptDataError: if the file cannot be decoded; names the file.
    """
    return open_picture(path)


def open_picture(path: str | os.PathLike[str], upright: bool = False) -> Image.Image:
    """pil_loader(path), turned as the file's EXIF orientation asks if `upright`."""
    from PIL import Image, ImageOps

    with open_regular(path, "rb") as file:
        try:
            with Image.open(file) as image:
                return (ImageOps.exif_transpose(image) if upright else image).convert("RGB")
        except MemoryError:
            raise
        except Exception as error:  # Pillow's plugins raise nearly every type for damaged files
            kinds = CorruptDataError, errors.UnidentifiedImageError, errors.DecompressionBombError
            raise corrupt_data(os.fspath(path), error, kinds[fault_of(error)]) from error


def info_in(path: str | os.PathLike[str], upright: bool) -> dict[Any, Any]:
    """open_picture(path, upright).info, without the pixels where these are not needed for it."""
    from PIL import Image

    if upright:
        return open_picture(path, True).info
    with open_regular(path, "rb") as file:
        return info_of(Image.open(file))


def fault_of(error: object) -> int:
    """A PictureFault (src/codecs/image_header.h): what Pillow has an exception type of its own for."""
    from PIL import Image, UnidentifiedImageError

    return (
        1
        if isinstance(error, UnidentifiedImageError)
        else 2
        if isinstance(error, Image.DecompressionBombError)
        else 0
    )


class PillowDecoder(PillowLimits):
    """What an engine asks Pillow: the pictures that its codecs leave to it, and what Pillow says of those
    they decode themselves.
    """

    def __call__(self, data: bytes, path: str) -> tuple[np.ndarray, int]:
        return decode_with_pillow(data, path)

    def check_size(self, width: int, height: int) -> None:
        """Warns, or raises DecompressionBombError, as Pillow does when it opens a picture of this size."""
        limit, pixels = self.limits[0], max(1, width) * max(1, height)
        if limit is None or pixels <= limit:
            return
        from PIL import Image

        text = (
            f"Image size ({pixels} pixels) exceeds limit of {{}} pixels, could be decompression bomb DOS"
            " attack."
        )
        if pixels > 2 * limit:
            raise Image.DecompressionBombError(text.format(2 * limit))
        warnings.warn(text.format(limit), Image.DecompressionBombWarning, stacklevel=2)

    def identifies(self, data: bytes) -> bool:
        """Whether Pillow would find out what it is and open it, whatever its decoding said then."""
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(io.BytesIO(data)):
                return True
        except UnidentifiedImageError:
            return False
        except Exception:  # plugins raise nearly every type
            return True

    fault_of = staticmethod(fault_of)


def decode_with_pillow(data: bytes, path: str) -> tuple[np.ndarray, int]:
    """Decode a picture with Pillow: the engine's fallback.

    Palettes and transparency follow Pillow's rules, and so does the limit on pixels.

    Args:
        data: the bytes of a picture.
        path: the engine names it in the errors of this function.

    Returns:
        (H, W, 3) uint8 pixels as Image.open(...).convert("RGB") gives them, and the EXIF orientation 1..8.
    """
    from PIL import ExifTags, Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data)) as image:
            pixels = np.asarray(image.convert("RGB"))
            # Asked for after decoding: Pillow turns TIFF files upright by itself and then forgets their
            # orientation.
            try:
                orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
            except Exception:  # damaged EXIF means upright: the picture is sound
                orientation = 1
    except UnidentifiedImageError:
        # Pillow's own message shows the address of the buffer instead of the file.
        message = (
            f"cannot identify image file '{path}' ({len(data)} bytes): it is no JPEG, and nothing that Pillow"
            " reads"
        )
        raise UnidentifiedImageError(message) from None
    # EXIF may hold the number as a float, or a fraction.
    return pixels, int(orientation) if orientation in range(1, 9) else 1
