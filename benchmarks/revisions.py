"""Two revisions of millrace against each other, in pairs of processes, epoch for epoch in turns.

    python -m benchmarks.revisions FOLDER [--rounds 15] [--photos FOLDER] [--scenario ...] [--out FILE.jsonl]

FOLDER has the other revision, built (a worktree with its `_core` module). Two processes of one revision
differ by 10 % and more in small steps, by where their memory lies, for as long as they live. So each round
has new processes, which take turns in a few epochs of each scenario, after both have given the same first
batches of the same seed. Each epoch is one line of JSON. The table has the ratio this : other of the rounds'
medians, its median over the rounds and the 95 % bootstrap interval: below 1 is faster. Scenarios are

    inline KIND BATCH       a step without workers, benchmarks/inline_steps.py: "inline tensor 8"
    rows NAME WORKERS       rows in memory, benchmarks/in_memory.py: "rows tiny_rows 2"
    processes NAME          Python datasets in two worker processes, benchmarks/python_workers.py
    photos WORKERS          a folder of photos (--photos) to crops of 224 pixels in batches of 64
    state ORDER WORKERS     state_dict() in mid-epoch, benchmarks/states.py: "state shuffled 2"
    resume ORDER WORKERS    from a state to the next batch
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from benchmarks.compare import interval
from benchmarks.harness import QUIET_SHARE, ROOT, revision, run_facts
from benchmarks.runs import hold_to_cpus, options, stored, timed_epoch

SCENARIOS = (
    *(f"inline {name}" for name in ("int 1", "numbers 8", "tensor 1", "tensor 8", "tensors 8", "array 8")),
    *("inline tensor 64", "inline array 64", "inline picture 8", "rows tiny_rows 0", "rows tiny_rows 2"),
    *("processes wide_rows", "processes small_dicts", "photos 2", "state shuffled 2", "resume shuffled 2"),
)
SIDES = ("other", "this")
EPOCHS = 5  # of a side, in each round


# ---------------------------------------------------------------- in a side's process


def _loader(scenario: str, photos: str) -> Iterable:
    """An epoch's batches each time it is iterated over."""
    import millrace

    kind, _, words = scenario.partition(" ")
    if kind == "inline":
        from benchmarks import inline_steps

        return inline_steps.loaders(words, inline_steps.steps_of(words))["millrace"]
    if kind == "rows":
        from benchmarks import in_memory

        name, workers = words.split()
        rows = in_memory.SCENARIOS[name]
        return millrace.DataLoader(
            torch.utils.data.TensorDataset(in_memory.make_data(rows)),
            rows.batch,
            shuffle=True,
            num_workers=int(workers),
            persistent_workers=int(workers) > 0,
            native="require",
        )
    if kind == "processes":
        from benchmarks import python_workers

        make, batches, arguments, _ = python_workers.SCENARIOS[words]
        arguments = {"batch_size": python_workers.BATCH, **arguments}
        return millrace.DataLoader(make(batches), num_workers=2, persistent_workers=True, **arguments)
    from millrace import transforms

    chain = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    folder = millrace.datasets.ImageFolder(photos, chain)
    return millrace.DataLoader(
        folder, 64, shuffle=True, num_workers=int(words), persistent_workers=int(words) > 0, native="require"
    )


def _timed_state(scenario: str) -> Callable[[], dict[str, Any]]:
    from benchmarks import states

    kind, _, words = scenario.partition(" ")
    order, _, workers = words.rpartition(" ")
    loader, iterator = states.stopped(order, int(workers))
    state = loader.state_dict()

    def once() -> None:
        if kind == "state":
            loader.state_dict()
        else:
            resumed = states.make(order, int(workers))
            resumed.load_state_dict(state)
            next(iter(resumed))

    def measured(_iterator: Any = iterator) -> dict[str, Any]:  # which stays where it is
        cpu, started, count = time.process_time(), time.perf_counter(), 200 if kind == "state" else 8
        for _ in range(count):
            once()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu, "batches": count, "others_share": 0.0}

    return measured


def _digest(batches: Iterable) -> str:
    """Of the first batches, in value and type."""
    from benchmarks.python_workers import flat

    torch.manual_seed(0)
    sums = hashlib.sha256()
    with torch.random.fork_rng():
        for part in flat(list(islice(iter(batches), 3))):
            sums.update(repr(part).encode())  # a long tensor's has its ends
            if isinstance(part, torch.Tensor):
                sums.update(part.numpy().tobytes() + str(part.dtype).encode())
    return sums.hexdigest()


def _serve(photos: str, cpus: list[int]) -> None:
    import millrace

    def answer(value: Any) -> None:
        print(json.dumps(value), flush=True)

    answer(millrace.__file__)
    torch.manual_seed(0)  # samples are drawn when their module is imported
    for line in sys.stdin:
        scenario = json.loads(line)
        measured = None
        if scenario.split()[0] in ("state", "resume"):
            measured = _timed_state(scenario)
            answer("")
        else:
            loader = _loader(scenario, photos)
            digest = _digest(loader)
            for _ in loader:  # what an epoch finds behind the first one
                pass
            gc.collect()  # 0.1 s with torch, which would be in one epoch of one side
            answer(digest)

            def measured(loader: Iterable = loader) -> dict[str, Any]:
                return timed_epoch(loader, cpus, lambda _: 1)

        while sys.stdin.readline().strip() == '"again"':
            answer(measured())
        del measured


# ---------------------------------------------------------------- the process that asks


class Side:
    """A process that serves with the millrace of `folder`."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.revisions", "--serve", str(folder), *words],
            env={**os.environ, "PYTHONPATH": f"{folder / 'python'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = Path(self.answer()).resolve()
        if folder.resolve() not in found.parents:
            raise SystemExit(f"{folder} has no millrace that is built: what was imported is {found}")

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a side has ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, words: str) -> Any:
        self.tell(words)
        return self.answer()

    def tell(self, words: str) -> None:
        assert self.process.stdin is not None
        print(json.dumps(words), file=self.process.stdin, flush=True)


def measure(
    scenarios: Sequence[str], folders: dict[str, Path], words: list[str], rounds: int, facts: dict[str, dict]
) -> Iterator[dict]:
    """The records of so many rounds. AssertionError: other batches."""
    for number in range(rounds):
        sides = {name: Side(folder, words) for name, folder in folders.items()}
        try:
            for scenario in scenarios:
                yield from one_round(scenario, sides, number, facts)
        finally:
            for side in sides.values():
                side.process.kill()


def one_round(scenario: str, sides: dict[str, Any], number: int, facts: dict[str, dict]) -> list[dict]:
    digests = {name: side.ask(scenario) for name, side in sides.items()}
    assert len(set(digests.values())) == 1, f"{scenario}: the revisions give other batches"
    records = [
        {"scenario": scenario, "pair": number, "repeat": repeat, "loader": name, **facts[name]}
        | sides[name].ask("again")
        for repeat in range(EPOCHS)
        for name in SIDES[:: -1 if (number + repeat) % 2 else 1]
    ]
    for side in sides.values():
        side.tell("enough")
    others = sum(record["others_share"] * record["seconds"] for record in records)  # in ticks
    quiet = others <= QUIET_SHARE * sum(record["seconds"] for record in records)
    return [{**record, "quiet": quiet} for record in records]


def ratios(records: list[dict], key: str) -> list[float]:
    """this : other of one scenario, round by round: of quiet rounds, if there is one."""
    found: dict[tuple[int, str], list[float]] = {}
    for record in [r for r in records if r["quiet"]] or records:
        found.setdefault((record["pair"], record["loader"]), []).append(record[key] / record["batches"])
    medians = {which: statistics.median(values) for which, values in found.items()}
    pairs = sorted({pair for pair, _ in medians})
    return [medians[pair, "this"] / medians[pair, "other"] for pair in pairs if medians[pair, "other"]]


def row(records: list[dict], scenario: str) -> str:
    cells, mine = [], [record for record in records if record["scenario"] == scenario]
    for key in ("seconds", "cpu_seconds"):
        values = ratios(mine, key)
        low, high = interval(values)
        cells.append(f"{statistics.median(values):.3f} ({low:.3f} - {high:.3f})")
    return f"| {scenario} | {len(values)} | {' | '.join(cells)} |"


def main() -> None:
    parser = options(__doc__, "revisions", 15)
    parser.add_argument("folder", type=Path, help="with the other revision, built")
    parser.add_argument("--scenario", nargs="+", default=list(SCENARIOS))
    parser.add_argument("--photos", default="demo_data/photos", help="class folders of photos")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    cpus = hold_to_cpus(2)
    warnings.simplefilter("ignore")  # of workers beside few CPUs
    if given.serve:
        _serve(given.photos, cpus)
        return
    folders = dict(zip(SIDES, (given.folder.resolve(), ROOT), strict=True))
    facts = {
        name: {**run_facts(("torch", "numpy")), "cpus": len(cpus), "revision": revision(folder)}
        for name, folder in folders.items()
    }
    words = ["--photos", str(Path(given.photos).resolve())]
    records = stored(measure(given.scenario, folders, words, given.rounds, facts), given.out)
    print("| scenario | rounds | seconds, this : other | CPU seconds |\n|---|---:|---:|---:|")
    print(*(row(records, scenario) for scenario in given.scenario), sep="\n")


if __name__ == "__main__":
    main()
