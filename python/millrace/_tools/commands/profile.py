"""`millrace profile DATASET`: what a dataset feeds, as the reference of millrace.watch()."""

from __future__ import annotations

import json
from typing import Any

from .frame import command, option, parsed, printable

_WHAT = (
    "Looks at samples of a dataset and writes their statistics: the reference that"
    ' millrace.watch(loader, "profile.json") compares a training run with.'
)


@command("profile", "stopped; nothing was written")
def main(arguments: list[str]) -> int:
    """The exit status: 0, 1 for an error, which is printed, 2 for wrong arguments, 130 after Ctrl-C."""
    given = parsed("profile", _WHAT, _OPTIONS, arguments)
    from millrace._tools.drift import DriftOptions, DriftProfile

    from ..named import batches_of
    from ..texts import Progress

    progress: Any = None
    try:
        batches, count, what = batches_of(
            given.dataset, given.batch_size, given.workers, given.picture_size, given.ragged
        )
        total = given.samples if count is None else min(count, given.samples or count)
        progress = Progress("looking at samples", total) if not given.json else None
        options = DriftOptions(fields=given.field or None)
        profile = DriftProfile.of(
            batches,
            given.samples or None,
            options=options,  # fmt: skip
            progress=(lambda samples: progress.add(samples, 0)) if progress else None,
        )
        profile.about = {"dataset": given.dataset, "kind": what}
        if given.out:
            profile.save(given.out)
    finally:
        if progress:
            progress.close()
    text = json.dumps(profile.to_dict()) if given.json else str(profile)
    if given.out and not given.json:
        text += f"\n\nwritten to {given.out}"
    print(printable(text))
    return 0


def _workers(text: str) -> int | str:
    if text == "auto":
        return text
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


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
    option("--batch-size", type=_positive, default=64, metavar="N", help="of datasets (default: 64)"),
    option("--workers", type=_workers, default="auto", metavar="N", help="of datasets (default: auto)"),
    option(
        "--picture-size",
        type=_positive,
        default=224,
        metavar="N",
        help="class folders are resized and cropped to it (default: 224); name a dataset of yours for another"
        " transform",
    ),
    option("--ragged", action="store_true", help="samples have sizes of their own: they are not stacked"),
    option("--field", action="append", metavar="NAME", help="only this field; may be repeated"),
]
