"""Pictures for tests: synthetic photos, as JPEGs, in class folders."""

import io

import numpy as np
from PIL import Image


def make_picture(width, height, seed=0, mode="RGB"):
    """A PIL image with the statistics of a photo: smooth colours, sharp edges, some noise. Equal for equal
    arguments.
    """
    random = np.random.default_rng(seed)
    y, x = np.ogrid[0:height, 0:width]
    pixels = np.empty((height, width, 3), np.float32)
    for channel in range(3):
        fx, fy, phase = random.uniform(0.5, 6, 3)
        pixels[..., channel] = 128 + 50 * (np.sin(fx * x / width + phase) + np.sin(fy * y / height))
    for _ in range(6):
        left, top = random.integers(0, width), random.integers(0, height)
        right, bottom = (
            left + random.integers(1, 1 + width // 2 + 1),
            top + random.integers(1, 1 + height // 2 + 1),
        )
        pixels[top:bottom, left:right] = random.uniform(0, 255, 3)
    pixels += 8 * random.standard_normal(pixels.shape, np.float32)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).convert(mode)


def jpeg_bytes(picture, **options):
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", **options)
    return buffer.getvalue()


def make_jpeg_folder(root, classes=("ant", "bee", "cat"), per_class=8, size=(120, 90)):
    """root/class/NN.jpg, sizes varying by some pixels."""
    for label, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(per_class):
            picture = make_picture(size[0] + 5 * i, size[1] + 7 * label, seed=100 * label + i)
            (root / name / f"{i:02}.jpg").write_bytes(jpeg_bytes(picture, quality=90))
    return str(root)
