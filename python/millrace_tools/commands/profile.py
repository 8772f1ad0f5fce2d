"""`millrace profile DATASET`: what a dataset feeds, as the reference of millrace.watch()."""

from __future__ import annotations

import argparse
from contextlib import closing

from ..texts import Progress
from .frame import command, option, show

_WHAT = (
    "Looks at samples of a dataset and writes their statistics: the reference that"
    ' millrace.watch(loader, "profile.json") compares a training run with.'
)


def _workers(text: str) -> int | str:
    return text if text == "auto" else _whole(text, 0)


def _whole(text: str, least: int = 1) -> int:
    if int(text) < least:
        raise ValueError
    return int(text)


_OPTIONS = [
    option(
        "dataset",
        help="module:name or script.py:name of a dataset, a loader, or a function that makes one; or a folder"
        " of class folders, tar shards (folder, paths with braces, URLs), Parquet files",
    ),
    option("--out", metavar="FILE", help="where to write the profile (JSON); without it, it is only shown"),
    option(
        "--samples",
        type=int,
        default=10_000,
        metavar="N",
        help="at most (default: 10,000; 0: all). Drawn at random where the dataset has numbers, else the"
        " first ones",
    ),
    option("--batch-size", type=_whole, default=64, metavar="N", help="of datasets (default: 64)"),
    option("--workers", type=_workers, default="auto", metavar="N", help="of datasets (default: auto)"),
    option(
        "--picture-size",
        type=_whole,
        default=224,
        metavar="N",
        help="class folders are resized and cropped to it (default: 224); name a dataset of yours for another"
        " transform",
    ),
    option("--ragged", action="store_true", help="samples have sizes of their own: they are not stacked"),
    option("--field", action="append", metavar="NAME", help="only this field; may be repeated"),
]


@command("profile", _WHAT, _OPTIONS, "stopped; nothing was written")
def main(given: argparse.Namespace) -> int:
    from ..drift import DriftOptions, DriftProfile
    from ..named import batches_of

    batches, count, what = batches_of(
        given.dataset, given.batch_size, given.workers, given.picture_size, given.ragged
    )
    total = given.samples if count is None else min(count, given.samples or count)
    with closing(Progress("looking at samples", total, quiet=given.json)) as progress:
        options = DriftOptions(fields=given.field or None)
        profile = DriftProfile.of(
            batches, given.samples or None, options=options, progress=lambda samples: progress.add(samples, 0)
        )
    profile.about = {"dataset": given.dataset, "kind": what}
    if given.out:
        profile.save(given.out)
    written = f"\n\nwritten to {given.out}" if given.out else ""
    show(given, profile.to_dict(), f"{profile}{written}")
    return 0
