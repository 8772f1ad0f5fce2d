"""The C++ library against the Python package and against torch::data, with the same data.

    python -m benchmarks.cpp_library [--scenario photos rows ...] [--rounds 15] [--out FILE.jsonl]

photos: files to batches of 128 float pictures [3, 224, 224], random crops. rows: batches of 256 rows of 16
floats, of a million in memory. tokens: batches of 16 windows of 2,048 + 1 ids, of a mapped file. shards: the
photos in tar shards of 100, read from front to back, through a shuffle buffer of 1,000; torch::data reads no
tars. All are shuffled. Each side is a process that holds its loader and runs an epoch when told, the sides
taking turns in alternating direction; `name_2` works with two threads beside its loop, `name_0` in it. The
C++ sides are in benchmarks/cpp, built against what build/dev installs.

Before anything is timed, the library's first epoch has the Python package's batches, byte for byte; those of
torch::data, which draws its own order and crops, have the same rows, or, for photos, the same mean and
deviation. Each repeat is one line of JSON.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks import probes
from benchmarks.compare import rates_table
from benchmarks.harness import ROOT, SideFailed, SideProcess, quiet_rounds, run_facts
from benchmarks.runs import options, run_scenarios
from benchmarks.scenarios.imagenet import list_samples
from benchmarks.scenarios.tars import PER_SHARD, write_shards

BUILD = ROOT / "build" / "benchmarks_cpp"
THREADS = 2, 0
SIDES = {  # scenario: the words of each side
    "photos": {"library": ["photos"], "python": ["photos"], "torch_data": ["photos"]},
    "rows": {
        "library": ["rows"],
        "python": ["rows"],
        "torch_data": ["rows"],
        "torch_data_indexed": ["rows_indexed"],
    },
    "tokens": {"library": ["tokens"], "python": ["tokens"], "torch_data": ["tokens"]},
    "shards": {"library": ["shards"], "python": ["shards"]},
}


def build_sides() -> Path:
    """Installs what build/dev has, and builds benchmarks/cpp with it; the folder of the programs."""
    import torch

    prefixes = f"{BUILD}/prefix;{torch.utils.cmake_prefix_path}"
    for command in (
        ["cmake", "--install", ROOT / "build/dev", "--prefix", BUILD / "prefix"],
        ["cmake", "-S", ROOT / "benchmarks/cpp", "-B", BUILD, f"-DCMAKE_PREFIX_PATH={prefixes}"],
        ["cmake", "--build", BUILD, "--parallel"],
    ):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            raise SideFailed(f"{command[:2]}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return BUILD


def make_data(scenario: str, folder: str, rows: int) -> str:
    """A million rows of floats, or a file of ids that 16 bits with a sign can hold; photos: the demo's, and
    their shards.
    """
    if scenario in ("photos", "shards"):
        from examples.make_photos import make_photos

        photos = str(make_photos(ROOT / "demo_data" / "photos", 3000))
        return photos if scenario == "photos" else shards_of_photos(photos, folder)
    path, random = f"{folder}/{scenario}.bin", np.random.default_rng(0)
    if scenario == "rows":
        random.random((rows, 16), dtype=np.float32).tofile(path)
    else:
        random.integers(0, 32_000, rows * 128, dtype=np.uint16).tofile(path)
    return path


def shards_of_photos(photos: str, folder: str) -> str:
    """The pattern of the shards."""
    pictures = [Path(path).read_bytes() for path, _ in list_samples(photos)]
    shards = Path(folder) / "shards"
    count = len(write_shards(shards, pictures, PER_SHARD))
    return f"{shards}/shard-{{0000..{count - 1:04}}}.tar"


class Program(SideProcess):
    """A process of benchmarks/cpp, or cpp_python_side.py."""

    def __init__(self, name: str, command: list[str]) -> None:
        self._start(name, command)
        self.answer()

    def timed(self, command: str, cpus: list[int]) -> dict:
        """Its answer, with the CPU seconds that it took (the other sides wait, and so does this process) and
        the share of `cpus` that others took.
        """
        timer = probes.Epoch(cpus)
        answer = self.ask(command)
        return {**timer.stop(), **answer}


def commands(scenario: str, path: str, programs: Path) -> dict[str, list[str]]:
    """The command of each side."""
    made = {}
    for side, words in SIDES[scenario].items():
        for threads in THREADS:
            program = {
                "library": [str(programs / "library_side")],
                "python": [sys.executable, "-m", "benchmarks.cpp_python_side"],
            }.get(side, [str(programs / "torch_data_side")])
            made[f"{side}_{threads}"] = [*program, *words, path, str(threads)]
    return made


def check(scenario: str, name: str, seen: dict, right: dict) -> None:
    """Raises AssertionError unless `seen` holds what the Python package's epoch holds."""
    assert (seen["rows"], seen["batches"]) == (right["rows"], right["batches"]), f"{name}: another epoch"
    if name.startswith(("library", "python")):
        assert seen["content"] == right["content"], f"{name}: other batches than the Python package's"
    elif scenario != "photos":
        assert seen["row_content"] == right["row_content"], f"{name}: other rows"
        assert seen["content"] != right["content"], f"{name}: not shuffled"
    else:
        for number in "mean", "std":
            assert abs(seen[number] - right[number]) < 0.03, f"{name}: {number} {seen[number]}"


def measure(scenario: str, rounds: int, cpus: list[int], rows: int = 1_000_000) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    common = {"scenario": scenario, "cpus": len(cpus), **run_facts(("torch", "torchvision"))}
    with ExitStack() as stack:
        path = make_data(scenario, stack.enter_context(tempfile.TemporaryDirectory()), rows)
        sides = {
            name: stack.enter_context(Program(name, command))
            for name, command in commands(scenario, path, build_sides()).items()
        }
        contents = {name: side.timed("check", cpus) for name, side in sides.items()}
        for name, seen in contents.items():
            check(scenario, name, seen, contents["python_2"])

        def one_round(repeat: int) -> list[dict]:
            return [
                {**common, "loader": name, "kind": "epoch", "repeat": repeat, **told}
                for name in list(sides)[:: -1 if repeat % 2 else 1]
                for told in [sides[name].timed("epoch", cpus)]
            ]

        for record in quiet_rounds(rounds, one_round):
            yield {**record, "rows_per_s": record["rows"] / record["seconds"]}


def table(records: list[dict]) -> str:
    return rates_table(
        records,
        "rows_per_s",
        "samples/s",
        {
            "CPU s per 1,000,000": (lambda r: r["cpu_seconds"] / r["rows"] * 1e6, ",.2f"),
            "first batch, ms": (lambda r: r["first_s"] * 1e3, ".1f"),
        },
        best="library",
    )


def main() -> None:
    parser = options(__doc__, "cpp_library", 15, SIDES)
    arguments = parser.parse_args()
    run_scenarios(
        arguments.scenario, arguments.out, lambda name, cpus: measure(name, arguments.rounds, cpus), table
    )


if __name__ == "__main__":
    main()
