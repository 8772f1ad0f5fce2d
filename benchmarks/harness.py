"""Measures loaders against each other: same data first, then times, the sides taking turns within one run.

    python -m benchmarks.harness [--images DIR] [--out FILE.jsonl] [--scenario ...] [--loader ...] [--workers
    2 1]

Every side is a process of its own (side.py) on as many CPUs as it has workers; only one of them works at any
moment. Epoch 0 warms up and is checked; then each round gives every side one epoch, in alternating direction.
Each repeat is one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import checks, loaders, probes
from benchmarks.loaders import Job
from benchmarks.scenarios import OF_FILES, SCENARIOS
from benchmarks.scenarios.imagenet import list_samples
from examples.make_photos import make_photos

ROOT = Path(__file__).resolve().parents[1]
REFERENCES = (
    "webdataset_torch",
    "torch_tv2",
    "torch_pil",
)  # the first of these that takes part says what is right
QUIET_SHARE = 0.08  # a round in which others took more of our CPUs than this is repeated


class SideFailed(RuntimeError):
    """A side ended instead of answering; its own words are on stderr."""


class SideProcess:
    """A side.py process. Use as a context manager: leaving it ends the process and all its children."""

    def __init__(self, name: str | None, job: Job, cpus: list[int]) -> None:
        environment = None if name is None else loaders.load(name).ENVIRONMENT
        self._start(
            name or "import torch",
            [sys.executable if environment is None else python_of(environment), "-m", "benchmarks.side"],
        )
        self._send(
            {
                "loader": name,
                "scenario": job.scenario.name,
                "root": os.path.abspath(job.root),
                "workers": job.workers,
                "epoch_images": job.epoch_images,
                "persistent": job.persistent,
                "cpus": cpus,
            }
        )

    def _start(self, name: str, command: list[str]) -> None:
        quiet = {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONWARNINGS": "ignore",
            "PYTHONUNBUFFERED": "1",
        }
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.name = name
        # A process group of its own: Ctrl-C reaches the harness alone, which then ends the group.
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **quiet, "PYTHONPATH": paths},
            preexec_fn=os.setpgrp,
        )

    def _send(self, value) -> None:
        try:
            self.process.stdin.write(json.dumps(value) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SideFailed(f"{self.name}: its process ended ({self.process.wait()})") from None

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise SideFailed(f"{self.name}: its process ended ({self.process.wait()})")
        return json.loads(line)

    def ask(self, command: str, *arguments) -> dict:
        self._send([command, *arguments])
        return self.answer()

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(self, *_) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()


def python_of(environment: str) -> str:
    python = ROOT / "benchmarks" / "envs" / environment / "bin" / "python"
    if not python.exists():
        raise SideFailed(
            f"benchmarks/envs/{environment} does not exist: benchmarks/make_env.sh {environment} makes it"
        )
    return str(python)


def choose_cpus(count: int) -> list[int]:
    """The last `count` CPUs that we may use: the first ones serve the most interrupts."""
    allowed = sorted(os.sched_getaffinity(0))
    if count > len(allowed):
        raise ValueError(f"{count} workers on as many CPUs: only {len(allowed)} are allowed here")
    return allowed[-count:]


def revision(folder: Path = ROOT) -> str:
    """The commit that is measured, with a "+" when files differ from it."""

    def git(*arguments: str) -> str:
        if not shutil.which("git"):
            return ""
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True).stdout.strip()

    commit = git("rev-parse", "--short=12", "HEAD")
    return (
        (commit + "+" * bool(git("status", "--porcelain", "--untracked-files=no"))) if commit else "unknown"
    )


def run_facts(packages: Iterable[str] = ()) -> dict[str, Any]:
    """When it is, the commit, the machine, and the versions of those packages that are installed: what every
    record says of its run.
    """
    versions = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "run": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "revision": revision(),
        "machine": probes.machine(),
        "versions": versions,
    }


def quiet_rounds(
    rounds: int, one_round: Callable[[int], list[dict]], counts: Callable[[dict], bool] = lambda record: True
) -> Iterator[dict]:
    """The records of one_round(0), one_round(1), ..., each with `quiet`: whether nobody else used much of the
    CPUs in its round, by the
    `others_share` of the records that count. At least `rounds` quiet rounds, at most twice as many in all.
    """
    quiet = repeat = 0
    while quiet < rounds and repeat < 2 * rounds:
        records = one_round(repeat)
        calm = (
            max((record["others_share"] for record in records if counts(record)), default=0.0) <= QUIET_SHARE
        )
        yield from ({**record, "quiet": calm} for record in records)
        quiet += calm
        repeat += 1


@dataclass
class Plan:
    """How much is measured; anything may be 0. memory_pause_s: see peak_memory()."""

    rounds: int = 7
    first_batches: int = 7
    memory_epochs: int = 2
    memory_pause_s: int = 4
    images_per_worker: int = 1000


def measure(
    scenario: str,
    names: list[str],
    workers: int,
    root: str,
    plan: Plan,
    say: Callable[[str], None] = lambda _: None,
) -> Generator[dict, None, None]:
    """Yields the records of one scenario; a peer that cannot start or is not right is left out, with a record
    saying so.

    Raises checks.NotTheSame when millrace or the reference is the one that is not right, SideFailed when
    millrace does not start.
    """
    cpus = choose_cpus(workers)
    job = Job(SCENARIOS[scenario], root, workers, plan.images_per_worker * workers)
    samples = list_samples(root)
    common = {
        "scenario": scenario,
        "workers": workers,
        "cpus": len(cpus),
        **run_facts(),
        "data": {
            "files": len(samples),
            "mean_bytes": round(sum(os.path.getsize(p) for p, _ in samples) / len(samples)),
        },
    }
    names = sorted(
        names, key=lambda n: REFERENCES.index(n) if n in REFERENCES else len(REFERENCES)
    )  # the reference goes first
    with ExitStack() as stack:
        sides = yield from checked_sides(stack, names, job, cpus, common, say)
        yield from timed_rounds(sides, job, plan, say)
    facts = {name: side.facts for name, side in sides.items()}
    yield from first_batches(facts, job, cpus, plan, say)
    for name in facts if plan.memory_epochs else ():
        say(f"{name}: memory")
        yield {**facts[name], "kind": "memory", **peak_memory(name, job, cpus, plan)}


def checked_sides(
    stack: ExitStack, names: list[str], job: Job, cpus: list[int], common: dict, say: Callable[[str], None]
) -> Generator[dict, None, dict[str, SideProcess]]:
    """Starts the sides and runs their epoch 0; yields what was found and returns those that are right, ready
    for more.
    """
    sides: dict[str, SideProcess] = {}
    reference = None
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    for name in names:
        say(f"{name}: starting and checking")
        file = os.path.join(folder, f"{name}.npy")
        try:
            side = stack.enter_context(SideProcess(name, job, cpus))
            side.answer()
            seen = side.ask("check", file)
            checks.check_epoch(job, seen)
            images = np.load(file)
            reference = reference or (seen, images)
            checks.check_statistics(reference[0], seen)
            distance = (
                {}
                if job.scenario.train
                else checks.check_pixels(reference[1], images, loaders.load(name).TOLERANCE)
            )
        except (SideFailed, checks.NotTheSame) as error:
            if isinstance(error, checks.NotTheSame) and name in ("millrace", *REFERENCES):
                raise checks.NotTheSame(f"{name}: {error}") from None
            if name == "millrace":
                raise
            say(f"{name}: left out: {error}")
            yield {**common, "loader": name, "kind": "left out", "reason": str(error)}
            continue
        side.facts = {**common, "loader": name, "versions": seen["versions"]}
        sides[name] = side
        yield {**side.facts, "kind": "check", "mean": seen["mean"], "std": seen["std"], **distance}
    return sides


def timed_rounds(
    sides: dict[str, SideProcess], job: Job, plan: Plan, say: Callable[[str], None]
) -> Iterator[dict]:
    """Every epoch of every round is a record."""

    def one_round(repeat: int) -> list[dict]:
        records = []
        for name in list(sides)[:: -1 if repeat % 2 else 1]:
            say(f"{name}: round {repeat}")
            times = sides[name].ask("epoch")
            if job.scenario.train == times.pop("in_order"):
                wrong = "the order of the files" if job.scenario.train else "another order than the files"
                raise checks.NotTheSame(f"{name}: an epoch of {job.scenario.name} came in {wrong}")
            records.append(
                {
                    **sides[name].facts,
                    "kind": "epoch",
                    "repeat": repeat,
                    **times,
                    "images_per_s": times["images"] / times["seconds"],
                    "cpu_s_per_1000": times["cpu_seconds"] * 1000 / times["images"],
                }
            )
        return records

    return quiet_rounds(plan.rounds, one_round)


def first_batches(
    facts: dict[str, dict], job: Job, cpus: list[int], plan: Plan, say: Callable[[str], None]
) -> Iterator[dict]:
    """From iter() to the first batch, in fresh processes whose loaders keep no workers; the first repeat
    warms up.
    """
    once = replace(job, persistent=False)
    with ExitStack() as stack:
        sides = {
            name: stack.enter_context(SideProcess(name, once, cpus)) for name in facts if plan.first_batches
        }
        for side in sides.values():
            side.answer()
        for repeat in range(plan.first_batches + 1):
            for name, side in sides.items():
                say(f"{name}: first batch {repeat}")
                yield {
                    **facts[name],
                    "kind": "first",
                    "repeat": repeat,
                    "warmup": repeat == 0,
                    **side.ask("first"),
                }


def peak_memory(name: str, job: Job, cpus: list[int], plan: Plan) -> dict:
    """Peak of a side alone on the machine, and what a process that only imported torch takes at the same time
    of day.

    The consumer is quick in some epochs, when batches are in the making, and stops in one, when they pile up
    in the queues.
    """
    with SideProcess(None, job, cpus) as baseline:
        baseline.answer()
        baseline_bytes = probes.tree_pss_bytes(baseline.process.pid)
    with SideProcess(name, job, cpus) as side, probes.PeakMemory(side.process.pid) as peak:
        side.answer()
        for _ in range(plan.memory_epochs):
            side.ask("epoch")
        side.ask("paused", plan.memory_pause_s)
    return {"peak_pss_bytes": peak.bytes, "import_torch_pss_bytes": baseline_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--images", help="class folder of JPEGs (default: the demo's photos, made if need be)"
    )
    parser.add_argument(
        "--out", default="benchmarks/results/local.jsonl", help="results are appended to this file"
    )
    parser.add_argument("--scenario", nargs="+", default=list(OF_FILES), choices=list(OF_FILES))
    parser.add_argument(
        "--loader", nargs="+", default=list(loaders.NAMES), help="default: all of " + " ".join(loaders.NAMES)
    )
    parser.add_argument("--workers", nargs="+", type=int, default=[2, 1])
    for field, value in asdict(Plan()).items():
        parser.add_argument("--" + field.replace("_", "-"), type=int, default=value)
    arguments = parser.parse_args()
    plan = Plan(**{field: getattr(arguments, field) for field in asdict(Plan())})
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    images = arguments.images or str(make_photos(ROOT / "demo_data" / "photos", 3000))
    for scenario in arguments.scenario:
        for workers in arguments.workers:

            def say(text: str) -> None:
                print(f"{scenario} x{workers}  {text}", file=sys.stderr, flush=True)

            # closing: an interrupt ends the sides at once, wherever it strikes
            measured = measure(scenario, arguments.loader, workers, images, plan, say)
            with open(arguments.out, "a") as out, closing(measured):
                for record in measured:
                    print(json.dumps(record), file=out, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
