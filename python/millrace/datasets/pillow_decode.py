"""Pictures through Pillow: for ImageFolder without native transforms, and for the engine where a file is no JPEG."""

from __future__ import annotations

import io
import os
from typing import Union

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from millrace.errors import corrupt_data


def pil_loader(path: Union[str, "os.PathLike[str]"]) -> Image.Image:
    """The picture in `path`, in mode RGB. CorruptDataError names the file when it cannot be decoded."""
    return open_picture(path)


def open_picture(path: Union[str, "os.PathLike[str]"], upright: bool = False) -> Image.Image:
    """pil_loader(path), turned as the file's EXIF orientation asks if `upright`."""
    with open(path, "rb") as file:
        try:
            with Image.open(file) as image:
                return (ImageOps.exif_transpose(image) if upright else image).convert("RGB")
        except MemoryError:
            raise
        except Exception as error:  # Pillow's plugins raise nearly every type for damaged files
            raise corrupt_data(os.fspath(path), error) from error


def decode_with_pillow(data: bytes, path: str) -> tuple[np.ndarray, int]:
    """The engine's fallback: (H, W, 3) uint8 pixels as Image.open(...).convert("RGB") gives them, and the EXIF orientation 1..8.

    Palettes and transparency follow Pillow's rules, and so does the limit on pixels. The engine names `path` in what this raises.
    """
    try:
        with Image.open(io.BytesIO(data)) as image:
            pixels = np.asarray(image.convert("RGB"))
            # Asked for after decoding: Pillow turns TIFF files upright by itself and then forgets their orientation.
            orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except UnidentifiedImageError:
        # Pillow's own message shows the address of the buffer instead of the file.
        message = f"cannot identify image file '{path}' ({len(data)} bytes): it is no JPEG, and nothing that Pillow reads"
        raise OSError(message) from None
    return pixels, orientation if orientation in range(1, 9) else 1
