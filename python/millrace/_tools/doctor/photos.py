"""Photos to decode: the user's own, or made up ones of the size and detail that photos have."""

from __future__ import annotations

import contextlib
import io
import os
import random
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from millrace import _core
from millrace._common.regular_files import open_regular
from millrace.datasets.pillow_decode import decode_with_pillow

from .timing import explained

_MOST_PHOTOS, _MOST_BYTES, _MOST_FILE = 64, 64 << 20, 16 << 20
_MADE, _WIDTH, _HEIGHT = 8, 500, 375
USUAL_BYTES = 110_000  # of ImageNet's photos: 500 x 375 pixels, little compressed


@dataclass
class Photos:
    """Sound JPEGs in memory. damaged: [path: reason]; progressive: how many of them are."""

    data: list[bytes]
    own: bool
    damaged: list[str] = field(default_factory=list)
    progressive: int = 0
    pixels: float = 0.0  # of one, on average

    @property
    def mean_bytes(self) -> float:
        return sum(map(len, self.data)) / len(self.data)


def own_photos(files: list[tuple[str, int]], rng: random.Random) -> Photos:
    """Some of these files, as far as they are JPEGs; `data` may be empty."""
    jpegs = [path for path, size in files if path.lower().endswith((".jpg", ".jpeg")) and size <= _MOST_FILE]
    photos, held = Photos([], True), 0
    for path in rng.sample(jpegs, min(_MOST_PHOTOS, len(jpegs))):
        try:
            with open_regular(path, "rb") as file:
                data = file.read(_MOST_FILE)
            facts = _core.probe_jpeg(data)
            if _core.decode_image(data) is None:
                decode_with_pillow(data, path)
                continue  # sound, but not decoded by the engine, whose speed is asked for
        except (OSError, SyntaxError, ValueError) as error:
            photos.damaged.append(explained(error) if path in str(error) else f"{path}: {explained(error)}")
            continue
        if held + len(data) > _MOST_BYTES:
            break
        held += len(data)
        photos.data.append(data)
        photos.progressive += bool(facts["progressive"])
        photos.pixels += facts["width"] * facts["height"]
    photos.pixels /= max(1, len(photos.data))
    return photos


def made_photos(sample_bytes: int = USUAL_BYTES) -> Photos:
    """Eight pictures with the spectrum of photos, of about so many bytes each."""
    share = min(max(sample_bytes, 4_000), 8_000_000) / USUAL_BYTES
    width, height = round(_WIDTH * share**0.5), round(_HEIGHT * share**0.5)
    photos = Photos([_jpeg(_resized(_picture(seed), width, height)) for seed in range(_MADE)], False)
    photos.pixels = width * height
    return photos


def _jpeg(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=92)
    return file.getvalue()


def _picture(seed: int) -> np.ndarray:
    """uint8 (375, 500, 3): noise of all sizes, the finer the weaker, as in photos: mostly brightness, some of
    it colour.
    """
    rng = np.random.default_rng(seed)
    pixels = np.zeros((_HEIGHT, _WIDTH, 3), np.float32)
    for level in range(1, 10):
        size = max(2, _WIDTH * 2**level // 512), max(2, _HEIGHT * 2**level // 512)
        noise = rng.standard_normal((4, size[1], size[0]), np.float32)
        layer = np.stack(
            [
                np.asarray(Image.fromarray(plane).resize((_WIDTH, _HEIGHT), Image.Resampling.BILINEAR))
                for plane in noise
            ],
            -1,
        )
        pixels += (layer[..., :1] + 0.3 * layer[..., 1:]) * 2.0 ** (-0.25 * level)
    pixels = (pixels - pixels.mean()) / float(pixels.std()) * 60 + 118
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _resized(pixels: np.ndarray, width: int, height: int) -> Image.Image:
    """Cut or repeated, not scaled, which would change how much detail a pixel has."""
    return Image.fromarray(np.tile(pixels, (-(-height // _HEIGHT), -(-width // _WIDTH), 1))[:height, :width])


def in_memory_files(photos: Photos) -> list[int]:
    """A descriptor for each, of a file that has no name and goes when it is closed; the engine reads it as
    /proc/self/fd/N.
    """
    with contextlib.ExitStack() as failed:
        descriptors = []
        for data in photos.data:
            descriptors.append(os.memfd_create("photo", os.MFD_CLOEXEC))
            failed.callback(os.close, descriptors[-1])
            with open(descriptors[-1], "wb", closefd=False) as file:
                file.write(data)
        failed.pop_all()
    return descriptors
