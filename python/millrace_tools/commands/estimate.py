"""`millrace estimate`: what a run needs of its loader, what that gives, and what waiting costs; see
millrace.estimate.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import closing
from typing import Any

from millrace._common.ranks import local_world_size
from millrace._common.regular_files import open_regular

from ..estimate import estimate
from ..named import divided, named
from ..texts import Progress, refuse
from .frame import command, explained, number, option, show

_WHAT = (
    "What a training run needs of its loader, what the loader gives, and what waiting costs. Say what it"
    " gives by one of --measured, --measured-tokens, --dataset, --loader and --profile."
)
_WITH_REMOTE = (
    "cpus",
    "node_cpus",
    "sample_bytes",
    "network_gbit",
    "node_price_per_hour",
    "cpu_s_per_gb",
    "share",
)
_WAYS = ("measured", "measured_tokens", "dataset", "loader", "profile")
_HAVE = {"step_ms": ("profile",), "batch_size": ("profile", "loader")}  # ways that know what must be given

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
        help="measure with one N-th of this machine's CPUs, as each of N ranks has; with --remote they share"
        " its network",
    ),
    option(
        "--remote", action="store_true", help="also how many nodes of CPUs help, and whether they pay for it"
    ),
    option("--node-cpus", type=number, metavar="N", help="of a node"),
    option("--node-price-per-hour", type=number, metavar="PRICE", help="of a node"),
    option(
        "--cpus", type=number, metavar="N", help="of one rank, for its rate (measured here: those of here)"
    ),
    option("--sample-bytes", type=number, metavar="N", help="of a sample in a batch, unless measured here"),
    option("--network-gbit", type=number, metavar="N", help="Gbit/s that a machine with GPUs may receive"),
    option("--cpu-s-per-gb", type=number, metavar="S", help="a rank's CPU seconds for each GB it receives"),
    option("--share", type=number, metavar="X", help="what a node's CPU makes, where one of a rank makes 1"),
]
_NOT_OF_ESTIMATE = {"dataset", "loader", "profile", "seconds", "ranks_per_node", "json", "remote"}
_NOT_OF_ESTIMATE |= set(_WITH_REMOTE)


@command("estimate", _WHAT, _OPTIONS, wrong=(ValueError, FileNotFoundError))
def main(given: argparse.Namespace) -> int:
    _check_remote(given)
    made, source, rate = _estimated(given)
    nodes = _nodes(made, rate, given) if given.remote else None
    found = {**made.to_dict(), "measured_by": source}
    lines = [str(made), *([f"          measured: {source}"] if source else [])]
    if nodes is not None:
        found["remote"] = nodes.to_dict()
        lines.append(str(nodes))
    show(given, found, "\n".join(lines))
    return 0


def _check_remote(given: argparse.Namespace) -> None:
    """What --remote needs is asked for before anything is measured."""
    chosen = vars(given)
    named = [f"--{name.replace('_', '-')}" for name in _WITH_REMOTE if chosen[name] is not None]
    if not given.remote:
        refuse({f"{' and '.join(named)}: of nodes with CPUs; add --remote": named})
        return
    measures = given.dataset is not None or given.loader is not None
    refuse(
        {
            "--remote needs what the loader gives: --measured, --dataset, --loader or --profile": (
                all(chosen[way] is None for way in _WAYS)
            ),
            "--remote needs --node-cpus, the CPUs of a node": given.node_cpus is None,
            "--remote needs --cpus: those with which one rank's loader gives this rate": (
                given.cpus is None and not measures
            ),
            "--remote needs --sample-bytes: of a sample in a batch, 150528 for 3 x 224 x 224 of uint8": (
                given.sample_bytes is None and not measures
            ),
        }
    )
    # All that is wrong with these numbers, before anything is measured.
    ranks: Any = max(given.world_size, given.ranks_per_node or 1)
    any_run = estimate(step_ms=1, batch_size=1, world_size=ranks, measured=1)
    _nodes(any_run, None, given, cpus=1, sample_bytes=1)


def _nodes(made: Any, rate: Any | None, given: argparse.Namespace, **otherwise: Any) -> Any:
    """A RemoteEstimate. `otherwise`: defaults for values that are neither given nor measured."""
    values = {name: vars(given)[name] for name in _WITH_REMOTE if vars(given)[name] is not None}
    if rate is not None:
        here = len(os.sched_getaffinity(0)) / local_world_size()
        otherwise = {"cpus": here, "sample_bytes": rate.sample_bytes}
        if rate.sample_bytes is None and "sample_bytes" not in values:
            raise ValueError("--remote needs --sample-bytes: batches of this loader hold no tensors")
    return made.with_nodes(
        **{**otherwise, **values},
        price_per_hour=given.price_per_hour,
        ranks_per_machine=1 if given.ranks_per_node is None else given.ranks_per_node,
    )


class _Failed(Exception):
    """Measuring: an error of the user's dataset, in words."""


def _estimated(given: argparse.Namespace) -> tuple[Any, str, Any | None]:
    """The estimate, by what the loader's rate was measured, "" where it was given, and that as a
    MeasuredRate.
    """
    chosen = vars(given)
    ways = [f"--{way.replace('_', '-')}" for way in _WAYS if chosen[way] is not None]
    refuse({f"{' and '.join(ways)} each say what the loader gives; give one of them": len(ways) > 1})
    values = {name: value for name, value in chosen.items() if name not in _NOT_OF_ESTIMATE}
    if given.remote and all(values[name] is None for name in ("samples", "tokens", "steps", "epochs")):
        values["price_per_hour"] = None  # with nodes, it is compared for each sample
    unknown = [name for name in _HAVE if values[name] is None]
    for name in unknown:
        others = " or ".join(f"--{way}" for way in _HAVE[name])
        message = f"--{name.replace('_', '-')} is needed, or a {others}, which has it"
        refuse({message: all(chosen[way] is None for way in _HAVE[name])})
    # errors in the numbers show before anything is measured
    estimate(**{**values, **dict.fromkeys(unknown, 1)})
    rate = _rate(given)
    if rate is None:
        return estimate(**values), "", None
    values |= {"measured": rate.per_rank, "overlaps": rate.overlaps}
    if given.batch_size is None:
        values["batch_size"] = rate.batch_size
    if given.step_ms is None:
        values["step_ms"] = rate.step_seconds * 1000
    made = estimate(**values)
    source = rate.what + (f"; it names {rate.stage} as the bottleneck" if rate.stage else "")
    if made.world_size > 1 and not given.profile and "LOCAL_WORLD_SIZE" not in os.environ:
        source += "; ranks of this machine would share its CPUs"
    return made, source, rate


def _rate(given: argparse.Namespace) -> Any | None:
    """A MeasuredRate by --dataset, --loader or --profile; None for the others."""
    if given.profile is not None:
        from ..measured_rate import rate_of_profile

        with open_regular(given.profile, encoding="utf-8") as file:
            text = file.read()
        try:
            return rate_of_profile(json.loads(text))
        except ValueError as error:
            what = " is no JSON" if isinstance(error, json.JSONDecodeError) else ""
            raise ValueError(f"{given.profile}{what}: {error}") from None
    name = given.loader if given.dataset is None else given.dataset
    if name is None:
        return None
    divided(name)
    if given.ranks_per_node is not None:
        refuse({f"--ranks-per-node={given.ranks_per_node} should be 1 or more": given.ranks_per_node < 1})
        os.environ["LOCAL_WORLD_SIZE"] = str(given.ranks_per_node)
    return _measured(name, given)


def _measured(name: str, given: argparse.Namespace) -> Any:
    from ..measured_rate import loader_of, measure

    text = f"--seconds={given.seconds:g} should be more than 0, and an hour at most"
    refuse({text: not 0 < given.seconds <= 3600})
    with closing(Progress("measuring", None)) as progress:
        try:
            thing = named(name)
            loader = thing if given.loader is not None else loader_of(thing, int(given.batch_size))
            return measure(loader, given.seconds, progress.add)
        except Exception as error:
            reason = explained(error)
            raise _Failed(reason if reason.startswith(f"{name}: ") else f"{name}: {reason}") from error
