"""Whether the arguments that `millrace bench` ends with reach the number it told, measured anew.

    python -m benchmarks.bench_reproduces [--scenario photos pillow rows] [--rounds 3] [--photos 1000] [--out
    FILE.jsonl]

Each round of a scenario runs `python -m millrace bench` on its dataset as a user does, then measures a loader
with the pasted arguments in a fresh process, by a loop of this file that shares no code with the command:
epoch after epoch, without its first seconds. A round reproduces the number when both differ by at most 5 %,
or by the noise that the command itself stated. Each round is one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ("photos", "pillow", "rows")
TOLERANCE = 0.05
_FOLDER = "MILLRACE_BENCH_FOLDER"  # tells the processes of the command where the data lie


class Pillow(Dataset):
    """A dataset as people write them: open, resize, to a tensor."""

    def __init__(self, folder: str) -> None:
        self.paths = sorted(str(path) for path in Path(folder).glob("*/*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        with Image.open(self.paths[index]) as picture:
            pixels = np.array(picture.convert("RGB").resize((128, 128)))
        return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255, index


class Rows(Dataset):
    """Rows of a mapped file, each with a little of Python's work."""

    def __init__(self, path: str) -> None:
        self.rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, float]:
        row = np.array(self.rows[index])
        return torch.from_numpy((row - row.mean()) / (row.std() + 1e-6)), float(sum(map(float, row[:64])))


def photos() -> Dataset:
    from millrace import transforms
    from millrace.datasets import ImageFolder

    return ImageFolder(
        os.path.join(os.environ[_FOLDER], "photos"),
        transforms.Compose(
            [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
        ),
    )


def pillow() -> Dataset:
    return Pillow(os.path.join(os.environ[_FOLDER], "photos"))


def rows() -> Dataset:
    return Rows(os.path.join(os.environ[_FOLDER], "rows.npy"))


def make_data(folder: str, count: int) -> None:
    from examples.make_photos import make_photos

    make_photos(os.path.join(folder, "photos"), count)
    path = os.path.join(folder, "rows.npy")
    if not os.path.exists(path):
        np.save(path, np.random.default_rng(0).standard_normal((20_000, 1024), dtype=np.float32))


def fresh(scenario: str, arguments: dict[str, Any], windows: int, seconds: float) -> list[float]:
    """samples/s of each window, behind the first seconds."""
    import millrace

    torch.manual_seed(0)
    loader = millrace.DataLoader(globals()[scenario](), **arguments)
    rates: list[float] = []
    samples, begin = 0, time.perf_counter()
    warm = True
    while True:
        for batch in loader:
            samples += len(batch[0])
            if (now := time.perf_counter()) - begin < (1.0 if warm else seconds):
                continue
            if not warm:
                rates.append(samples / (now - begin))
            warm, samples, begin = False, 0, now
            if len(rates) == windows:
                return rates


def ask(words: list[str], folder: str) -> Any:
    paths = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, _FOLDER: folder, "PYTHONPATH": paths},
    )
    return json.loads(done.stdout)


def measure(scenario: str, folder: str, budget: float, windows: int, seconds: float) -> dict[str, Any]:
    """One round."""
    words = [
        f"benchmarks.bench_reproduces:{scenario}",
        "--shuffle",
        "--batch-size",
        "64",
        "--budget",
        str(budget),
        "--json",
    ]
    told = ask(["millrace", "bench", *words], folder)
    best = told["best"]
    words = [
        "--fresh",
        scenario,
        "--arguments",
        json.dumps(best["arguments"]),
        "--windows",
        str(windows),
        "--seconds",
        str(seconds),
    ]
    again = ask(["benchmarks.bench_reproduces", *words], folder)
    rate = statistics.median(again)
    off = rate / best["samples_per_second"] - 1
    return {
        "scenario": scenario,
        "arguments": best["arguments"],
        "told": best["samples_per_second"],
        "told_rates": best["rates"],
        "noise": best["noise"],
        "fresh": rate,
        "fresh_rates": again,
        "off": off,
        "reproduced": abs(off) <= max(TOLERANCE, best["noise"]),
        "within_5_percent": abs(off) <= TOLERANCE,
        "speedup": told["speedup"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenario", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--folder", default=os.path.join(tempfile.gettempdir(), "millrace_bench_reproduces"))
    parser.add_argument("--budget", type=float, default=90)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--fresh", choices=SCENARIOS, help=argparse.SUPPRESS)
    parser.add_argument("--arguments", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fresh:
        print(json.dumps(fresh(given.fresh, given.arguments, given.windows, given.seconds)))
        return 0

    from benchmarks.harness import run_facts

    make_data(given.folder, given.photos)
    facts = run_facts()
    wrong = 0
    for number in range(given.rounds):
        for scenario in given.scenario:
            record = {
                **facts,
                "repeat": number,
                **measure(scenario, given.folder, given.budget, given.windows, given.seconds),
            }
            wrong += not record["reproduced"]
            print(
                f"{scenario}: told {record['told']:,.0f} (±{record['noise']:.1%}), anew"
                f" {record['fresh']:,.0f} samples/s, {record['off']:+.1%}:"
                f" {'reproduced' if record['reproduced'] else 'NOT reproduced'}; {record['arguments']}",
                flush=True,
            )
            if given.out:
                with open(given.out, "a") as file:
                    file.write(json.dumps(record) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
