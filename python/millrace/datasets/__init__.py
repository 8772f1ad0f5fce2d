"""Datasets that the engine reads natively: ImageFolder, pictures in class folders."""

from .folder_listing import IMG_EXTENSIONS
from .image_folder import ImageFolder
from .pillow_decode import decode_with_pillow, pil_loader

__all__ = ["IMG_EXTENSIONS", "ImageFolder", "decode_with_pillow", "pil_loader"]
