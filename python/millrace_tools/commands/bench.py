"""`millrace bench module:dataset`: the best arguments of a DataLoader over the user's own dataset; see
millrace.bench.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from .frame import command, option, show

_WHAT = (
    "Measures your own dataset over workers, prefetch, pinning and methods, in turns with torch's DataLoader,"
    " and ends with the best arguments to paste."
)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: whole numbers such as 0,1,2,4") from None


_SWITCHES = {"no": [False], "yes": [True], "both": [False, True]}

_OPTIONS = [
    option(
        "dataset",
        metavar="module:name",
        help="a dataset, a function without arguments that makes one, or a DataLoader, whose arguments are"
        ' taken over; also script.py:name, whose part under `if __name__ == "__main__":` does not run',
    ),
    option("--batch-size", type=int, metavar="N", help="default: the loader's, else 64"),
    option("--collate", metavar="module:function", help="the collate_fn"),
    option(
        "--shuffle",
        action="store_true",
        help="random order, as with shuffle=True; default: as the loader has it, else in order",
    ),
    option(
        "--workers",
        type=_numbers,
        metavar="0,1,2",
        help="what is tried (default: by the CPUs, and more where more helps)",
    ),
    option(
        "--prefetch",
        type=_numbers,
        metavar="2,4",
        help="prefetch factors that are tried (default: 2, then 4 and 8 with the best)",
    ),
    option(
        "--pin",
        choices=_SWITCHES,
        metavar="no|yes|both",
        help="pin_memory (default: both where there is an accelerator)",
    ),
    option(
        "--method",
        type=lambda text: text.split(","),
        metavar="native,process,thread",
        help="what is tried (default: all that are possible)",
    ),
    option(
        "--step-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="the training step takes so long (default: 0, only loading is measured)",
    ),
    option(
        "--step-on",
        choices=("gpu", "cpu"),
        default="gpu",
        help="gpu: the loop sleeps (default); cpu: it keeps one CPU busy",
    ),
    option("--steps", type=int, metavar="N", help="batches per measurement, or"),
    option(
        "--seconds", type=float, metavar="S", help="seconds of one (default: what the budget allows, up to 3)"
    ),
    option("--repeats", type=int, default=5, metavar="N", help="of the best at the end (default: 5)"),
    option(
        "--budget",
        type=float,
        default=120.0,
        metavar="S",
        help="seconds for everything, about (default: 120)",
    ),
    option("--no-torch", action="store_true", help="do not measure torch's loader"),
    option(
        "--on-error",
        choices=("raise", "skip", "replace"),
        default="raise",
        help="samples that raise: say which and fail (default), or go on as the loader's on_error does",
    ),
    option("--html", metavar="FILE", help="a page with the plots"),
    option("--png", metavar="FILE", help="the plots as a picture (needs matplotlib)"),
    option("--out", metavar="FILE", help="everything as JSON in this file, besides the table"),
]


@command("bench", _WHAT, _OPTIONS, "stopped before anything was measured", wrong=(ValueError,))
def main(given: argparse.Namespace) -> int:
    from ..bench import Options, Stopped, Target, pages, run_bench

    options = Options(
        workers=given.workers,
        prefetch=given.prefetch,
        pin=given.pin and _SWITCHES[given.pin],
        methods=given.method,
        step_seconds=given.step_ms / 1000,
        step_on=given.step_on,
        steps=given.steps,
        seconds=given.seconds,
        repeats=given.repeats,
        budget=given.budget,
        with_torch=not given.no_torch,
    )
    target = Target(given.dataset, None, given.collate, given.batch_size, given.shuffle, given.on_error)
    for path in filter(None, (given.html, given.png, given.out)):
        _check_writable(path)
    if given.png:
        pages.matplotlib()
    status = 0
    try:
        result = run_bench(target, options, progress=not given.json)
    except Stopped as stopped:
        if stopped.result is None:
            raise
        result, status = stopped.result, 130
        print("\nmillrace bench: stopped", file=sys.stderr)
    except Exception as error:
        if given.json:
            samples = {"samples": error.found} if hasattr(error, "found") else {}
            print(json.dumps({"version": 1, "target": given.dataset, "error": str(error), **samples}))
        raise
    show(given, result.to_json(), result.text())
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            json.dump(result.to_json(), file, indent=1)
    if given.html:
        pages.write_html(result, given.html)
    if given.png:
        pages.write_png(result, given.png)
    return status


def _check_writable(path: str) -> None:
    """Before anything is measured, that the end does not lose it. An OSError with a remedy."""
    existed = os.path.exists(path)
    try:
        open(path, "ab").close()
    except OSError as error:
        raise OSError(
            f"{path} cannot be written ({error.strerror}); nothing was measured: name another file"
        ) from None
    if not existed:
        os.unlink(path)
