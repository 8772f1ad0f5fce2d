"""`millrace pack SRC DST`: a data set as shards; see millrace.pack."""

from __future__ import annotations

import argparse
import re
from typing import Any

from ..named import is_name, named
from .frame import command, option, show

_WHAT = (
    "Writes a data set as shards: plain tars that the webdataset package reads, each with an index, and"
    " dataset.json with statistics. Killed, it goes on where it was."
)

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]?)(?:i?b)?", text.strip().lower())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write bytes, or 256M, 1G")
    return int(float(match[1]) * _UNITS[match[2]])


def _downsample(text: str) -> Any:
    if text == "balance":
        return text
    try:
        if "=" in text:
            shares = (part.partition("=") for part in text.split(","))
            return {int(label): float(ratio) for label, _, ratio in shares}
        return int(text) if re.fullmatch(r"\d+", text) else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a share such as 0.1, samples per label such as 500, balance, or 0=0.5,3=0.1"
        ) from None


_OPTIONS = [
    option(
        "source",
        nargs="+",
        help="a folder of class folders, Parquet files or a folder of them, tar shards (URLs, braces), or"
        " module:name or script.py:name of a torch Dataset or a function that makes one",
    ),
    option("destination", help="a folder"),
    option("--name", default="shard", help="beginning of the shards' names (default: shard)"),
    option(
        "--shard-size",
        type=_size,
        default=256 << 20,
        metavar="BYTES",
        help="at most; 256M, 1G (default: 256M)",
    ),
    option("--samples-per-shard", type=int, metavar="N", help="at most"),
    option(
        "--jpeg",
        choices=("lossless", "keep"),
        default="lossless",
        help="lossless (default): same pixels, baseline, in segments, so that crops decode quicker; keep:"
        " the bytes as they are",
    ),
    option(
        "--own-tables",
        action="store_true",
        help="Huffman tables per picture: 3.5%% fewer bytes, slower decoding",
    ),
    option("--max-side", type=int, metavar="N", help="larger pictures are resized to so many pixels"),
    option("--quality", type=int, default=92, help="of resized pictures (default: 92)"),
    option(
        "--shuffle",
        action=argparse.BooleanOptionalAction,
        help="by a hash of seed and key; the default where the source can be read by number",
    ),
    option("--seed", type=int, default=0),
    option(
        "--downsample",
        type=_downsample,
        metavar="HOW",
        help="0.1: a share of each label; 500: so many of each; balance: as many as the rarest has;"
        " 0=0.5,3=0.1: shares by label",
    ),
    option(
        "--pixel-statistics",
        action="store_true",
        help="mean and standard deviation of the pictures' channels",
    ),
    option("--workers", type=int, metavar="N", help="threads (default: one per CPU)"),
    option("--on-error", choices=("raise", "skip"), default="raise", help="samples that cannot be read"),
    option("--verify", action="store_true", help="read all shards again and compare"),
]


@command("pack", _WHAT, _OPTIONS, "stopped; complete shards stay, and the same command goes on behind them")
def main(given: argparse.Namespace) -> int:
    from ..pack import pack

    chosen = {name: value for name, value in vars(given).items() if name != "json"}
    sources = chosen.pop("source")
    if len(sources) == 1:
        sources = named(sources[0]) if is_name(sources[0]) else sources[0]
    report = pack(sources, progress=not given.json, **chosen)
    show(given, report, _summary(report, given.destination))
    return 0


def _summary(report: dict[str, Any], destination: str) -> str:
    shards = len(report["shards"])
    lines = [
        f"{report['samples']:,} samples, {report['bytes']:,} bytes in {shards:,} shard{'s' * (shards != 1)}"
        f" in {destination}"
    ]
    lines += [
        f"  {name}: {total['files']:,} files, {total['bytes']:,} bytes"
        for name, total in report["fields"].items()
    ]
    lines += [f"  {count:,} pictures {note}" for note, count in report["pictures"]["notes"].items()]
    if report["skipped"]:
        lines.append(f"  {len(report['skipped']):,} samples skipped; dataset.json says which and why")
    return "\n".join(lines)
