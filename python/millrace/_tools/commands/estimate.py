"""`millrace estimate`: what a run needs of its loader, what that gives, and what waiting costs; see
millrace.estimate.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from ..._common.regular_files import open_regular
from ..named import divided, named
from .frame import command, explained, number, option, parsed

_WHAT = (
    "What a training run needs of its loader, what the loader gives, and what waiting costs. Say what it"
    " gives by one of --measured, --measured-tokens, --dataset, --loader and --profile."
)
_WAYS = ("measured", "measured_tokens", "dataset", "loader", "profile")
_HAVE = {"step_ms": ("profile",), "batch_size": ("profile", "loader")}  # ways that know what must be given


@command("estimate", wrong=(ValueError, FileNotFoundError))
def main(arguments: list[str]) -> int:
    """The exit status: 0, 1 when measuring fails, 2 for wrong arguments, 130 after Ctrl-C."""
    given = parsed("estimate", _WHAT, _OPTIONS, arguments)
    made, source = _estimated(given)
    if given.json:
        print(json.dumps({**made.to_dict(), "measured_by": source}))
    else:
        print(f"{made}\n          measured: {source}" if source else made)
    return 0


class _Failed(Exception):
    """Measuring: an error of the user's dataset, in words."""


def _estimated(given: argparse.Namespace) -> tuple[Any, str]:
    """The estimate, and by what the loader's rate was measured, "" where it was given."""
    from millrace._tools.estimate import estimate

    chosen = vars(given)
    ways = [f"--{way.replace('_', '-')}" for way in _WAYS if chosen[way] is not None]
    if len(ways) > 1:
        raise ValueError(f"{' and '.join(ways)} each say what the loader gives; give one of them")
    values = {name: value for name, value in chosen.items() if name not in _NOT_OF_ESTIMATE}
    checked = dict(values)
    for name, knowing in _HAVE.items():
        if values[name] is None:
            checked[name] = 1
            if all(chosen[way] is None for way in knowing):
                others = " or ".join(f"--{way}" for way in knowing)
                raise ValueError(f"--{name.replace('_', '-')} is needed, or a {others}, which has it")
    estimate(**checked)  # what is wrong with the numbers shows before anything is measured
    rate = _rate(given)
    if rate is None:
        return estimate(**values), ""
    values |= {"measured": rate.per_rank, "overlaps": rate.overlaps}
    if given.batch_size is None:
        values["batch_size"] = rate.batch_size
    if given.step_ms is None:
        values["step_ms"] = rate.step_seconds * 1000
    made = estimate(**values)
    source = rate.what + (f"; it names {rate.stage} as the bottleneck" if rate.stage else "")
    if made.world_size > 1 and not given.profile and "LOCAL_WORLD_SIZE" not in os.environ:
        source += "; ranks of this machine would share its CPUs"
    return made, source


def _rate(given: argparse.Namespace) -> Any | None:
    """A MeasuredRate by --dataset, --loader or --profile; None for the others."""
    if given.profile is not None:
        from millrace._tools.measured_rate import rate_of_profile

        with open_regular(given.profile, encoding="utf-8") as file:
            text = file.read()
        try:
            return rate_of_profile(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"{given.profile} is no JSON: {error}") from None
        except ValueError as error:
            raise ValueError(f"{given.profile}: {error}") from None
    name = given.loader if given.dataset is None else given.dataset
    if name is None:
        return None
    divided(name)
    if given.ranks_per_node is not None:
        if given.ranks_per_node < 1:
            raise ValueError(f"--ranks-per-node={given.ranks_per_node} should be 1 or more")
        os.environ["LOCAL_WORLD_SIZE"] = str(given.ranks_per_node)
    return _measured(name, given)


def _measured(name: str, given: argparse.Namespace) -> Any:
    from millrace._tools.measured_rate import loader_of, measure

    from ..texts import Progress

    if not 0 < given.seconds <= 3600:
        raise ValueError(f"--seconds={given.seconds:g} should be more than 0, and an hour at most")
    progress = Progress("measuring", None)
    try:
        thing = named(name)
        loader = thing if given.loader is not None else loader_of(thing, int(given.batch_size))
        return measure(loader, given.seconds, progress.add)
    except Exception as error:
        reason = explained(error)
        raise _Failed(reason if reason.startswith(f"{name}: ") else f"{name}: {reason}") from error
    finally:
        progress.close()


_OPTIONS = [
    option(
        "--step-ms", type=number, metavar="MS", help="the model's own time for a step, the batch being ready"
    ),
    option("--batch-size", type=number, metavar="N", help="samples of one rank's step"),
    option("--world-size", type=number, default=1, metavar="N", help="ranks, one GPU each (default: 1)"),
    option("--samples", type=number, metavar="N", help="of an epoch, over all ranks"),
    option("--tokens", type=number, metavar="N", help="the same in tokens, with --length"),
    option("--length", type=number, metavar="N", help="tokens of one sample; rates are said in tokens, too"),
    option("--epochs", type=number, metavar="N", help="default: 1"),
    option("--steps", type=number, metavar="N", help="the run's length, in place of --samples and --epochs"),
    option("--price-per-hour", type=number, metavar="PRICE", help="of one GPU"),
    option("--currency", default="USD", help="of the price (default: USD)"),
    option("--measured", type=number, metavar="RATE", help="samples per second"),
    option("--measured-tokens", type=number, metavar="RATE", help="tokens per second, with --length"),
    option(
        "--dataset",
        metavar="MODULE:NAME",
        help="measure this dataset, or a function that makes it, in millrace's loader; also SCRIPT.py:NAME",
    ),
    option(
        "--loader",
        metavar="MODULE:NAME",
        help="measure this loader, millrace's or another, or a function that makes it",
    ),
    option(
        "--profile",
        metavar="FILE",
        help="the JSON of a run's loader.stats(); step time and batch size come from it, too, unless given",
    ),
    option("--seconds", type=number, default=5.0, metavar="S", help="how long to measure (default: 5)"),
    option(
        "--ranks-per-node",
        type=int,
        metavar="N",
        help="measure with one N-th of this machine's CPUs, as each of N ranks has",
    ),
]
_NOT_OF_ESTIMATE = {"dataset", "loader", "profile", "seconds", "ranks_per_node", "json"}
