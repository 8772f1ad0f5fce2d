"""`millrace pack SRC DST`: a data set as shards; see millrace.pack."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from .frame import command
from .named import is_name, named

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@command("pack", "stopped; complete shards stay, and the same command goes on behind them")
def main(arguments: list[str]) -> int:
    """The exit status: 0, 1 for an error, which is printed, 2 for wrong arguments, 130 after Ctrl-C."""
    given = _parser().parse_args(arguments)
    from millrace._tools.pack import pack

    report = pack(
        given.source if len(given.source) > 1 else _source(given.source[0]),
        given.destination,
        name=given.name,
        shard_size=given.shard_size,
        samples_per_shard=given.samples_per_shard,
        jpeg=given.jpeg,
        own_tables=given.own_tables,
        max_side=given.max_side,
        quality=given.quality,
        shuffle=given.shuffle,
        seed=given.seed,
        downsample=given.downsample,
        pixel_statistics=given.pixel_statistics,
        workers=given.workers,
        on_error=given.on_error,
        verify=given.verify,
        progress=not given.json,
    )
    print(json.dumps(report) if given.json else _summary(report, given.destination))
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
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()  # names need not be text


def _source(text: str) -> Any:
    return named(text) if is_name(text) else text


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
            return {
                int(label): float(ratio)
                for label, _, ratio in (part.partition("=") for part in text.split(","))
            }
        return int(text) if re.fullmatch(r"\d+", text) else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a share such as 0.1, samples per label such as 500, balance, or 0=0.5,3=0.1"
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millrace pack",
        description=(
            "Writes a data set as shards: plain tars that the webdataset package reads, each with an index,"
            " and dataset.json with statistics. Killed, it goes on where it was."
        ),
    )
    add = parser.add_argument
    add(
        "source",
        nargs="+",
        help=(
            "a folder of class folders, Parquet files or a folder of them, tar shards (URLs, braces), or "
            "module:name or script.py:name of a torch Dataset or a function that makes one"
        ),
    )
    add("destination", help="a folder")
    add("--name", default="shard", help="beginning of the shards' names (default: shard)")
    add(
        "--shard-size",
        type=_size,
        default=256 << 20,
        metavar="BYTES",
        help="at most; 256M, 1G (default: 256M)",
    )
    add("--samples-per-shard", type=int, metavar="N", help="at most")
    add(
        "--jpeg",
        choices=("lossless", "keep"),
        default="lossless",
        help=(
            "lossless (default): same pixels, baseline, in segments, so that crops decode quicker; keep: the"
            " bytes as they are"
        ),
    )
    add(
        "--own-tables",
        action="store_true",
        help="Huffman tables per picture: 3.5%% fewer bytes, slower decoding",
    )
    add("--max-side", type=int, metavar="N", help="larger pictures are resized to so many pixels")
    add("--quality", type=int, default=92, help="of resized pictures (default: 92)")
    _add_switch(
        parser, "shuffle", "by a hash of seed and key; the default where the source can be read by number"
    )
    add("--seed", type=int, default=0)
    add(
        "--downsample",
        type=_downsample,
        metavar="HOW",
        help=(
            "0.1: a share of each label; 500: so many of each; balance: as many as "
            "the rarest has; 0=0.5,3=0.1: shares by label"
        ),
    )
    add(
        "--pixel-statistics",
        action="store_true",
        help="mean and standard deviation of the pictures' channels",
    )
    add("--workers", type=int, metavar="N", help="threads (default: one per CPU)")
    add("--on-error", choices=("raise", "skip"), default="raise", help="samples that cannot be read")
    add("--verify", action="store_true", help="read all shards again and compare")
    add("--json", action="store_true", help="print dataset.json instead of a summary")
    return parser


def _add_switch(parser: argparse.ArgumentParser, name: str, help_text: str) -> None:
    default: bool | None = None
    parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=default, help=help_text)
