"""`millrace estimate`: what a run needs of its loader, what that gives, and what waiting costs; see
millrace.estimate().
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from ..._common.regular_files import open_regular
from .frame import command, explained, number
from .named import is_name, named


@command("estimate", wrong=(ValueError, FileNotFoundError))
def main(arguments: list[str]) -> int:
    """The exit status: 0, 1 when measuring fails, 2 for wrong arguments, 130 after Ctrl-C."""
    given = _parser().parse_args(arguments)
    made, source = _estimated(given)
    if given.json:
        print(json.dumps({**made.to_dict(), "measured_by": source}))
    else:
        print(made)
        if source:
            print(f"          measured: {source}")
    return 0


class _Failed(Exception):
    """Measuring: an error of the user's dataset, in words."""


def _estimated(given: argparse.Namespace) -> tuple[Any, str]:
    from millrace._tools.estimate import estimate

    ways = [
        name
        for name in ("measured", "measured_tokens", "dataset", "loader", "profile")
        if getattr(given, name) is not None
    ]
    if len(ways) > 1:
        raise ValueError(
            f"{' and '.join('--' + way.replace('_', '-') for way in ways)} each say what the loader gives;"
            " give one of them"
        )
    values: dict[str, Any] = {
        name: getattr(given, name)
        for name in (
            "step_ms",
            "batch_size",
            "world_size",
            "samples",
            "tokens",
            "length",
            "epochs",
            "steps",
            "price_per_hour",
            "currency",
            "measured",
            "measured_tokens",
        )
    }
    # What is wrong with the numbers shows before anything is measured.
    checked = {
        **values,
        "step_ms": 1.0 if given.step_ms is None and given.profile else given.step_ms,
        "batch_size": 1 if given.batch_size is None and (given.profile or given.loader) else given.batch_size,
    }
    for name in ("step_ms", "batch_size"):
        if checked[name] is None:
            more = (
                ", or a --profile, which has it"
                if name == "step_ms"
                else ", or a --profile or --loader, which has it"
            )
            raise ValueError(f"--{name.replace('_', '-')} is needed{more}")
    estimate(**checked)
    rate = _rate(given)
    if rate is None:
        return estimate(**values), ""
    values |= {"measured": rate.per_rank, "overlaps": rate.overlaps}
    if given.batch_size is None:
        values["batch_size"] = rate.batch_size
    if given.step_ms is None:
        values["step_ms"] = rate.step_seconds * 1000
    made = estimate(**values)
    where = f"; it names {rate.stage} as the bottleneck" if rate.stage else ""
    shared = (
        "; ranks of this machine would share its CPUs"
        if made.world_size > 1 and "LOCAL_WORLD_SIZE" not in os.environ
        else ""
    )
    return made, rate.what + where + (shared if not given.profile else "")


def _rate(given: argparse.Namespace) -> Any | None:
    """A MeasuredRate by --dataset, --loader or --profile; None for the others."""
    if given.profile is not None:
        from millrace._tools.measured_rate import rate_of_profile

        with open_regular(given.profile, encoding="utf-8") as file:
            try:
                stats = json.load(file)
            except ValueError as error:
                raise ValueError(f"{given.profile} is no JSON: {error}") from None
        try:
            return rate_of_profile(stats)
        except ValueError as error:
            raise ValueError(f"{given.profile}: {error}") from None
    text = given.loader if given.dataset is None else given.dataset
    if text is None:
        return None
    if not is_name(text):
        raise ValueError(
            f"{text!r} names no object: write module:name, as in my_module:dataset, or script.py:name"
        )
    if given.ranks_per_node is not None:
        if given.ranks_per_node < 1:
            raise ValueError(f"--ranks-per-node={given.ranks_per_node} should be 1 or more")
        os.environ["LOCAL_WORLD_SIZE"] = str(given.ranks_per_node)
    return _measured(text, given)


def _measured(text: str, given: argparse.Namespace) -> Any:
    from millrace._tools.measured_rate import loader_of, measure
    from millrace._tools.pack.progress import Progress

    if not 0 < given.seconds <= 3600:
        raise ValueError(f"--seconds={given.seconds:g} should be more than 0, and an hour at most")
    try:
        thing = named(text)
        loader = thing if given.loader is not None else loader_of(thing, int(given.batch_size))
        progress = Progress("measuring", None)
        try:
            return measure(loader, given.seconds, progress.add)
        finally:
            progress.close()
    except Exception as error:
        told = explained(error)
        raise _Failed(told if told.startswith(f"{text}: ") else f"{text}: {told}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millrace estimate",
        description=(
            "What a training run needs of its loader, what the loader "
            "gives, and what waiting costs. Say what it gives by --measured, or have it measured."
        ),
    )
    add = parser.add_argument
    add("--step-ms", type=number, metavar="MS", help="the model's own time for a step, the batch being ready")
    add("--batch-size", type=number, metavar="N", help="samples of one rank's step")
    add("--world-size", type=number, default=1, metavar="N", help="ranks, one GPU each (default: 1)")
    add("--samples", type=number, metavar="N", help="of an epoch, over all ranks")
    add("--tokens", type=number, metavar="N", help="the same in tokens, with --length")
    add("--length", type=number, metavar="N", help="tokens of one sample; rates are said in tokens, too")
    add("--epochs", type=number, metavar="N", help="default: 1")
    add("--steps", type=number, metavar="N", help="the run's length, in place of --samples and --epochs")
    add("--price-per-hour", type=number, metavar="PRICE", help="of one GPU")
    add("--currency", default="USD", help="of the price (default: USD)")
    what = parser.add_argument_group("what one rank's loader gives: one of")
    what.add_argument("--measured", type=number, metavar="RATE", help="samples per second")
    what.add_argument(
        "--measured-tokens", type=number, metavar="RATE", help="tokens per second, with --length"
    )
    what.add_argument(
        "--dataset",
        metavar="MODULE:NAME",
        help="measure this dataset, or a function that makes it, in millrace's loader; also SCRIPT.py:NAME",
    )
    what.add_argument(
        "--loader",
        metavar="MODULE:NAME",
        help="measure this loader, millrace's or another, or a function that makes it",
    )
    what.add_argument(
        "--profile",
        metavar="FILE",
        help="the JSON of a run's loader.stats(); step time and batch size come from it, too, unless given",
    )
    add("--seconds", type=number, default=5.0, metavar="S", help="how long to measure (default: 5)")
    add(
        "--ranks-per-node",
        type=int,
        metavar="N",
        help="measure with one N-th of this machine's CPUs, as each of N ranks has",
    )
    add("--json", action="store_true", help="print every number as JSON")
    return parser
