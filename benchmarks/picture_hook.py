"""What pictures="lazy" costs scripts that open no picture: millrace's loader with pictures="lazy" and with
pictures="pillow" over the same samples, the sides taking turns.

    python -m benchmarks.picture_hook [--rounds 31] [--out FILE.jsonl] [scenario ...]

A sample is made once and handed out for every index, so an epoch is made of the loader's own work. Pillow
and torchvision are imported, so all that there is to replace is replaced. A third side is the second again:
by how much these two differ is the noise. Before anything is timed, the batches of all sides must be equal.
Where valgrind is installed, `instructions` counts those of epochs without workers, which other programs on
the machine do not change.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.compare import factors, latest_runs, rates_table, told
from benchmarks.harness import ROOT, run_facts
from benchmarks.inline_steps import SAMPLES, Same
from benchmarks.loaders._torchvision import import_torchvision
from benchmarks.runs import hold_to_cpus, rounds_told, rows_in_turns, stored

# name -> (the sample, batch size, workers, steps of an epoch)
SCENARIOS: dict[str, tuple[str, int, int, int]] = {
    "numbers": ("numbers", 8, 0, 40_000),
    "array": ("array", 64, 0, 10_000),
    "numbers workers": ("numbers", 8, 2, 4000),
    "array workers": ("array", 64, 2, 4000),
    "instructions": ("numbers", 8, 0, 1000),
    "instructions array": ("array", 64, 0, 200),
}
SIDES = ("lazy", "pillow")  # and, where time is measured, a second loader of the latter
AGAIN = "pillow again"
PACKAGES = ("torch", "torchvision", "pillow", "numpy")
COUNTED_EPOCHS = 24  # of each side, under valgrind


def loaders(scenario: str, steps: int) -> dict[str, Any]:
    import millrace

    import_torchvision()
    import_module("PIL.JpegImagePlugin")
    kind, batch, workers, _ = SCENARIOS[scenario]
    dataset = Same(SAMPLES[kind](), steps * batch)
    common: dict[str, Any] = {"num_workers": workers, "persistent_workers": workers > 0, "native": "never"}
    return {
        side: millrace.DataLoader(dataset, batch, pictures=side.split()[0], **common)
        for side in ("pillow", "lazy", AGAIN)
    }


def check(sides: dict[str, Iterable]) -> None:
    """AssertionError when the sides' batches differ."""
    expected = list(sides["pillow"])
    for loader in sides.values():
        torch.testing.assert_close(list(loader), expected, rtol=0, atol=0)


def measure(scenario: str, rounds: int, cpus: list[int], steps: int = 0) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all. `steps`: other than
    the scenario's.
    """
    steps = steps or SCENARIOS[scenario][3]
    facts = {"scenario": scenario, "cpus": len(cpus), **run_facts(PACKAGES)}
    if scenario.startswith("instructions"):
        yield from instructions(facts, steps)
        return
    made = loaders(scenario, steps)
    check(made)
    sides = {
        name: (SCENARIOS[scenario][2], lambda loader=loader: loader)  # type: ignore[misc]
        for name, loader in made.items()
    }
    yield from rows_in_turns(sides, rounds, cpus, facts, lambda _: 1)


# ------------------------------------------------------------------ instructions


def instructions(facts: dict, steps: int, epochs: int = COUNTED_EPOCHS) -> Iterator[dict]:
    """A record per epoch, the sides taking turns in one process under valgrind; none where that is absent."""
    if shutil.which("callgrind_control") is None:
        print("instructions were left out: valgrind is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        command += [sys.executable, "-m", __spec__.name if __spec__ else __name__]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        inside = ["--inside", facts["scenario"], str(steps), str(epochs)]
        subprocess.run([*command, *inside], cwd=ROOT, env=environment, check=True, capture_output=True)
        for number, side in enumerate(in_turn(epochs)):
            text = Path(f"{out}.{number + 1}").read_text()
            counted = re.search(r"^totals: (\d+)", text, re.MULTILINE)
            if counted is None:
                raise SystemExit(f"callgrind's file of epoch {number} ({side}) has no total")
            yield {
                **facts,
                "loader": side,
                "workers": 0,
                "kind": "instructions",
                "repeat": number // len(SIDES),
                "batches": steps,
                "instructions": int(counted[1]),
                "instructions_per_step": int(counted[1]) / steps,
                "quiet": True,
            }


def in_turn(epochs: int) -> list[str]:
    return [side for repeat in range(epochs) for side in SIDES[:: -1 if repeat % 2 else 1]]


def count_inside(scenario: str, steps: int, epochs: int) -> None:
    """Under valgrind: an epoch of each side in turn, each written into a file of its own."""

    def control(*words: str) -> None:
        subprocess.run(["callgrind_control", *words, str(os.getpid())], check=True, capture_output=True)

    made = loaders(scenario, steps)
    check(made)
    gc.disable()  # a collection falls into one epoch or the next
    for side in in_turn(epochs):
        control("--instr=on")
        for _ in made[side]:
            pass
        control("--dump")
        control("--instr=off")


# ------------------------------------------------------------------ the command


def table(records: list[dict]) -> str:
    parts = []
    for (scenario, workers), run in latest_runs(records).items():
        heading = f"**{scenario}**, {workers} workers\n\n"
        if scenario.startswith("instructions"):
            each = {side: [r["instructions_per_step"] for r in run if r["loader"] == side] for side in SIDES}
            lines = [
                f"{side}: {statistics.median(n):,.0f} ({min(n):,.0f} – {max(n):,.0f}) instructions a step"
                for side, n in each.items()
            ]
            ratio = told([a / b for a, b in zip(each["lazy"], each["pillow"], strict=True)], ".3f")
            parts.append(heading + "\n".join([*lines, f"lazy against pillow: {ratio}"]))
            continue
        columns = {"CPU us per step": (lambda r: r["cpu_seconds"] / r["batches"] * 1e6, ".1f")}
        more = {
            side: told(factors(run, "pillow", side, lambda r: max(r["cpu_seconds"], 0.01)))
            for side in ("lazy", AGAIN)
        }
        parts.append(
            heading
            + rates_table(run, "rows_per_s", "steps/s", columns, best="pillow")
            + "".join(f"\n\nCPU seconds, {side} against pillow: {ratio}" for side, ratio in more.items())
        )
    return "\n\n".join(parts)


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        return count_inside(sys.argv[2], *map(int, sys.argv[3:]))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", nargs="*", default=list(SCENARIOS), help=", ".join(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=31)
    out = "benchmarks/results/picture_hook/local.jsonl"
    parser.add_argument("--out", default=out, help="results are appended to this file")
    given = parser.parse_args()
    cpus, records = hold_to_cpus(2), []
    for name in given.scenario:
        records += stored(measure(name, given.rounds, cpus), given.out)
    timed = [record for record in records if record["kind"] == "epoch"]
    print(f"{rounds_told(timed) if timed else ''}\n\n{table(records)}\n")


if __name__ == "__main__":
    main()
