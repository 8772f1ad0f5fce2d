"""Differences among the versions of Pillow that have pictures that can wait, each fact in one place."""

from __future__ import annotations

from PIL import Image

_MAJOR = int(Image.__version__.split(".")[0])

# Pixels are one attribute of a picture. From Pillow 11 on `im` is a property over it, so it has another name.
DOOR = "_im" if "_im" in Image.Image().__dict__ else "im"

# From Pillow 13 on a resize makes the vertical pass first where that is less work, so it rounds otherwise.
MAY_BEGIN_DOWN = _MAJOR >= 13
