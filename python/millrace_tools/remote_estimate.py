"""Estimate.with_nodes(): how many nodes of CPUs bring the loaders of a run to the rate that it needs, whether
the machines with the GPUs can receive what they make, and whether they pay for themselves.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .texts import count_text, size_text

# Of benchmarks/remote.py, two CPUs of an EPYC: docs/remote.md says more.
CPU_SECONDS_PER_GB = 0.5
SHARE_OF_A_CPU = 0.72

_MILLION, _HOUR = 1e6, 3600.0


@dataclass(frozen=True)
class RemoteEstimate:
    """Numbers of the whole run, rates in samples per second; `str()` says them in sentences.

    Attributes:
        needed, measured: of all ranks.
        wanted: the rate that nodes have to make; more than needed - measured, as `cpus_receiving` of each
            rank's CPUs receive it and make nothing meanwhile.
        node_rate: the rate that one node makes.
        nodes: as many as the run needs, or as `limit` lets it use.
        reached: the rate with them.
        bytes_per_second: the bytes that they send in all.
        gbit_per_machine: of that, the part that one machine with GPUs receives.
        limit: "network" or "CPUs" where the machines with GPUs cannot receive as much as is wanted, "gain"
            where receiving a sample costs them more than making it; None: nothing is in the way.
        cost_without, cost_with: of 1M samples, None without both prices.
        nodes_cheapest: the number of nodes, 0 to `nodes`, at which the cost is lowest.
        cost_cheapest: the cost with that number of nodes.
    """

    needed: float
    measured: float
    wanted: float
    node_cpus: int
    node_rate: float
    nodes: int
    reached: float
    bytes_per_second: float
    gbit_per_machine: float
    cpus_receiving: float
    cpus: float
    network_gbit: float | None = None
    limit: str | None = None
    currency: str = "USD"
    cost_without: float | None = None
    cost_with: float | None = None
    nodes_cheapest: int | None = None
    cost_cheapest: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Every number by its name."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(_sentences(self))


def remote_estimate(
    *,
    needed: float,
    measured: float,
    fed: float,
    ranks: int,
    ranks_per_machine: int,
    cpus: float,
    node_cpus: int,
    sample_bytes: float,
    network_gbit: float | None,
    price_per_hour: float | None,
    node_price_per_hour: float | None,
    currency: str,
    cpu_s_per_gb: float,
    share: float,
) -> RemoteEstimate:
    """needed, measured: of one rank; fed: what it takes now, the lower of both where loading and computing
    overlap. The rest as Estimate.with_nodes() has it, checked.
    """
    per_cpu = measured / cpus
    cpu_s = sample_bytes / 1e9 * cpu_s_per_gb  # of receiving a sample
    gain = 1 - cpu_s * per_cpu  # of a sample received, less the samples not made here meanwhile
    missing = max(0.0, needed - measured)
    limits = {"CPUs": cpus / cpu_s if cpu_s else math.inf}
    if network_gbit is not None:
        limits["network"] = network_gbit * 1e9 / 8 / sample_bytes / ranks_per_machine
    limit: str | None = min(limits, key=lambda name: limits[name])
    assert limit is not None
    wanted, most = (missing / gain, limits[limit]) if gain > 0 else (0.0, 0.0)
    received = min(wanted, most)
    if gain <= 0:
        limit = "gain" if missing else None
    elif wanted <= most:
        limit = None
    node_rate = node_cpus * per_cpu * share

    def reached(nodes: int) -> float:
        more = min(nodes * node_rate / ranks, most) * gain
        return ranks * (min(needed, measured + more) if nodes else fed)

    nodes = math.ceil(received * ranks / node_rate * (1 - 1e-9))
    costs: dict[str, Any] = {}
    if price_per_hour is not None and node_price_per_hour is not None:
        gpus = price_per_hour * ranks
        # A quotient of two linear functions of the nodes: it rises or falls all the way, but for the last
        # node, which may have little to do.
        paid = {
            count: (gpus + count * node_price_per_hour) / reached(count) / _HOUR * _MILLION
            for count in sorted({0, max(nodes - 1, 0), nodes})
        }
        cheapest = min(paid, key=lambda count: (paid[count], count))
        costs = {
            "cost_without": paid[0],
            "cost_with": paid[nodes],
            "nodes_cheapest": cheapest,
            "cost_cheapest": paid[cheapest],
        }
    return RemoteEstimate(
        needed=needed * ranks,
        measured=measured * ranks,
        wanted=wanted * ranks,
        node_cpus=node_cpus,
        node_rate=node_rate,
        nodes=nodes,
        reached=reached(nodes),
        bytes_per_second=received * ranks * sample_bytes,
        gbit_per_machine=received * ranks_per_machine * sample_bytes * 8 / 1e9,
        cpus_receiving=received * cpu_s,
        cpus=cpus,
        network_gbit=network_gbit,
        limit=limit,
        currency=currency,
        **costs,
    )


def _sentences(made: RemoteEstimate) -> list[str]:
    if made.measured >= made.needed:
        return ["nodes     none is needed: the loaders give what the run needs"]
    if made.limit == "gain":
        return [
            "nodes     none helps: receiving a sample costs a rank more CPU time than making it;"
            " let the nodes send fewer bytes (uint8 pictures, normalised on the GPU)"
        ]
    each = f"{count_text(made.node_rate)} samples/s each"
    nodes = (
        f"{made.nodes:,} of {made.node_cpus:,} CPUs ({each}) bring{'s' * (made.nodes == 1)} the loaders to"
    )
    if made.limit is None:
        lines = [f"nodes     {nodes} {count_text(made.needed)} samples/s"]
    else:
        lines = [
            f"nodes     {nodes} {count_text(made.reached)} samples/s,"
            f" {made.reached / made.needed:.0%} of what the run needs",
            f"          more do not help: {_limit(made)}",
        ]
    network = f"{made.gbit_per_machine:.3g} Gbit/s"
    if made.network_gbit is not None:
        network += f" of {made.network_gbit:.3g}"
    lines += [
        f"network   {size_text(made.bytes_per_second)}/s in all, {network} into each machine with GPUs",
        f"receiving {made.cpus_receiving:.2g} of each rank's {made.cpus:.3g} CPUs",
    ]
    if made.cost_without is None or made.cost_with is None or made.cost_cheapest is None:
        return lines
    with_nodes = f"{made.cost_with:,.4g} {made.currency} with {made.nodes:,}"
    lines.append(f"cost      of 1M samples: {made.cost_without:,.4g} without nodes, {with_nodes}")
    if made.nodes_cheapest == 0:
        lines.append(
            "          nodes do not pay for themselves: they cost more than the waiting that they end"
        )
    elif made.nodes_cheapest == made.nodes:
        lines.append("          so they pay for themselves")
    else:
        less = f"{made.nodes_cheapest:,} cost less, {made.cost_cheapest:,.4g}"
        lines.append(f"          {less}: the last node has too little to do")
    return lines


def _limit(made: RemoteEstimate) -> str:
    if made.limit == "network":
        return f"the network of a machine with GPUs is full at {made.network_gbit:.3g} Gbit/s"
    return f"receiving takes all {made.cpus:.3g} CPUs of a rank"
