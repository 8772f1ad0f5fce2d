"""JPEG files in class folders to normalised float32 batches, as image classifiers are trained and validated
on ImageNet.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class ImageScenario:
    """Batches: images [batch, 3, size, size] float32, (pixel / 255 - MEAN) / STD; labels [batch] integers;
    last batch partial.

    train: RandomResizedCrop(size, scale .08 to 1, ratio 3/4 to 4/3), flip with probability 1/2, a new order
        every epoch.
    else: Resize(resize) + CenterCrop(size), in the order of the files.
    ragged: any batch may be partial, as each worker process of a stream has a last one of its own.
    """

    name: str
    train: bool
    size: int = 224
    resize: int = 256
    batch: int = 128
    ragged: bool = False


IMAGENET_TRAIN = ImageScenario("imagenet_train", train=True)
IMAGENET_VAL = ImageScenario("imagenet_val", train=False)


def list_samples(root: str) -> list[tuple[str, int]]:
    """(path, label) of every file of a class folder, in torchvision's order: classes by name, then paths by
    name.
    """
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    samples = []
    for label, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            samples += [
                (os.path.join(folder, f), label)
                for f in sorted(files)
                if f.lower().endswith((".jpg", ".jpeg"))
            ]
    if not samples:
        raise FileNotFoundError(
            f"{root}: no class folder with .jpg or .jpeg files in it: examples/make_photos.py makes one"
        )
    return samples


def epoch_indices(count: int, wanted: int) -> list[int]:
    """`wanted` indices into `count` samples: spread over all classes, or the whole list again and again when
    it is shorter.
    """
    if wanted >= count:
        return [i % count for i in range(wanted)]
    return [i * count // wanted for i in range(wanted)]
