"""BenchResult: the measurements and the best of them, as a table, as arguments to paste, as JSON."""

from __future__ import annotations

import statistics
from typing import Any

from ..report.scales import amount
from ..texts import aligned, count_text
from .configurations import Configuration, Options, plain
from .measurements import spread
from .search import LEAST_NOISE, Search

_PHASES = ("final", "around", "grid")  # the best that a configuration has been measured in counts

_RESTLESS = 0.10  # noise that is worth a word


HEAD = ["configuration", "samples/s", "spread", "waits", "first batch", "CPU s/1,000", "memory"]


class Row:
    """One configuration's numbers: medians over its measurements of the best phase. `rates`: each of them,
    samples/s.
    """

    def __init__(self, configuration: Configuration, records: list[dict[str, Any]]) -> None:
        phases = {record["phase"] for record in records}
        phase = next(name for name in _PHASES if name in phases)
        kept = [record for record in records if record["phase"] == phase]
        self.configuration, self.phase, self.records = configuration, phase, kept
        self.rates = [record["rate"] for record in kept]
        self.rate = statistics.median(self.rates)
        self.low, self.high = min(self.rates), max(self.rates)
        self.noise = max(LEAST_NOISE, spread(self.rates) / 2)
        self.wait_share = statistics.median(r["wait_seconds"] / r["seconds"] for r in kept)
        self.first_seconds = statistics.median(r["first_seconds"] for r in records)
        samples = sum(r["samples"] for r in kept)
        self.cpu_per_1000 = 1000 * sum(r["cpu_seconds"] for r in kept) / max(1, samples)
        self.memory_bytes = max(r["memory_bytes"] for r in records)
        self.epochs = sum(r["epochs"] for r in kept)

    def to_json(self) -> dict[str, Any]:
        c = self.configuration
        return {
            "side": c.side,
            "method": c.method,
            "num_workers": c.workers,
            "prefetch_factor": c.prefetch,
            "pin_memory": c.pin,
            "phase": self.phase,
            "repeats": len(self.rates),
            "samples_per_second": self.rate,
            "low": self.low,
            "high": self.high,
            "rates": self.rates,
            "wait_share": self.wait_share,
            "first_batch_seconds": self.first_seconds,
            "cpu_seconds_per_1000": self.cpu_per_1000,
            "memory_bytes": self.memory_bytes,
            "engine": self.records[-1]["engine"],
        }


class BenchResult:
    """The result of `millrace.bench()`.

    Attributes:
        best_arguments: for `DataLoader(dataset, **best_arguments)`; {} when it was stopped. Of a dataset that
            was named it has the plain values.
        best_line: the arguments to paste; names the objects, too.
        rate: samples/s that they reached at the end, the median of `repeats`.
        noise: the rate's relative half-width, at least 0.02.
        speedup: over torch's loader at its best, which took turns with it; None without.
        notes: other facts worth knowing.
        stopped: by Ctrl-C, before it was through.
    """

    def __init__(
        self,
        name: str,
        options: Options,
        search: Search,
        best_arguments: dict[str, Any] | None = None,
        best_line: str = "",
        stopped: bool = False,
    ) -> None:
        self.name, self.stopped, self.facts = name, stopped, dict(search.facts)
        self.step_seconds, self.step_on, self.budget = options.step_seconds, options.step_on, options.budget
        counted = [record for record in search.records if record["phase"] != "warm-up"]
        configurations = dict.fromkeys(record["configuration"] for record in counted)
        rows = [Row(c, [r for r in counted if r["configuration"] == c]) for c in configurations]
        self.rows = sorted(rows, key=lambda row: -row.rate)
        self.failures = {c: why for c, why in search.failures.items() if c not in configurations}
        self.best, self.torch, self.runner_up = (
            next((row for row in self.rows if row.configuration == chosen), None)
            or next((row for row in self.rows if row.configuration.side == side), None)
            for chosen, side in ((search.winner, "millrace"), (search.torch, "torch"), (search.runner_up, ""))
        )
        # Others seem to beat it that were measured once, or for less long.
        self.rows.sort(key=lambda row: row is not self.best)
        self.tied, self.notes = list(search.tied), list(search.notes)
        self.best_arguments, self.best_line = best_arguments or {}, best_line
        if search.records and search.records[-1]["left_out"]:
            worst = max(search.records, key=lambda record: record["left_out"])
            errors = "".join(f"\n  index {error['index']}: {error['reason']}" for error in worst["errors"])
            left_out = f"on_error left out {worst['left_out']:,} samples of one measurement:{errors}"
            self.notes.append(left_out)

    @property
    def rate(self) -> float | None:
        return None if self.best is None else self.best.rate

    @property
    def noise(self) -> float | None:
        return None if self.best is None else self.best.noise

    @property
    def speedup(self) -> float | None:
        """The rate over torch's; where both took turns the median of the rounds' ratios."""
        best, torch = self.best, self.torch
        if best is None or torch is None:
            return None
        if best.phase != "final" or torch.phase != "final":
            return best.rate / torch.rate
        return statistics.median(ours / theirs for ours, theirs in zip(best.rates, torch.rates))

    def table(self) -> str:
        """Every configuration, the fastest first, in plain text."""
        marks = {id(self.torch): "<- torch's best", id(self.best): "<- best"}
        lines = [[*HEAD, ""], *([*cells(row), marks.get(id(row), "")] for row in self.rows)]
        if not self.step_seconds:  # the loop always waits
            lines = [[cell for i, cell in enumerate(line) if HEAD[i : i + 1] != ["waits"]] for line in lines]
        failures = [f"{configuration}: {why}" for configuration, why in self.failures.items()]
        return "\n".join([*aligned(lines, right=range(1, len(HEAD))), *failures])

    def text(self) -> str:
        """The table under a line that says of what, the best, and the arguments."""
        parts = [self.title(), "", self.table(), ""]
        if self.stopped:
            parts.append("stopped: this is what was measured until then")
        parts += self.remarks()
        if self.best_line:
            parts += ["", "from millrace import DataLoader", self.best_line]
        return "\n".join(parts).encode("utf-8", "backslashreplace").decode()

    def title(self) -> str:
        """What was measured, in a line."""
        facts = self.facts
        length = "" if facts.get("length") is None else f", {facts['length']:,} samples"
        batches = f", batches of {facts['batch_size']}" if facts.get("batch_size") else ""
        step = "no step: as fast as batches can be had"
        if self.step_seconds:
            how = "busy on one CPU" if self.step_on == "cpu" else "asleep"
            step = f"a step of {1000 * self.step_seconds:g} ms, {how}"
        return f"{self.name}: {facts.get('type', '')}{length}{batches}; {step}"

    def remarks(self) -> list[str]:
        """The best in words, and what else is worth knowing."""
        best = self.best
        if best is None:
            return self.notes
        ending = " at the end" if best.phase == "final" else ""
        certain = (
            f"{count_text(best.low)} to {count_text(best.high)} in {len(best.rates)} measurements{ending}; "
            f"again within {100 * best.noise:.0f} %"
        )
        lines = [
            f"best: {best.configuration}: {count_text(best.rate)} samples/s"
            f" ({certain if len(best.rates) > 1 else 'measured once'})"
        ]
        if self.torch is not None and self.speedup is not None:
            theirs = self.torch
            lines.append(
                f"{self.speedup:.2f} x torch's loader at its best ({theirs.configuration}:"
                f" {count_text(theirs.rate)} samples/s)"
            )
        if self.tied:
            other = next(c for c in self.tied if c != best.configuration)
            lines.append(
                f"{other} is no faster beyond the noise; of equals, the one with fewer workers and shorter"
                " queues is taken"
            )
        if best.noise > _RESTLESS:
            lines.append(
                f"measurements differ by ±{100 * best.noise:.0f} %: something else is busy here, or the"
                " dataset is uneven; a larger budget, or a quieter hour, tells more"
            )
        if best.configuration.workers and best.epochs > len(best.records) and not self.facts["persistent"]:
            lines.append(
                "workers are started anew for each epoch, which counts here: persistent_workers=True keeps"
                " them"
            )
        return lines + self.notes

    def to_json(self) -> dict[str, Any]:
        """The result as a dict, in JSON's types only."""
        best = self.best
        return {
            "version": 1,
            "target": self.name,
            "dataset": self.facts,
            "stopped": self.stopped,
            "budget_seconds": self.budget,
            "step_seconds": self.step_seconds,
            "step_on": self.step_on,
            "configurations": [row.to_json() for row in self.rows],
            "failures": {str(c): why for c, why in self.failures.items()},
            "best": (
                None
                if best is None
                else {
                    **best.to_json(),
                    "noise": best.noise,
                    "line": self.best_line,
                    "arguments": plain(self.best_arguments),
                }
            ),
            "torch": None if self.torch is None else self.torch.to_json(),
            "speedup": self.speedup,
            "runner_up": None if self.runner_up is None else self.runner_up.to_json(),
            "tied": [str(c) for c in self.tied],
            "notes": self.notes,
        }


def cells(row: Row) -> list[str]:
    """The cells under HEAD."""
    return [
        str(row.configuration),
        count_text(row.rate),
        f"±{50 * spread(row.rates):.1f} %" if len(row.rates) > 1 else "",
        f"{100 * row.wait_share:.0f} %",
        amount(row.first_seconds, "s"),
        f"{row.cpu_per_1000:.3g}",
        f"{row.memory_bytes / 1e6:,.0f} MB",
    ]
