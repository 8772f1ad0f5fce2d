"""Pipelines of reach.py whose dataset opens pictures itself, in the forms that public repositories have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from benchmarks.reach_pipelines import END, SIDE, V2_END, Own, loaded, t, training, v2, validation


class Manifest(Own):
    """Paths and labels in a table."""

    def __init__(self, root: Path, transform: Any) -> None:
        import pandas

        super().__init__(root, transform)
        self.root = str(root)
        names = [os.path.relpath(path, root) for path in self.paths]
        self.table = pandas.DataFrame({"file": names, "label": [n % 10 for n in range(len(names))]})

    def __getitem__(self, index: int) -> Any:
        row = self.table.iloc[index]
        picture = Image.open(os.path.join(self.root, row["file"])).convert("RGB")
        return {"image": self.transform(picture), "label": int(row["label"])}


class OpenCV(Own):
    """Read by OpenCV, transformed by torchvision."""

    def __init__(self, root: Path, transform: Any) -> None:
        import cv2  # noqa: F401

        super().__init__(root, transform)

    def __getitem__(self, index: int) -> Any:
        import cv2

        picture = cv2.cvtColor(cv2.imread(self.paths[index]), cv2.COLOR_BGR2RGB)
        return self.transform(picture), index % 10


class Frames(Own):
    """Eight pictures in a sample, as segments of a video in TSN."""

    def __len__(self) -> int:
        return len(self.paths) // 8

    def __getitem__(self, index: int) -> Any:
        frames = [Image.open(self.paths[8 * index + k]).convert("RGB") for k in range(8)]
        return torch.stack([self.transform(frame) for frame in frames]), index % 10


class MaskPairs(Own):
    """A picture and its mask, each with a chain of its own."""

    def __init__(self, root: Path, transform: Any) -> None:
        super().__init__(root, transform)
        self.masks = sorted(str(path) for path in (root / "masks").iterdir())
        self.mask_transform = t.Compose([t.Resize((SIDE, SIDE), t.InterpolationMode.NEAREST), t.ToTensor()])

    def __getitem__(self, index: int) -> Any:
        picture = Image.open(self.paths[index]).convert("RGB")
        mask = Image.open(self.masks[index]).convert("L")
        return self.transform(picture), self.mask_transform(mask)


class Views(Own):
    """SimCLR: two views of a picture."""

    def __getitem__(self, index: int) -> Any:
        picture = Image.open(self.paths[index]).convert("RGB")
        return self.transform(picture), self.transform(picture)


def _from_array() -> Any:
    return v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(), v2.Resize((SIDE, SIDE)), *V2_END[1:]])


def _arrays() -> Any:
    return t.Compose([t.ToPILImage(), t.RandomResizedCrop(SIDE), t.RandomHorizontalFlip(), *END])


PIPELINES = {
    "own Dataset, validation": (lambda r, c, w: loaded(c, Own(r, validation()), 32), True),
    "manifest in pandas": (lambda r, c, w: loaded(c, Manifest(r, training()), 32, shuffle=True), False),
    "cv2.imread, training": (lambda r, c, w: loaded(c, OpenCV(r, _arrays()), 32, shuffle=True), False),
    "cv2.imread, v2": (lambda r, c, w: loaded(c, OpenCV(r, _from_array()), 32, shuffle=True), False),
    "eight frames": (lambda r, c, w: loaded(c, Frames(r, training()), 4, shuffle=True), False),
    "picture and mask": (
        lambda r, c, w: loaded(c, MaskPairs(r, t.Compose([t.Resize((SIDE, SIDE)), *END])), 32),
        True,
    ),
    "two views": (lambda r, c, w: loaded(c, Views(r, training()), 32, shuffle=True), False),
}
