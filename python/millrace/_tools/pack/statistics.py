"""What a packed data set consists of: counted shard by shard, added up in dataset.json."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from .pictures import Picture, decode

_STEP = 64  # the histogram of picture sizes counts longer sides in steps of so many pixels


class Statistics:
    """Counters by name, of samples: exact, so that parts may be stored as JSON and added up later."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def count(
        self,
        fields: dict[str, bytes],
        label: int | None,
        pictures: list[Picture],
        pixels: dict[str, int] | None = None,
    ) -> None:
        counts = self.counts
        counts["samples"]["all"] += 1
        counts["files"].update(fields.keys())
        counts["bytes"].update({name: len(content) for name, content in fields.items()})
        if label is not None:
            counts["labels"][str(label)] += 1
        for picture in pictures:
            counts["formats"][picture.format] += 1
            counts["longer_sides"][str(max(picture.size) // _STEP * _STEP)] += 1  # the bin's least side
            counts["notes"].update(picture.notes)
        counts["pixels"].update(pixels or {})

    def add(self, part: dict[str, dict[str, int]]) -> None:
        """Adds what another's `counts` are."""
        for name, counter in part.items():
            self.counts[name].update(counter)

    def report(self, classes: list[str] | None) -> dict[str, Any]:
        """For people and programs: dataset.json's part of it. mean and std are of pixels in 0..1, per channel
        R, G, B.
        """
        counts, pixels = self.counts, self.counts["pixels"]
        result: dict[str, Any] = {
            "samples": counts["samples"]["all"],
            "fields": {
                name: {"files": files, "bytes": counts["bytes"][name]}
                for name, files in counts["files"].items()
            },
            "label_counts": {label: counts["labels"][label] for label in sorted(counts["labels"], key=int)},
            "pictures": {
                "formats": dict(sorted(counts["formats"].items())),
                "longer_sides": {
                    f"{least}-{int(least) + _STEP - 1}": counts["longer_sides"][least]
                    for least in sorted(counts["longer_sides"], key=int)
                },
                "notes": dict(sorted(counts["notes"].items())),
            },
        }
        if classes is not None:
            result["classes"] = classes
        if pixels:
            means = [pixels[f"{c} sum"] / pixels["count"] / 255 for c in "RGB"]
            squares = [pixels[f"{c} squares"] / pixels["count"] / 255**2 for c in "RGB"]
            deviations = [max(0.0, square - mean**2) ** 0.5 for square, mean in zip(squares, means)]
            result["pixels"] = {"mean": means, "std": deviations}
        return result


def pixel_sums(content: bytes) -> dict[str, int]:
    """Of a picture: its pixels, and of each channel sum and sum of squares of the 8-bit values."""
    channels = np.asarray(decode(content)).reshape(-1, 3).astype(np.int64)
    sums = {"count": len(channels)}
    for name, values in zip("RGB", channels.T):
        sums |= {f"{name} sum": int(values.sum()), f"{name} squares": int((values**2).sum())}
    return sums
