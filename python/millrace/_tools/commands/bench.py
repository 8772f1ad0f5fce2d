"""`millrace bench module:dataset`: the best arguments of a DataLoader over the user's own dataset; see
millrace.bench.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any


def main(arguments: list[str]) -> int:
    """The exit status: 0, 1 when there is no result, which is told, 2 for wrong arguments, 130 after
    Ctrl-C.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    from millrace._tools.bench import pages
    from millrace._tools.bench.options import Options
    from millrace._tools.bench.run import Stopped, run_bench
    from millrace._tools.bench.targets import Target

    try:
        options = Options(
            given.workers,
            given.prefetch,
            given.pin,
            given.method,
            given.step_ms / 1000,
            given.step_on,
            given.steps,
            given.seconds,
            given.repeats,
            given.budget,
            not given.no_torch,
        )
        target = Target(given.dataset, None, given.collate, given.batch_size, given.shuffle, given.on_error)
        for path in filter(None, (given.html, given.png, given.out)):
            _check_writable(path)
        if given.png:
            pages.matplotlib()
    except Exception as error:
        print(f"millrace bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    try:
        result: Any = run_bench(target, options, progress=not given.json)
        status = 0
    except Stopped as stopped:
        result, status = stopped.result, 130
        print("\nmillrace bench: stopped", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nmillrace bench: stopped before anything was measured", file=sys.stderr)
        return 130
    except Exception as error:
        print(f"millrace bench: {error}".encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
        if given.json:
            print(json.dumps({"version": 1, "target": given.dataset, "error": str(error), **_found(error)}))
        return 1
    if result is None:
        return status
    print(json.dumps(result.to_json()) if given.json else result.text())
    try:
        _write(result, given)
    except OSError as error:
        print(f"millrace bench: {error}", file=sys.stderr)
        return status or 1
    return status


def _write(result: Any, given: argparse.Namespace) -> None:
    from millrace._tools.bench import pages

    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            json.dump(result.to_json(), file, indent=1)
    if given.html:
        pages.write_html(result, given.html)
    if given.png:
        pages.write_png(result, given.png)


def _found(error: Exception) -> dict[str, Any]:
    return {"samples": error.found} if hasattr(error, "found") else {}


def _check_writable(path: str) -> None:
    """Before anything is measured, that the end does not lose it. An OSError with a remedy."""
    existed = os.path.exists(path)
    try:
        with open(path, "ab"):
            pass
    except OSError as error:
        raise OSError(
            f"{path} cannot be written ({error.strerror}); nothing was measured: name another file"
        ) from None
    if not existed:
        os.unlink(path)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: whole numbers such as 0,1,2,4") from None


def _words(text: str) -> list[str]:
    return text.split(",")


def _switches(text: str) -> list[bool]:
    known = {"no": [False], "yes": [True], "both": [False, True]}
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r}: no, yes or both")
    return known[text]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millrace bench",
        description=(
            "Measures your own dataset over workers, prefetch, pinning and "
            "methods, in turns with torch's DataLoader, and ends with the best arguments to paste."
        ),
    )
    add = parser.add_argument
    unset: int | None = None
    add(
        "dataset",
        metavar="module:name",
        help=(
            "a dataset, a function without arguments that makes one, or a DataLoader, whose arguments "
            'are taken over; also script.py:name, whose part under `if __name__ == "__main__":` does not run'
        ),
    )
    add("--batch-size", type=int, default=unset, metavar="N", help="default: the loader's, else 64")
    add("--collate", metavar="module:function", help="the collate_fn")
    add(
        "--shuffle",
        action="store_true",
        help="random order, as with shuffle=True; default: as the loader has it, else in order",
    )
    add(
        "--workers",
        type=_numbers,
        metavar="0,1,2",
        help="what is tried (default: by the CPUs, and more where more helps)",
    )
    add(
        "--prefetch",
        type=_numbers,
        metavar="2,4",
        help="prefetch factors that are tried (default: 2, then 4 and 8 with the best)",
    )
    add(
        "--pin",
        type=_switches,
        metavar="no|yes|both",
        help="pin_memory (default: both where there is an accelerator)",
    )
    add(
        "--method",
        type=_words,
        metavar="native,process,thread",
        help="what is tried (default: all that are possible)",
    )
    add(
        "--step-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="the training step takes so long (default: 0, only loading is measured)",
    )
    add(
        "--step-on",
        choices=("gpu", "cpu"),
        default="gpu",
        help="gpu: the loop sleeps (default); cpu: it keeps one CPU busy",
    )
    add("--steps", type=int, default=unset, metavar="N", help="batches per measurement, or")
    add(
        "--seconds", type=float, metavar="S", help="seconds of one (default: what the budget allows, up to 3)"
    )
    add("--repeats", type=int, default=5, metavar="N", help="of the best at the end (default: 5)")
    add(
        "--budget",
        type=float,
        default=120.0,
        metavar="S",
        help="seconds for everything, about (default: 120)",
    )
    add("--no-torch", action="store_true", help="do not measure torch's loader")
    add(
        "--on-error",
        choices=("raise", "skip", "replace"),
        default="raise",
        help="samples that raise: say which and fail (default), or go on as the loader's on_error does",
    )
    add("--html", metavar="FILE", help="a page with the plots")
    add("--png", metavar="FILE", help="the plots as a picture (needs matplotlib)")
    add("--out", metavar="FILE", help="everything as JSON in this file, besides the table")
    add("--json", action="store_true", help="print everything as JSON instead of the table")
    return parser
