"""`millrace inspect URL...`: what is in shards, and what is broken in them."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .frame import command

_WIDTH, _MOST_LABELS, _MOST_BROKEN = 30, 20, 20


@command("inspect")
def main(arguments: list[str]) -> int:
    """The exit status: 0 for sound shards, 1 when something is broken, 2 for wrong arguments, 130 after
    Ctrl-C.
    """
    given = _parser().parse_args(arguments)
    from millrace._tools.pack.progress import Progress
    from millrace._tools.pack.survey import survey
    from millrace.datasets.webdataset.urls import expand_urls

    progress = Progress("reading", None) if not given.json else None
    try:
        urls = [url for text in given.urls for url in _of_folder(text) or expand_urls(text)]
        found = survey(urls, decode_pictures=given.decode, progress=progress)
    finally:
        if progress:
            progress.close()
    text = json.dumps(found) if given.json else _text(found)
    print(text.encode("utf-8", "backslashreplace").decode())  # names of files need not be text
    return 1 if found["broken"]["count"] else 0


def _of_folder(text: str) -> list[str]:
    from pathlib import Path

    folder = Path(text)
    if not folder.is_dir():
        return []
    shards = sorted(
        str(path) for path in folder.glob("*.tar*") if not path.name.endswith((".index", ".part"))
    )
    if not shards:
        raise FileNotFoundError(f"{text} has no shards (*.tar, *.tar.gz, *.tar.zst) in it")
    return shards


def _text(found: dict[str, Any]) -> str:
    lines = [
        f"{found['samples']:,} samples, {found['bytes']:,} bytes in {(count := len(found['shards'])):,}"
        f" shard{'s' * (count != 1)}"
    ]
    for name, field in found["fields"].items():
        lines += [
            "",
            f"{name}: {field['files']:,} files, {field['bytes']:,} bytes; each {_range(field)}",
            *_bars(field["histogram"]),
        ]
    pictures = found["pictures"]
    if pictures["formats"]:
        lines += [
            "",
            "pictures: " + ", ".join(f"{count:,} {kind}" for kind, count in pictures["formats"].items()),
        ]
        for side in ("width", "height"):
            lines += [f"{side}: {_range(pictures[side])} pixels", *_bars(pictures[side]["histogram"])]
    labels = sorted(found["labels"].items(), key=lambda item: -item[1])
    if labels:
        lines += ["", f"{len(labels):,} labels (cls)"]
        most = labels[0][1]
        lines += [
            f"  {label:>20} {count:>10,} {'#' * max(1, round(_WIDTH * count / most))}"
            for label, count in labels[:_MOST_LABELS]
        ]
        if len(labels) > _MOST_LABELS:
            lines.append(f"  and {len(labels) - _MOST_LABELS:,} more; the rarest has {labels[-1][1]:,}")
    lines.append("")
    for what, repeats in found["duplicates"].items():
        more = (
            f": {', '.join(repeats['first'][:5])}{', ...' if repeats['count'] > 5 else ''}"
            if repeats["count"]
            else ""
        )
        lines.append(f"repeated {what}: {repeats['count']:,}{more}")
    broken = found["broken"]
    lines.append(f"broken: {broken['count']:,}")
    for entry in broken["first"][:_MOST_BROKEN]:
        place = f" at byte {entry['offset']:,}" if entry["offset"] >= 0 else ""
        lines.append(
            f"  {entry['shard']}{place}{': ' + entry['key'] if entry['key'] else ''}: {entry['error']}"
        )
    return "\n".join(lines)


def _range(summary: dict[str, Any]) -> str:
    return f"{summary['min']:,} to {summary['max']:,}, median {summary['median']:,}"


def _bars(histogram: list[list[int]]) -> list[str]:
    if len(histogram) < 2:
        return []
    most = max(count for _, _, count in histogram)
    return [
        f"  {f'{least:,}-{greatest:,}':>20} {count:>10,} {'#' * round(_WIDTH * count / most)}"
        for least, greatest, count in histogram
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millrace inspect",
        description=(
            "Says what is in tar shards: samples, fields, sizes, labels, "
            "duplicates, and what is broken. Fails when something is."
        ),
    )
    parser.add_argument("urls", nargs="+", help="shards: paths, folders, URLs, braces")
    parser.add_argument(
        "--decode",
        action="store_true",
        help="decode every picture, which finds all damage, instead of reading its header",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser
