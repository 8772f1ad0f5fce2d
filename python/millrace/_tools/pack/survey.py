"""What is in shards, and what is wrong with them: the work of `millrace inspect`."""

from __future__ import annotations

import hashlib
import statistics
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

from millrace.datasets.webdataset.open_shards import opened_shards

from .pictures import decode, picture_header
from .shard_source import label_of, samples_of

_MOST_LISTED = 100  # broken entries and duplicates; all are counted


def survey(urls: Iterable[str], *, decode_pictures: bool = False, progress: Any = None) -> dict[str, Any]:
    """Reads all shards once. Memory: about 200 bytes per sample, for sizes and to know duplicates.

    Returns samples, bytes, shards, fields ({suffix: files, bytes, min, median, max, histogram}), labels,
    pictures (formats, smallest, median and largest sides), duplicates (keys, contents), broken (count and the
    first entries: shard, offset or -1, key, error). A picture is broken when its header is, when a JPEG has
    no end, and with `decode_pictures` when it cannot be decoded.
    """
    shards, broken = [], []
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
            if progress:
                progress.add(1, sum(map(len, files.values())))
        shards.append({"url": url, "samples": samples, "bytes": size})
    return {
        "samples": sum(shard["samples"] for shard in shards),
        "bytes": sum(shard["bytes"] for shard in shards),
        "shards": shards,
        "fields": {
            name: {"files": len(sizes), "bytes": sum(sizes), **summary(sizes)}
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
    """Counts what was there before, by 8 bytes of hash each."""

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
