"""`millrace inspect URL...`: the content of shards, and their damage."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from ..texts import Progress
from .frame import command, option, show

_WHAT = (
    "Says what is in tar shards: samples, fields, sizes, labels, duplicates, and what is broken. Fails when"
    " something is."
)
_OPTIONS = [
    option("urls", nargs="+", help="shards: paths, folders, URLs, braces"),
    option(
        "--decode",
        action="store_true",
        help="decode every picture, which finds all damage, instead of reading its header",
    ),
]
_WIDTH, _MOST_LABELS, _MOST_BROKEN = 30, 20, 20


@command("inspect", _WHAT, _OPTIONS)
def main(given: argparse.Namespace) -> int:
    """The exit status is 1, too, when something is broken."""
    from millrace.datasets.webdataset.urls import expand_urls

    from ..pack.survey import survey

    with closing(Progress("reading", None, quiet=given.json)) as progress:
        urls = [url for text in given.urls for url in _of_folder(text) or expand_urls(text)]
        found = survey(urls, progress, decode_pictures=given.decode)
    show(given, found, _text(found))
    return 1 if found["broken"]["count"] else 0


def _of_folder(text: str) -> list[str]:
    folder = Path(text)
    if not folder.is_dir():
        return []
    paths = [path for path in folder.glob("*.tar*") if not path.name.endswith((".index", ".part"))]
    if not paths:
        raise FileNotFoundError(f"{text} has no shards (*.tar, *.tar.gz, *.tar.zst) in it")
    return sorted(map(str, paths))


def _text(found: dict[str, Any]) -> str:
    shards, pictures, broken = len(found["shards"]), found["pictures"], found["broken"]
    lines = [
        f"{found['samples']:,} samples, {found['bytes']:,} bytes in {shards:,} shard{'s' * (shards != 1)}"
    ]
    for name, field in found["fields"].items():
        lines += ["", f"{name}: {field['files']:,} files, {field['bytes']:,} bytes; each {_range(field)}"]
        lines += _bars(field["histogram"])
    if pictures["formats"]:
        formats = ", ".join(f"{count:,} {kind}" for kind, count in pictures["formats"].items())
        lines += ["", f"pictures: {formats}"]
        for side in ("width", "height"):
            lines += [f"{side}: {_range(pictures[side])} pixels", *_bars(pictures[side]["histogram"])]
    labels = sorted(found["labels"].items(), key=lambda item: -item[1])
    if labels:
        lines += ["", f"{len(labels):,} labels (cls)", *_scaled(labels[:_MOST_LABELS], 1)]
        if len(labels) > _MOST_LABELS:
            lines.append(f"  and {len(labels) - _MOST_LABELS:,} more; the rarest has {labels[-1][1]:,}")
    lines.append("")
    for what, repeats in found["duplicates"].items():
        first = ", ".join([*repeats["first"][:5], *["..."] * (repeats["count"] > 5)])
        lines.append(f"repeated {what}: {repeats['count']:,}{': ' * bool(first)}{first}")
    lines.append(f"broken: {broken['count']:,}")
    for entry in broken["first"][:_MOST_BROKEN]:
        at = f" at byte {entry['offset']:,}" if entry["offset"] >= 0 else ""
        key = f": {entry['key']}" if entry["key"] else ""
        lines.append(f"  {entry['shard']}{at}{key}: {entry['error']}")
    return "\n".join(lines)


def _range(summary: dict[str, Any]) -> str:
    return f"{summary['min']:,} to {summary['max']:,}, median {summary['median']:,}"


def _bars(histogram: list[list[int]]) -> list[str]:
    counts = [(f"{least:,}-{greatest:,}", count) for least, greatest, count in histogram]
    return _scaled(counts, 0) if len(counts) > 1 else []


def _scaled(counts: list[tuple[str, int]], least: int) -> list[str]:
    """A line with a bar for each count, `least` letters long or more."""
    most = max(count for _, count in counts)
    return [
        f"  {name:>20} {count:>10,} {'#' * max(least, round(_WIDTH * count / most))}"
        for name, count in counts
    ]
