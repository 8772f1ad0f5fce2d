"""The measurements so far, and one more measurement within the budget; on stderr, the best one so far: a bar
in a terminal, else a line for each measurement.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any, NoReturn

from ..texts import StatusLine, bar
from .client import Client, Failed
from .configurations import Configuration, Options
from .measure import Task
from .survey import SURVEY_S, survey_text


class Progress(StatusLine):
    """`budget`: seconds that all takes, about. `phase`: what the next measurements are for; `best`: so far,
    in words, "" before there is one.
    """

    def __init__(self, budget: float = 0.0, quiet: bool = True) -> None:
        super().__init__(quiet)
        self._budget, self._quiet = budget, quiet
        self.start, self.phase, self.best = time.monotonic(), "", ""

    def say(self, text: str, lasting: bool = True) -> None:
        """Shows progress: in a terminal a bar, until the next text; else a line, if the text is `lasting`."""
        elapsed, best = time.monotonic() - self.start, f"; best so far {self.best}" if self.best else ""
        if self.is_shown:
            self.show(f"{bar(elapsed / self._budget)} {text}{best}")
        elif lasting and not self._quiet:
            print(f"[{elapsed:4.0f} s of {self._budget:.0f}] {text}{best}", file=sys.stderr, flush=True)


class DatasetFails(RuntimeError):
    """Samples raise. `found`: what survey() tells."""

    def __init__(self, text: str, found: dict[str, Any]) -> None:
        super().__init__(text)
        self.found = found


class NothingMeasured(RuntimeError):
    """No configuration gave a batch."""


class Measurements:
    """`records` (each measurement, in order), `failures` and `notes`, filled by measure(). Times are in
    seconds.
    """

    def __init__(self, client: Client, options: Options, progress: Progress) -> None:
        self.client, self.options, self.progress = client, options, progress
        self.facts: dict[str, Any] = {}
        self.records: list[dict[str, Any]] = []
        self.failures: dict[Configuration, str] = {}
        self.notes: list[str] = []
        self.overhead = 1.0  # that a measurement takes besides its window
        self.batch_s = 0.0  # what making a batch takes, about, in one worker
        self._surveyed = False
        self._silent = 0  # measurements that gave no answer: the next have less patience

    def left(self, share: float) -> float:
        """Seconds until this share of the budget is spent."""
        return share * self.options.budget - (time.monotonic() - self.progress.start)

    def measure(self, configuration: Configuration, window: float, phase: str, warm: float = 0.0) -> None:
        """For `window` seconds, after `warm`; what comes of it is in `records` or in `failures`."""
        options, name, begun = self.options, str(configuration), time.monotonic()
        self.progress.say(f"{self.progress.phase}: {name}", lasting=False)
        if self.left(1.0) <= 0 and not self.records:
            self.nothing_measured(
                f"no configuration gave enough batches within the budget of {options.budget:g} s;"
                " a larger one, or smaller batches, may help"
            )
        step = options.step_seconds + self.batch_s
        # What takes much longer than usual hangs.
        usual = 4 * (window + warm + self.overhead + step * (options.steps or 2))
        limit = max(3.0, min(max(10.0, usual), max(self.left(1.0), 2 * window + 5)) / (1 + self._silent))
        if not self.records:
            limit = min(limit, max(usual, options.budget / 4))  # something must be left for the others
        seconds, busy = options.seconds or window, options.step_on == "cpu"
        task = Task(seconds, options.steps, options.step_seconds, busy, limit, warm)
        try:
            record = self.client.ask("measure", 1.25 * limit + 2, configuration, task, self.facts)
        except Failed as failure:
            self.failures[configuration] = described(failure)
            self._silent += failure.kind == "silent"
            self.progress.say(f"{self.progress.phase}: {name}: failed")
            if failure.kind not in ("silent", "died"):
                self.survey()
            return
        spent = time.monotonic() - begun
        self.overhead = 0.5 * self.overhead + 0.5 * max(0.0, spent - window - warm)
        record.update(configuration=configuration, phase=phase)
        self.records.append(record)
        best = next(iter(self.ranking("millrace")), None)
        self.progress.best = f"{best}: {self.rates()[best]:,.0f} samples/s" if best else ""
        self.progress.say(f"{self.progress.phase}: {name}: {record['rate']:,.0f} samples/s")

    def survey(self) -> None:
        """After a failure, once: whether it is the dataset's. DatasetFails where it is."""
        if self._surveyed:
            return
        self._surveyed = True
        self.progress.say("reading samples one by one")
        try:
            seconds = min(SURVEY_S, self.options.budget)
            found = self.client.ask("survey", 2 * seconds + 10, seconds)
        except Failed as failure:
            self.notes.append(f"reading samples one by one failed, too: {described(failure)}")
            return
        if found["failed"]:
            raise DatasetFails(survey_text(found, self.facts["iterable"]), found)
        self.notes.append(
            f"{found['read']:,} samples were read one by one without an error; what fails is making batches"
            " of them"
        )

    def nothing_measured(self, *why: str) -> NoReturn:
        """Raises it, with all failures."""
        reasons = set(self.failures.values())
        failures = [f"{configuration}: {reason}" for configuration, reason in self.failures.items()]
        if len(reasons) == 1:
            failures = [f"all {len(failures)} alike: {reasons.pop()}"]
        raise NothingMeasured("\n".join([*why, *failures]))

    def rates_of(self, configuration: Configuration, phase: str | None = None) -> list[float]:
        """samples/s of each measurement that counts, or of those of one phase."""
        return [
            r["rate"]
            for r in self.records
            if r["configuration"] == configuration and r["phase"] == (phase or r["phase"]) != "warm-up"
        ]

    def rates(self) -> dict[Configuration, float]:
        """The median of each that never failed."""
        measured = dict.fromkeys(r["configuration"] for r in self.records if r["phase"] != "warm-up")
        return {c: statistics.median(self.rates_of(c)) for c in measured if c not in self.failures}

    def ranking(self, side: str | None = None) -> list[Configuration]:
        """Those that were measured, of one side or of both, the best first."""
        rates = self.rates()
        found = [c for c in rates if side in (None, c.side)]
        return sorted(found, key=lambda c: (-rates[c], c.effort()))


def spread(values: list[float]) -> float:
    """(highest - lowest) / median."""
    return (max(values) - min(values)) / statistics.median(values)


def described(failure: Failed) -> str:
    """In short: of what a worker process raised its last line, since the trace before it leads through torch
    and millrace.
    """
    text = str(failure)
    if "Original Traceback" in text:
        text = text.strip().splitlines()[-1]
    if "stack expects each tensor to be equal size" in text:
        text += "; samples that differ in size need a collate function: --collate module:function"
    return text + (f" ({failure.where})" if failure.where else "")
