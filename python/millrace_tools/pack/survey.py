"""The content of shards: counted while they are packed, for dataset.json, and, with their damage, by
`millrace inspect`.
"""

from __future__ import annotations

import hashlib
import statistics
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from millrace.datasets.webdataset.open_shards import opened_shards

from ..texts import Progress
from .pictures import Picture, decode, picture_header
from .shard_source import label_of, samples_of

_MOST_LISTED = 100  # broken entries and duplicates; all are counted


def survey(urls: Iterable[str], progress: Progress, *, decode_pictures: bool = False) -> dict[str, Any]:
    """Reads all shards once. Memory: about 200 bytes per sample, for sizes and to know duplicates.

    Returns samples, bytes, shards, fields ({suffix: files, bytes, min, median, max, histogram}), labels,
    pictures (formats, smallest, median and largest sides), duplicates (keys, contents), broken (count and the
    first entries: shard, offset or -1, key, error). A picture is broken when its header is, when a JPEG has
    no end, and with `decode_pictures` when it cannot be decoded.
    """
    shards: list[dict[str, Any]] = []
    broken: list[dict[str, Any]] = []
    fields: dict[str, array] = {}
    labels: Counter[str] = Counter()
    formats: Counter[str] = Counter()
    widths, heights = array("l"), array("l")
    keys, contents = _Repeats(), _Repeats()
    problems = 0

    def report(shard: str, key: str, error: object) -> None:
        nonlocal problems
        problems += 1
        if len(broken) < _MOST_LISTED:
            broken.append(
                {"shard": shard, "offset": getattr(error, "offset", -1), "key": key, "error": str(error)}
            )

    for url, shard in opened_shards(urls):
        samples, size, key = 0, 0, ""
        for sample in samples_of(shard):
            if isinstance(sample, Exception):
                report(url, f"behind {key}" if key else "", sample)
                continue
            key, files = sample
            keys.add(key.encode("utf-8", "surrogateescape"), key)
            for name, content in files.items():
                fields.setdefault(name, array("q")).append(len(content))
                size += len(content)
                try:
                    found = picture_header(content)
                    if found and decode_pictures:
                        decode(content)
                except Exception as error:
                    report(url, f"{key}.{name}", error)
                    continue
                if found:
                    kind, (width, height), progressive = found
                    formats[f"{kind} (progressive)" if progressive else kind] += 1
                    widths.append(width)
                    heights.append(height)
                    contents.add(content, f"{key}.{name}")
            label = label_of(files)
            if label is not None:
                labels[str(label)] += 1
            samples += 1
            progress.add(1, sum(map(len, files.values())))
        shards.append({"url": url, "samples": samples, "bytes": size})
    return {
        "samples": sum(shard["samples"] for shard in shards),
        "bytes": sum(shard["bytes"] for shard in shards),
        "shards": shards,
        "fields": {
            name: {"files": len(sizes), "bytes": sum(sizes), **(summary(sizes) or {})}
            for name, sizes in sorted(fields.items())
        },
        "labels": {label: labels[label] for label in sorted(labels, key=int)},
        "pictures": {"formats": dict(formats), "width": summary(widths), "height": summary(heights)},
        "duplicates": {"keys": keys.report(), "contents": contents.report()},
        "broken": {"count": problems, "first": broken},
    }


def summary(values: Any) -> dict[str, Any] | None:
    """min, median, max and a histogram of at most eight bins [[least, most, count], ...]; None of nothing."""
    if not values:
        return None
    least, most = min(values), max(values)
    step = max(1, -(-(most - least + 1) // 8))
    counts = Counter((value - least) // step for value in values)
    bins = [
        [least + i * step, min(most, least + (i + 1) * step - 1), counts[i]]
        for i in range((most - least) // step + 1)
    ]
    return {"min": least, "median": statistics.median_low(values), "max": most, "histogram": bins}


class _Repeats:
    """Counts contents that came before, by a hash of 8 bytes each."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._count = 0
        self._first: list[str] = []

    def add(self, content: bytes, name: str) -> None:
        digest = hashlib.blake2b(content, digest_size=8).digest()
        if digest in self._seen:
            self._count += 1
            if len(self._first) < _MOST_LISTED:
                self._first.append(name)
        self._seen.add(digest)

    def report(self) -> dict[str, Any]:
        return {"count": self._count, "first": self._first}


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
        """Add the `counts` of another one."""
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
