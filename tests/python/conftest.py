"""What several test files need: class folders of small JPEGs, and torchvision where it is installed."""

import io
import sys

import numpy as np
import pytest
import torch
from PIL import Image

_declared_ops = []  # a torch.library.Library takes its declarations with it when it dies


def import_torchvision():
    """torchvision, also where its compiled half was built for another torch: the two operators it insists on are declared first."""
    try:
        import torchvision
    except ImportError:
        pytest.skip("torchvision is not installed")
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared_ops.append(library)
        import torchvision
    return torchvision


@pytest.fixture(scope="session")
def torchvision():
    return import_torchvision()


def make_picture(width, height, seed=0, mode="RGB"):
    """A PIL image with the statistics of a photo: smooth colours, sharp edges, some noise. Equal for equal arguments."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.empty((height, width, 3))
    for channel in range(3):
        fx, fy, phase = random.uniform(0.5, 6, 3)
        pixels[..., channel] = 128 + 100 * np.sin(fx * x / width + fy * y / height + phase)
    for _ in range(6):
        left, top = random.integers(0, width), random.integers(0, height)
        right, bottom = left + random.integers(1, 1 + width // 2 + 1), top + random.integers(1, 1 + height // 2 + 1)
        pixels[top:bottom, left:right] = random.uniform(0, 255, 3)
    pixels += random.normal(0, 8, pixels.shape)
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


@pytest.fixture(scope="session")
def jpeg_folder(tmp_path_factory):
    """Path of a folder of 3 classes with 8 JPEGs each. Read only."""
    return make_jpeg_folder(tmp_path_factory.mktemp("jpegs") / "root")
