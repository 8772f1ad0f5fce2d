"""One sample in Python: what the loaders that run Python functions share."""

from __future__ import annotations

import math
import random

import numpy as np

from benchmarks.scenarios.imagenet import MEAN, STD, ImageScenario

SCALE = (1 / (255 * np.array(STD))).astype(np.float32).reshape(3, 1, 1)
SHIFT = (np.array(MEAN) / np.array(STD)).astype(np.float32).reshape(3, 1, 1)


def draw_box(scenario: ImageScenario, width: int, height: int) -> tuple[float, float, float, float]:
    """left, top, width, height: RandomResizedCrop's box, or the box that Resize + CenterCrop keep."""
    if not scenario.train:  # torchvision's rounded sizes and offsets, mapped back to the photo
        short = min(width, height)
        x, y = width / int(scenario.resize * width / short), height / int(scenario.resize * height / short)
        left, top = round((width / x - scenario.size) / 2), round((height / y - scenario.size) / 2)
        return left * x, top * y, scenario.size * x, scenario.size * y
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def finish(scenario: ImageScenario, pixels: np.ndarray) -> np.ndarray:
    """Flip, transpose and normalise: [size, size, 3] uint8 to [3, size, size] float32."""
    if scenario.train and random.random() < 0.5:
        pixels = pixels[:, ::-1]
    return normalise(pixels)


def normalise(pixels: np.ndarray) -> np.ndarray:
    out = pixels.transpose(2, 0, 1).astype(np.float32, order="C")
    out *= SCALE
    out -= SHIFT
    return out


def pillow_sample(scenario: ImageScenario, path: str) -> np.ndarray:
    """The quickest plain Pillow way: one antialiased resize straight out of the box."""
    from PIL import Image

    with Image.open(path) as image:
        image = image if image.mode == "RGB" else image.convert("RGB")
        left, top, width, height = draw_box(scenario, *image.size)
        box = (left, top, left + width, top + height)
        image = image.resize((scenario.size, scenario.size), Image.Resampling.BILINEAR, box=box)
    return finish(scenario, np.asarray(image))


def opencv_sample(scenario: ImageScenario, path: str) -> np.ndarray:
    """OpenCV has no antialiased bilinear: area averages when it shrinks, bilinear when it enlarges."""
    import cv2

    image = cv2.imread(path, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    left, top, width, height = (int(v) for v in draw_box(scenario, image.shape[1], image.shape[0]))
    shrink = width * height > scenario.size**2
    image = cv2.resize(
        image[top : top + height, left : left + width],
        (scenario.size, scenario.size),
        interpolation=cv2.INTER_AREA if shrink else cv2.INTER_LINEAR,
    )
    return finish(scenario, image)
