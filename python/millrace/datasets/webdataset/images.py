"""decode("pil"), decode("torchrgb") and so on: pictures in the form that webdataset's names stand for."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from millrace import _core

from ..pillow_decode import PillowDecoder


class ImageSpec(NamedTuple):
    """What a name stands for. container: "numpy" (H, W, C), "torch" (C, H, W) or "pil"; without C for mode
    "L".
    """

    container: str
    floats: bool  # float32 in 0 .. 1 instead of uint8
    mode: str


def _specs() -> dict[str, ImageSpec]:
    arrays = [
        (f"{mode}{end}", floats, mode.upper())
        for floats, end in ((False, "8"), (True, ""))
        for mode in ("l", "rgb", "rgba")
    ]
    specs = {name: ImageSpec("numpy", floats, mode) for name, floats, mode in arrays}
    specs |= {f"torch{name}": ImageSpec("torch", floats, mode) for name, floats, mode in arrays}
    specs |= {f"pil{mode}": ImageSpec("pil", False, mode.upper()) for mode in ("l", "rgb", "rgba")}
    return specs | {"torch": ImageSpec("torch", True, "RGB"), "pil": ImageSpec("pil", False, "RGB")}


IMAGE_SPECS = _specs()

#: What is given to the picture decoder, by the last part of the field's name.
IMAGE_EXTENSIONS = frozenset(
    "apng blp bmp bufr bw cur dcx dds dib emf eps fit fits flc fli ftc ftu gbr gif grib h5 hdf icb icns ico"
    " iim im j2c j2k jfif jp2 jpc jpe jpeg jpf jpg jpx mpeg mpg msp pbm pcd pcx pgm png pnm ppm ps psd pxr"
    " ras rgb rgba sgi tga tif tiff vda vst webp wmf xbm xpm".split()
)


@dataclass(frozen=True)
class ImageHandler:
    """A decoder of pictures: `spec` is one of IMAGE_SPECS. ValueError for another name."""

    spec: str
    extensions: frozenset[str] = IMAGE_EXTENSIONS

    def __post_init__(self) -> None:
        if self.spec not in IMAGE_SPECS:
            raise ValueError(
                f"decode({self.spec!r}) is unknown: give a function, or one of"
                f" {', '.join(map(repr, sorted(IMAGE_SPECS)))}"
            )

    def __call__(self, key: str, data: bytes) -> Any:
        """The picture; None where `key`, a field's name, has no extension of a picture's."""
        if key.rpartition(".")[2].lower() not in self.extensions:
            return None
        return picture(data, IMAGE_SPECS[self.spec])


def picture(data: bytes, spec: ImageSpec) -> Any:
    """`data` decoded by the engine's codecs where these can, else by Pillow, to the same pixels."""
    pixels = _core.decode_image(data) if spec.mode == "RGB" and spec.container != "pil" else None
    if pixels is not None and pixels.size > 3 * (Image.MAX_IMAGE_PIXELS or sys.maxsize):
        PillowDecoder().check_size(pixels.shape[1], pixels.shape[0])
    if pixels is None:
        with Image.open(io.BytesIO(data)) as image:
            converted = image.convert(spec.mode)
        if spec.container == "pil":
            return converted
        pixels = np.asarray(converted)
    if spec.floats:
        pixels = pixels.astype(np.float32) / 255.0
    if spec.container == "numpy":
        return pixels
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy() if pixels.ndim == 3 else pixels.copy())
