"""num_workers="auto" and prefetch_factor="auto" against every point of a grid by hand, on five real
pipelines, each with its training loop.

    python -m benchmarks.autotune [--scenario jpegs sleeps ...] [--seconds 60] [--rounds 5] [--out FILE.jsonl]

Before anything is timed, the batches of both must be equal. "auto" then has `--seconds` to find its setting.
The grid is what a careful user would try: 1, 2, 4, ... workers up to four for each CPU, or 8, and four
prefetch factors. Each of its points is measured once; the three fastest meet "auto" in rounds, an epoch each,
as many batches each, in turns. The best is the one with the best median there. Each epoch is one line of
JSON; those of "auto" also say what it had chosen, and the run fails where that is not within the budget.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import statistics
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import torch
from millrace import DataLoader, transforms
from millrace.datasets import ImageFolder
from PIL import Image
from torch.utils.data import Dataset, Subset, TensorDataset

from benchmarks import probes
from benchmarks.compare import interval
from benchmarks.harness import QUIET_SHARE, quiet_rounds, run_facts
from benchmarks.runs import options, run_scenarios

PREFETCH = (1, 2, 4, 8)
HTTP_LATENCY_S = 0.02
FINALISTS = 3


class Sleeps(Dataset):
    """Samples that wait 4 ms and then take about 0.2 ms of Python."""

    def __len__(self) -> int:
        return 1600

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.004)
        value = sum(range(4000))
        return torch.full((256,), float(index)), value


class FromHttp(Dataset):
    """Samples of 64 KiB, a request each, of a server that answers after 20 ms."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __len__(self) -> int:
        return 320

    def __getitem__(self, index: int) -> torch.Tensor:
        with urllib.request.urlopen(f"{self.address}/{index}") as answer:
            return torch.from_numpy(np.frombuffer(answer.read(), np.uint8).copy())


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(HTTP_LATENCY_S)
        self.send_response(200)
        self.send_header("Content-Length", str(65536))
        self.end_headers()
        self.wfile.write(bytes([int(self.path[1:]) % 251]) * 65536)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _serve(pipe: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    pipe.send(server.server_address[1])
    server.serve_forever()


@contextlib.contextmanager
def http_server(folder: str) -> Iterator[Dataset]:
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(its,), daemon=True)
    process.start()
    try:
        yield FromHttp(f"http://127.0.0.1:{mine.recv()}")
    finally:
        process.terminate()
        process.join()


@contextlib.contextmanager
def jpegs(folder: str) -> Iterator[Dataset]:
    """Pictures of 500 x 375 pixels, each a photograph's size in bytes, in one class."""
    target = Path(folder) / "class"
    target.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    for i in range(400):
        coarse = generator.integers(0, 256, (47, 63, 3), np.uint8)
        Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC).save(
            target / f"{i}.jpg", quality=92
        )
    chain = transforms.Compose(
        [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    )
    yield ImageFolder(folder, chain)


def in_memory(make: Callable[[], Dataset]) -> Callable[[str], Any]:
    return lambda folder: contextlib.nullcontext(make())


def sleeping(seconds: float) -> Callable[[Any], None]:
    return lambda batch: time.sleep(seconds)


def computing(seconds: float) -> Callable[[Any], None]:
    """A step on the CPU, as long as it takes there: it is slower where threads take the CPU from it."""
    matrix = torch.rand(160, 160)

    def products(rounds: int) -> float:
        started = time.perf_counter()
        for _ in range(rounds):
            matrix @ matrix
        return time.perf_counter() - started

    products(20)
    rounds = max(1, round(seconds / min(products(20) / 20 for _ in range(20))))
    return lambda batch: products(rounds)


@dataclass(frozen=True)
class TuneScenario:
    """`dataset(folder)`: a context whose value is the dataset; `step()`: makes the training loop's step;
    `epochs` that are one repeat.
    """

    name: str
    dataset: Callable[[str], Any]
    batch: int
    step: Callable[[], Callable[[Any], None]]
    epochs: int = 1


def wide_rows() -> Dataset:
    """Rows of 400 kB, each ten times, so that an epoch takes longer than it takes to start."""
    return Subset(TensorDataset(torch.rand(2000, 100_000), torch.arange(2000)), list(range(2000)) * 10)


SCENARIOS = {
    s.name: s
    for s in (
        TuneScenario("jpegs", jpegs, 32, lambda: sleeping(0.005), 4),
        TuneScenario("sleeps", in_memory(Sleeps), 16, lambda: sleeping(0.002)),
        TuneScenario("rows", in_memory(wide_rows), 32, lambda: sleeping(0.001)),
        TuneScenario("http", http_server, 8, lambda: sleeping(0.005)),
        TuneScenario("busy_consumer", jpegs, 16, lambda: computing(0.03), 3),
    )
}


def grid(cpus: int) -> list[tuple[int, int]]:
    most = max(cpus, min(4 * cpus, 8))
    workers = sorted({1, cpus, most, *(n for n in (2, 4, 8, 16, 32) if n <= most)})
    return list(itertools.product(workers, PREFETCH))


def make(dataset: Dataset, scenario: TuneScenario, workers: Any, prefetch: Any) -> DataLoader:
    return DataLoader(
        dataset,
        scenario.batch,
        shuffle=True,
        num_workers=workers,
        prefetch_factor=prefetch,
        persistent_workers=True,
    )


def check(first: DataLoader, second: DataLoader, batches: int = 8) -> None:
    """Both give the same batches. Raises AssertionError."""
    seen: list[list[Any]] = []
    for loader in (first, second):
        torch.manual_seed(0)
        seen.append(
            [batch if isinstance(batch, list) else [batch] for batch in itertools.islice(loader, batches)]
        )
    assert len(seen[0]) == len(seen[1]) > 0
    for mine, other in zip(*seen):
        assert all(torch.equal(a, b) for a, b in zip(mine, other)), "the sides' batches differ"


def check_budget(tuned: dict[str, Any], overflow: int) -> None:
    budget = tuned["budget"]
    assert tuned["threads"] <= tuned["most_threads"], tuned
    assert tuned["threads"] <= budget["threads"] or tuned["cpus_used"] <= 1.1 * budget["cpus"], tuned
    assert tuned["slots"] * (tuned["batch_bytes"] or 0) <= tuned["peak_bytes"] <= budget["memory_bytes"], (
        tuned
    )
    assert overflow == 0, "a batch was made outside of the slots"


def epoch(loader: DataLoader, step: Callable[[Any], None]) -> int:
    batches = 0
    for batch in loader:
        step(batch)
        batches += 1
    return batches


def measure(scenario: TuneScenario, seconds: float, rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per repeat: of each point of the grid once ("scan"), then of "auto" and the best of them, at
    least `rounds` quiet rounds
    and at most twice as many in all.
    """
    common = {"scenario": scenario.name, "cpus": len(cpus), **run_facts(("torch",))}
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
    with tempfile.TemporaryDirectory() as folder, scenario.dataset(folder) as dataset:
        step = scenario.step()
        check(
            make(dataset, scenario, "auto", "auto"), make(dataset, scenario, len(cpus), 2)
        )  # which keeps batches: not to be counted
        auto = make(dataset, scenario, "auto", "auto")
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            epoch(auto, step)

        def repeat_of(name: str, loader: DataLoader) -> dict:
            if name != "auto":
                epoch(
                    loader, step
                )  # its workers are started; one broken off would leave them busy for the epoch that is timed
            timer = probes.Epoch(cpus)
            batches = sum(epoch(loader, step) for _ in range(scenario.epochs))
            record = {**common, "loader": name, **timer.stop(), "batches": batches}
            if name == "auto":
                stats = loader.stats()
                record["tuned"] = stats["tuned"]
                check_budget(stats["tuned"], stats["overflow_slots"])
            else:
                loader._iterator = None  # idle workers of other loaders are no part of this
            return {**record, "batches_per_s": batches / record["seconds"]}

        sides = {
            f"{workers} x {prefetch}": make(dataset, scenario, workers, prefetch)
            for workers, prefetch in grid(len(cpus))
        }
        scan = []
        for name, loader in sides.items():
            record = {**repeat_of(name, loader), "kind": "scan", "repeat": 0}
            scan.append({**record, "quiet": record["others_share"] <= QUIET_SHARE})
            yield scan[-1]
        best = sorted(scan, key=lambda record: -record["batches_per_s"])[:FINALISTS]
        finalists = {"auto": auto, **{record["loader"]: sides[record["loader"]] for record in best}}

        def one_round(repeat: int) -> list[dict]:
            turns = list(finalists.items())[:: -1 if repeat % 2 else 1]
            records = [
                {**repeat_of(name, loader), "kind": "epoch", "repeat": repeat} for name, loader in turns
            ]
            assert len({record["batches"] for record in records}) == 1, (
                "the sides had not equally many batches"
            )
            return records

        yield from quiet_rounds(rounds, one_round)


def reached(records: list[dict]) -> tuple[str, list[float]]:
    """(the best grid point, round by round: auto's rate as a share of that point's)."""
    rounds = [r for r in records if r["kind"] == "epoch"]
    kept = [r for r in rounds if r["quiet"]] or rounds
    rates: dict[str, dict[int, float]] = {}
    for record in kept:
        rates.setdefault(record["loader"], {})[record["repeat"]] = record["batches_per_s"]
    auto = rates.pop("auto")
    best = max(rates, key=lambda name: statistics.median(rates[name].values()))
    return best, [auto[repeat] / rates[best][repeat] for repeat in auto]


def table(records: list[dict]) -> str:
    best, shares = reached(records)
    low, high = interval(shares)
    lines = ["| num_workers x prefetch_factor | batches/s, median |", "|---|---:|"]
    for name in dict.fromkeys(r["loader"] for r in records):
        own = [r for r in records if r["loader"] == name]
        median = statistics.median(
            r["batches_per_s"] for r in [r for r in own if r["kind"] == "epoch"] or own
        )
        lines.append(f"| {name}{' (best by hand)' if name == best else ''} | {median:.2f} |")
    tuned = [r["tuned"] for r in records if "tuned" in r][-1]
    lines.append(
        f"\nauto reaches {statistics.median(shares):.1%} ({low:.1%} – {high:.1%}) of the best, with"
        f" {tuned['threads']} threads and {tuned['slots']} batches in memory; {tuned['searches']} searches,"
        f" {tuned['changes']} changes."
    )
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, "autotune", 5, SCENARIOS)
    parser.add_argument("--seconds", type=float, default=60.0, help="that auto has before it is measured")
    arguments = parser.parse_args()

    def run(name: str, cpus: list[int]) -> Iterator[dict]:
        return measure(SCENARIOS[name], arguments.seconds, arguments.rounds, cpus)

    run_scenarios(arguments.scenario, arguments.out, run, table)


if __name__ == "__main__":
    sys.exit(main())
