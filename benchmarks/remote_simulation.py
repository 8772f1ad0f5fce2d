"""How far a trainer gets with nodes that make its batches: a simulation to 1,000 of them, of measured costs.

    python -m benchmarks.remote_simulation measure --images DIR [--rounds 5] [--seconds 8] [--out FILE.jsonl]
    python -m benchmarks.remote_simulation [--costs FILE.jsonl] [--out FILE.jsonl] [--docs]

`measure` measures costs on this machine (remote_simulation_costs.py), one line of JSON for each repeat.
Without it, nodes of 8 CPUs send batches of 64 photos (224 x 224, uint8) to a trainer of 16 CPUs, of which 8
make batches, too (remote_simulation_model.py): with networks of several speeds, nodes that are slow, nodes
that die. Beside each rate stands what it ends at. The last lines compare what the simulation says of the
measured epochs themselves with what they were.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.compare import read_results
from benchmarks.harness import ROOT, run_facts
from benchmarks.remote_simulation_costs import fitted, idle_shares, measured
from benchmarks.remote_simulation_model import Costs, Simulation, World, limit_of
from benchmarks.runs import stored

RESULTS = ROOT / "benchmarks/results/remote_simulation"
COSTS = RESULTS / "costs-epyc-2cpu.jsonl"
FIGURE, PAGE = ROOT / "docs/figures/remote_simulation.svg", ROOT / "docs/remote.md"
MARKS = "<!-- simulation -->", "<!-- /simulation -->"
SIZE, NODES = 224, (1, 3, 10, 30, 100, 300, 1000)
GBIT = 1e9 / 8
TOLERANCE = 0.25  # between rates of the measured epochs and their simulation
USUAL = World(
    nodes=1,
    node_cpus=8,
    trainer_cpus=16,
    local_threads=8,
    network=100 * GBIT,
    node_network=25 * GBIT,
    latency_s=0.0001,
)
SCENARIOS: dict[str, dict[str, Any]] = {
    "100 Gbit/s": {},
    "25 Gbit/s": {"network": 25 * GBIT},
    "4 credits": {"credits": 4},
    "1 of 10 nodes 10 times as slow": {"slow_share": 0.1, "slow_times": 10.0},
    "each node dies once an hour": {"mtbf_s": 3600.0, "detect_s": 15.0},
}
WORDS = {
    "network": "the network",
    "receiving": "CPUs that receive",
    "raylet": "the trainer's raylet",
    "ray_thread": "Ray in the trainer",
    "courier": "the courier",
    "nodes": "the nodes",
    "links": "the nodes' links",
    "credits": "credits",
    "order": "the order",
}


def simulated(costs: Costs, world: World, batches: int = 0) -> dict[str, Any]:
    """Behind the first batches, in which nothing is full yet."""
    ahead = world.slots + world.credits * world.nodes
    found = Simulation(costs, world).run(batches or max(4000, 6 * ahead), max(500, 3 * ahead))
    return {**found, "limit": limit_of(found)}


def records(costs: Costs, source: str, nodes: Iterable[int] = NODES) -> Iterator[dict[str, Any]]:
    common = {**run_facts(), "costs": dataclasses.asdict(costs), "costs_of": source}
    for scenario, changes in SCENARIOS.items():
        for count in nodes:
            if count * changes.get("slow_share", 1) < 1:
                continue  # none of so few
            world = dataclasses.replace(USUAL, nodes=count, **changes)
            found = simulated(costs, world)
            yield {**common, "scenario": scenario, "world": dataclasses.asdict(world), **found}


def table(found: list[dict[str, Any]]) -> str:
    """A line for each number of nodes, with what their rate ends at."""
    counts = sorted({record["world"]["nodes"] for record in found})
    lines = [f"| nodes | {' | '.join(SCENARIOS)} |", "|---:|" + "---|" * len(SCENARIOS)]
    for count in counts:
        cells = []
        for scenario in SCENARIOS:
            mine = [r for r in found if (r["scenario"], r["world"]["nodes"]) == (scenario, count)]
            cells.append(f"{mine[0]['samples_per_s']:,.0f} ({WORDS[mine[0]['limit']]})" if mine else "")
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ends_of(costs: Costs) -> dict[str, float]:
    """Samples per second at which each part of the trainer is full, by its costs alone: without what the
    courier takes for each member.
    """
    ends = {stage: costs.of(stage) for stage in ("courier", "raylet", "ray_thread")}
    ends["receiving"] = costs.of("cpu") / USUAL.trainer_cpus
    ends["network"] = costs.bytes / USUAL.network
    return {stage: costs.samples / seconds for stage, seconds in ends.items() if seconds}


def ends_told(costs: Costs) -> str:
    lines = ["| part of the trainer | is full at |", "|---|---:|"]
    for stage, rate in sorted(ends_of(costs).items(), key=lambda item: item[1]):
        lines.append(f"| {WORDS[stage]} | {rate:,.0f} photos/s |")
    return "\n".join(lines)


def page_with(page: str, text: str) -> str:
    before, _, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not end:
        raise ValueError(f"the page has no lines {MARKS[0]} and {MARKS[1]}")
    return f"{before}{MARKS[0]}\n{text}\n{end}{after}"


def compared(costs_of: list[dict[str, Any]]) -> Iterator[tuple[int, float, float]]:
    """For each size of pictures: batches per second of the measured epochs, and those of a simulated trainer
    and node of one CPU each. Both are of the CPUs that other programs left.
    """
    epochs = [r for r in costs_of if r["kind"] == "epoch" and r["actors"] == 1]
    calls = [r["call_s"] for r in costs_of if r["kind"] == "ray"]
    for size in sorted({r["size"] for r in epochs}):
        mine = [r for r in epochs if r["size"] == size]
        real = statistics.median(
            (r["local"] + r["remote"]) / r["seconds"] / (1 - r["others_share"]) for r in mine
        )
        idle = idle_shares(costs_of)
        rest = 1 - idle.get("ray_s", 0.0) - idle.get("raylet_s", 0.0)
        latency = statistics.median(calls) / 2 if calls else 0.0
        world = World(nodes=1, trainer_cpus=rest, local_threads=1, latency_s=latency)
        yield size, real, simulated(fitted(costs_of, size), world)["batches_per_s"]


def plot(found: list[dict[str, Any]], path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    most = max(r["samples_per_s"] for r in found)
    with matplotlib.rc_context({"svg.hashsalt": "millrace", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8.2, 3.8), layout="constrained")
        rates, uses = figure.subplots(1, 2)
        for scenario in SCENARIOS:
            mine = [r for r in found if r["scenario"] == scenario]
            x = [r["world"]["nodes"] for r in mine]
            rates.plot(x, [r["samples_per_s"] for r in mine], marker="o", ms=3, label=scenario)
        first = [r for r in found if r["scenario"] == next(iter(SCENARIOS))]
        x = [r["world"]["nodes"] for r in first]
        for stage, words in WORDS.items():
            if stage in first[0]["use"]:
                uses.plot(x, [100 * r["use"][stage] for r in first], marker="o", ms=3, label=words)
        uses.plot(x, [100 * r["nodes_busy"] for r in first], "--", color="grey", label=WORDS["nodes"])
        rates.set_title("Photos a second at one trainer")
        uses.set_title(f"How busy, in %: {first[0]['scenario']}")
        rates.set_ylim(0, 1.1 * most)
        for axes in (rates, uses):
            axes.set(xscale="log", xlim=(0.8, 1.25 * NODES[-1]), xlabel="nodes of 8 CPUs")
            axes.set_xticks(NODES, [f"{count:,}" for count in NODES])
            axes.minorticks_off()
            axes.grid(color="#d7dde3", lw=0.6)
            axes.legend(frameon=False, fontsize=8)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", nargs="?", choices=["simulate", "measure"], default="simulate")
    parser.add_argument("--images", default=str(ROOT / "demo_data" / "photos"), help="class folders of JPEGs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a measured epoch")
    parser.add_argument("--actors", type=int, default=8, help="how many are many of them, on one CPU")
    parser.add_argument("--costs", type=Path, default=COSTS)
    parser.add_argument("--out", type=Path, help="default: local.jsonl; of measure: the file of --costs")
    parser.add_argument(
        "--docs", action="store_true", help="write the figure and the table of docs/remote.md"
    )
    given = parser.parse_args()
    if given.mode == "measure":
        found = measured(os.path.abspath(given.images), given.rounds, given.seconds, given.actors)
        stored(found, os.path.abspath(given.out or given.costs))
        return
    costs_of = latest(read_results(given.costs))
    costs = fitted(costs_of, SIZE)
    found = stored(records(costs, given.costs.name), str(given.out or RESULTS / "local.jsonl"))
    text = f"{table(found)}\n\n{ends_told(costs)}"
    print(text)
    for size, real, said in compared(costs_of):
        print(f"{size} x {size}: {real:.1f} batches/s were measured, {said:.1f} are simulated")
    if given.docs:
        plot(found, FIGURE)
        PAGE.write_text(page_with(PAGE.read_text(), text))


def latest(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in found if record["run"] == found[-1]["run"]]


if __name__ == "__main__":
    main()
