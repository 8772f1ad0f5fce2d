"""CorruptDataErrors that are also the exceptions that Pillow has for the same fault, for scripts that catch
those.

millrace.errors gives these out without importing Pillow before somebody asks for them.
"""

from __future__ import annotations

import PIL
from PIL import Image

from .._core import CorruptDataError


class UnidentifiedImageError(CorruptDataError, PIL.UnidentifiedImageError):
    """A file that is no picture of any known format, or whose header cannot be read."""


class DecompressionBombError(CorruptDataError, Image.DecompressionBombError):
    """A picture of more than twice PIL.Image.MAX_IMAGE_PIXELS."""
