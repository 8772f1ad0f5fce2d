"""What comes of following advice, beside what was foretold: loaders with a known fault, measured, changed as
advised, measured again.

    python -m benchmarks.advice [--rounds 3] [--case WORD ...] [--out benchmarks/results/advice/NAME.jsonl]

Cases that sleep are those of tests/python/advice_cases.py; here are those that compute, and so need a machine
that does nothing else. Each repeat is one line of JSON: samples per second `before`, `foretold` by the first
suggestion (of the run before), and `after`.
"""

from __future__ import annotations

import datetime
import statistics
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import millrace
import torch

from benchmarks.harness import run_facts
from benchmarks.runs import options, stored

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

from advice_cases import CASES, Case, followed  # noqa: E402
from millrace import transforms  # noqa: E402
from pictures import make_jpeg_folder  # noqa: E402


class Computes(torch.utils.data.Dataset):
    """`kilo` thousand additions per sample, in Python, so that threads take turns; or a product of matrices,
    which needs no lock.
    """

    def __init__(self, length: int, kilo: int, holds_the_lock: bool = True) -> None:
        self.length, self.kilo, self.holds_the_lock = length, kilo, holds_the_lock

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if self.holds_the_lock:
            return sum(number for number in range(self.kilo * 1000)) + index
        matrix = torch.full((16 * self.kilo, 16 * self.kilo), 0.5)
        return (matrix @ matrix)[0, 0] + index


def cases(folder: str, scale: float) -> list[Case]:
    """Those that compute: in Python and natively, with too few workers or none, or workers of the wrong
    kind.
    """
    count = int(400 * scale)
    pictures = millrace.datasets.ImageFolder(
        folder, transform=transforms.Compose([transforms.Resize((64, 64)), transforms.ToTensor()])
    )
    pictures.samples = pictures.samples * max(1, int(40 * scale))
    return [
        Case("Python, no workers", Computes(count, 100), {}, 0.002, "num_workers"),
        Case("Python, one process of two", Computes(count, 100), {"num_workers": 1}, 0.0, "num_workers"),
        Case(
            "Python, threads that take turns",
            Computes(count, 100),
            {"num_workers": 2, "worker_method": "thread"},
            0.0,
            "worker_method",
        ),
        Case(
            "products of matrices, one thread of two",
            Computes(count, 16, False),
            {"num_workers": 1, "worker_method": "thread"},
            0.0,
            "num_workers",
        ),
        Case("pictures, native, no threads", pictures, {"native": "require"}, 0.001, "num_workers"),
        Case(
            "pictures, native, one thread of two",
            pictures,
            {"native": "require", "num_workers": 1},
            0.0,
            "num_workers",
        ),
        Case(
            "pictures, in Python, one process of two",
            pictures,
            {"native": "never", "num_workers": 1},
            0.0,
            "num_workers",
        ),
    ]


def measure(chosen: list[Case], rounds: int) -> Iterator[dict[str, Any]]:
    common = {**run_facts(("torch",)), "millrace": millrace.__version__}
    for repeat in range(rounds):
        for case in chosen:
            before, foretold, after, suggestion = followed(case)
            yield {
                **common,
                "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "case": case.name,
                "repeat": repeat,
                "suggestion": None if suggestion is None else suggestion.code,
                "as_expected": (
                    case.changes in suggestion.arguments if suggestion is not None else not case.changes
                ),
                "before": before,
                "foretold": foretold,
                "after": after,
            }


def table(records: list[dict[str, Any]]) -> str:
    """Medians over the repeats; `off`: by how much what came differs from what was foretold."""
    lines = ["| case | suggestion | before | foretold | after | off |", "|---|---|--:|--:|--:|--:|"]
    right = 0
    names = dict.fromkeys(record["case"] for record in records)
    for name in names:
        own = [record for record in records if record["case"] == name]
        before, foretold, after = (
            statistics.median(record[key] for record in own) for key in ("before", "foretold", "after")
        )
        off = statistics.median(record["after"] / record["foretold"] - 1 for record in own)
        right += abs(off) <= 0.2 and all(record["as_expected"] for record in own)
        code = (own[0]["suggestion"] or "nothing to gain").partition("  #")[0]
        lines.append(f"| {name} | `{code}` | {before:,.0f} | {foretold:,.0f} | {after:,.0f} | {off:+.0%} |")
    return "\n".join([*lines, "", f"{right} of {len(names)} within 20 %"])


def main() -> None:
    parser = options(__doc__, "advice", 3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the epochs that compute")
    parser.add_argument("--case", nargs="+", help="words of which a case's name has one")
    arguments = parser.parse_args()
    warnings.simplefilter(
        "ignore", UserWarning
    )  # more workers than CPUs, which is what sleeping ones are told to be
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        all_cases = [
            *cases(make_jpeg_folder(Path(folder) / "pictures", size=(400, 300)), arguments.scale),
            *CASES,
        ]
        chosen = [
            case
            for case in all_cases
            if not arguments.case or any(word in case.name for word in arguments.case)
        ]
        records = stored(measure(chosen, arguments.rounds), arguments.out)
    print(table(records))


if __name__ == "__main__":
    main()
