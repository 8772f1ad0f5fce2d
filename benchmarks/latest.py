"""The latest stored results: of a benchmark's scenario, the records of its last run, on whichever machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare import interval, read_results

RESULTS = Path(__file__).resolve().parent / "results"
Value = Callable[[dict], float]


def rate_of(record: dict) -> float:
    return next(
        value for key, value in record.items() if key.endswith("_per_s") and not key.startswith("memcpy")
    )


@dataclass
class Run:
    """The quiet records of the last run of a scenario, or all where none was quiet, and their file."""

    records: list[dict]
    file: Path

    @property
    def machine(self) -> str:
        return self.file.stem

    @property
    def link(self) -> str:
        """From a page of docs."""
        return f"../benchmarks/results/{self.file.relative_to(RESULTS).as_posix()}"

    @property
    def revision(self) -> str:
        return self.records[0]["revision"]

    def of(self, loader: str) -> list[dict]:
        """In the order of the rounds."""
        return sorted(
            (r for r in self.records if r["loader"] == loader),
            key=lambda r: r.get("pair", r.get("repeat", 0)),
        )

    def median(self, loader: str, value: Value = rate_of) -> float:
        return statistics.median(map(value, self.of(loader)))

    def fastest(self, begins: str | tuple[str, ...], value: Value = rate_of) -> str:
        """The loader with the highest median of those whose names begin so."""
        names = {r["loader"] for r in self.records if r["loader"].startswith(begins)}
        if not names:
            raise ValueError(f"{self.file} has no {begins}")
        return max(sorted(names), key=lambda name: self.median(name, value))

    def factors(self, ours: str = "millrace", theirs: str = "torch", value: Value = rate_of) -> list[float]:
        """The value of `ours` over that of `theirs`, for each round that both have."""
        number = "pair" if "pair" in self.records[0] else "repeat"
        other = {r[number]: value(r) for r in self.of(theirs)}
        return [value(r) / other[r[number]] for r in self.of(ours) if r[number] in other]

    def factor(self, ours: str = "millrace", theirs: str = "torch", value: Value = rate_of) -> float:
        return statistics.median(self.factors(ours, theirs, value))


def told(values: list[float], form: str = ".1f", unit: str = " x", dash: str = "-") -> str:
    """Their median, and the 95 % interval of it."""
    low, high = interval(values)
    return f"{statistics.median(values):{form}}{unit} ({low:{form}} {dash} {high:{form}})"


def latest(folder: str, scenario: str | None = None, *, quiet: bool = True, **fields: object) -> Run:
    """Of results/`folder`, or of the files beside the folders where it is "". `fields` are what records must
    have; without `kind` those of checks, first batches and memory are left out.
    """
    found: list[tuple[str, Path, list[dict]]] = []
    for path in sorted((RESULTS / folder).glob("*.jsonl")):
        records = [
            r
            for r in read_results(path)
            if not r.get("warmup")
            and (scenario is None or r["scenario"] == scenario)
            and all(r.get(key) == value for key, value in fields.items())
            and ("kind" in fields or r.get("kind") in (None, "epoch", "python_workers", "worker_start"))
        ]
        if records:
            last = max(r.get("run") or "" for r in records)
            found.append((last, path, [r for r in records if (r.get("run") or "") == last]))
    if not found:
        raise ValueError(f"results/{folder} has nothing of {scenario}")
    _, path, records = max(found, key=lambda each: each[0])
    calm = [r for r in records if r.get("quiet", True)] if quiet else records
    return Run(calm or records, path)
