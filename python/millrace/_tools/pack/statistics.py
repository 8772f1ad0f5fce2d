"""What a packed data set consists of: counted shard by shard, added up in dataset.json."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from .pictures import Picture, decode

_STEP = 64  # the histogram of picture sizes counts longer sides in steps of so many pixels


class Statistics:
    """Sums over samples; as_dict() and add() are exact, so that parts may be stored and added up later."""

    def __init__(self) -> None:
        self.samples = 0
        self.fields: dict[str, list[int]] = {}  # files, bytes
        self.labels: Counter[str] = Counter()
        self.formats: Counter[str] = Counter()
        self.longer_sides: Counter[str] = Counter()  # the bin's least side
        self.notes: Counter[str] = Counter()
        self.pixels: list[list[int]] | None = None  # per channel: count, sum, sum of squares of 8-bit values

    def count(
        self, fields: dict[str, bytes], label: int | None, pictures: list[Picture], pixels: Any = None
    ) -> None:
        self.samples += 1
        for name, content in fields.items():
            total = self.fields.setdefault(name, [0, 0])
            total[0] += 1
            total[1] += len(content)
        if label is not None:
            self.labels[str(label)] += 1
        for picture in pictures:
            self.formats[picture.format] += 1
            self.longer_sides[str(max(picture.size) // _STEP * _STEP)] += 1
            self.notes.update(picture.notes)
        if pixels is not None:
            self._add_pixels(pixels)

    def _add_pixels(self, sums: list[list[int]]) -> None:
        mine = self.pixels or [[0, 0, 0] for _ in range(3)]
        self.pixels = [[a + b for a, b in zip(left, right)] for left, right in zip(mine, sums)]

    def as_dict(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "fields": self.fields,
            "labels": dict(self.labels),
            "formats": dict(self.formats),
            "longer_sides": dict(self.longer_sides),
            "notes": dict(self.notes),
            "pixels": self.pixels,
        }

    def add(self, part: dict[str, Any]) -> None:
        """Adds what as_dict() gave."""
        self.samples += part["samples"]
        for name, (files, size) in part["fields"].items():
            total = self.fields.setdefault(name, [0, 0])
            total[0] += files
            total[1] += size
        for name in ("labels", "formats", "longer_sides", "notes"):
            getattr(self, name).update(part[name])
        if part["pixels"] is not None:
            self._add_pixels(part["pixels"])

    def report(self, classes: list[str] | None) -> dict[str, Any]:
        """For people and programs: dataset.json's part of it. mean and std are of pixels in 0..1, per channel
        R, G, B.
        """
        result: dict[str, Any] = {
            "samples": self.samples,
            "fields": {name: {"files": files, "bytes": size} for name, (files, size) in self.fields.items()},
            "label_counts": {label: self.labels[label] for label in sorted(self.labels, key=int)},
            "pictures": {
                "formats": dict(sorted(self.formats.items())),
                "longer_sides": {
                    f"{least}-{int(least) + _STEP - 1}": self.longer_sides[least]
                    for least in sorted(self.longer_sides, key=int)
                },
                "notes": dict(sorted(self.notes.items())),
            },
        }
        if classes is not None:
            result["classes"] = classes
        if self.pixels is not None:
            means = [total / count / 255 for count, total, _ in self.pixels]
            result["pixels"] = {
                "mean": means,
                "std": [
                    max(0.0, squares / count / 255**2 - mean**2) ** 0.5
                    for (count, _, squares), mean in zip(self.pixels, means)
                ],
            }
        return result


def pixel_sums(content: bytes) -> list[list[int]]:
    """Count, sum and sum of squares of each channel of a picture."""
    values = np.asarray(decode(content)).reshape(-1, 3)
    channels = values.astype(np.int64)
    return [[len(values), int(channels[:, c].sum()), int((channels[:, c] ** 2).sum())] for c in range(3)]
