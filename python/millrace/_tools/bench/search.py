"""Which configurations are measured, when and for how long, so that the best is found within the budget.

    warm-up ─▶ grid: workers × method, the better half again for twice as long ─▶ around the best: workers,
    prefetch, pinning ─▶ final: the winner, the next best and torch's best, or its best two, take turns, and
    what they reach there is reported

The halves are taken among millrace's configurations and torch's apart, so both sides are searched alike. Of
configurations that do not differ by more than the noise, the one that asks for least of the machine wins.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from .client import Client, Failed
from .configurations import METHODS, MOST_WORKERS_PER_CPU, Configuration, grid
from .measure import Task
from .options import Options
from .progress import Progress
from .survey import SURVEY_S, survey_text

LEAST_NOISE = 0.02  # configurations closer than this are equal, however quiet the machine
_SHORT_NOISE = 0.05  # as far as short measurements tell
_SHARES = {"grid": 0.40, "around": 0.65, "final": 1.0}  # of the budget, by the end of each phase
_WINDOW_S = (0.25, 2.0, 3.0)  # shortest, longest, longest of the final
_WARM_S = 1.0  # at most, before each window of the final: what is told is how it goes on, not how it begins
_FINALISTS, _TORCHS, _LEAST_REPEATS = 3, 2, 2
_CLOSE = 0.15  # to torch's best: measured again beside it


class DatasetFails(RuntimeError):
    """Samples raise. `found`: what survey() tells."""

    def __init__(self, text: str, found: dict[str, Any]) -> None:
        super().__init__(text)
        self.found = found


class NothingMeasured(RuntimeError):
    """No configuration gave a batch."""


class Search:
    """Fills `records` (each measurement, in order) and `failures`; what it decides is in `winner`,
    `runner_up`, `torch`, `notes`.

    After an exception, Ctrl-C included, they hold what was measured until then.
    """

    def __init__(self, client: Client, options: Options, cpus: int, progress: Progress) -> None:
        self._client, self._options, self._cpus, self._progress = client, options, cpus, progress
        self.facts: dict[str, Any] = {}
        self.records: list[dict[str, Any]] = []
        self.failures: dict[Configuration, str] = {}
        self.notes: list[str] = []
        self.winner: Configuration | None = None
        self.runner_up: Configuration | None = None
        self.torch: Configuration | None = None
        self.tied: list[Configuration] = []
        self._start = time.monotonic()
        self._overhead = 1.0  # seconds that a measurement takes besides its window
        self._surveyed = False
        self._silent = 0  # measurements that gave no answer: the next have less patience
        self._batch_s = 0.0  # what making a batch takes, about, in one worker
        self._short = False  # something was left out for want of time
        self._most_workers: int | None = None

    def run(self) -> None:
        self._progress.phase("loading")
        self._client.start()
        self._start = time.monotonic()
        self._progress.begin()
        self._probe()
        self._check_speed()
        ours, torchs = self._first_grid()
        self._progress.phase("warm-up")
        self._measure(ours[0], self._window(_SHARES["grid"], 2 * len(ours + torchs)), "warm-up")
        self._progress.phase("grid")
        self._halve(ours, torchs)
        self._progress.phase("around the best")
        self._around()
        if self._short:
            self.notes.append(
                f"the budget of {self._options.budget:g} s left something out; a larger one tries more"
            )
        self._final()

    # ------------------------------------------------------------------ phases

    def _probe(self) -> None:
        options = self._options
        try:
            self.facts = facts = self._client.probe(min(1.0, 0.02 * options.budget), options.budget)
        except Failed as failure:
            raise NothingMeasured(_told(failure)) from None
        if self._client.alone_because:
            self.notes.append(f"each measurement loads the dataset anew, since {self._client.alone_because}")
        if facts["failed"] and facts["on_error"] == "raise":
            self._survey()
        if facts["iterable"] and max(options.workers or [2]) > 1:
            self._check_division()

    def _check_speed(self) -> None:
        """NothingMeasured where the first batches alone would take the budget."""
        facts, budget = self.facts, self._options.budget
        if facts["sample_seconds"] is None or not facts["batch_size"]:
            return
        self._batch_s = facts["sample_seconds"] * min(
            facts["batch_size"], facts["length"] or facts["batch_size"]
        )
        if facts["native"]:
            self._batch_s /= self._cpus  # whose threads share a batch
        if self._batch_s > budget / 4:
            raise NothingMeasured(
                f"a sample takes {seconds(facts['sample_seconds'])}, a batch of {facts['batch_size']} about"
                f" {seconds(self._batch_s)}: a budget of {budget:g} s is too short to compare anything; give"
                f" --budget {max(1, round(16 * self._batch_s))}, or a smaller --batch-size"
            )

    def _check_division(self) -> None:
        self._progress.phase("do workers share the stream")
        try:
            if self._client.divides(max(5.0, 0.1 * self._options.budget)):
                return
        except Failed:  # whatever it is, the measurements will meet it
            return
        told = (
            "every worker reads the whole stream: it does not look at get_worker_info(), so samples come once"
            " per worker"
        )
        if self._options.workers:
            self.notes.append(f"{told}; samples/s counts all of them")
        else:
            self._most_workers = 1
            self.notes.append(f"{told}; only 0 and 1 worker were measured")

    def _first_grid(self) -> tuple[list[Configuration], list[Configuration]]:
        facts, options = self.facts, self._options
        possible = (
            ["native"]
            if facts["native_argument"] == "require"
            else [*(["native"] if facts["native"] else []), "process", "thread"]
        )
        methods = [method for method in options.methods or METHODS if method in possible]
        if not methods:
            raise NothingMeasured(
                f"this dataset does not run by method {', '.join(options.methods or ())}:\n{facts['explain']}"
            )
        workers = sorted(set(options.workers)) if options.workers else grid(self._cpus, facts["workers"])
        workers = [number for number in workers if self._most_workers is None or number <= self._most_workers]
        prefetch = (options.prefetch or [facts["prefetch"] or 2])[0]
        pin = options.pin[0] if options.pin else facts["pin"]
        ours = [
            Configuration("millrace", method, number, prefetch, pin)
            for method in methods
            for number in workers
            if number
            or method
            in (
                "native",
                next(m for m in methods if m != "native") if methods != ["native"] else "",
            )
        ]
        torchs = []
        if options.with_torch:
            if facts["on_error"] == "raise":
                torchs = [Configuration("torch", "process", number, prefetch, pin) for number in workers]
            else:
                self.notes.append(
                    f"torch's loader has no on_error={facts['on_error']!r}, so it is not measured"
                )
        # The likely best first: it is the yardstick, and what there is when the budget ends.
        likely = sorted(ours, key=lambda c: (abs(c.workers - self._cpus), METHODS.index(c.method)))
        return likely, sorted(torchs, key=lambda c: abs(c.workers - self._cpus))

    def _halve(self, ours: list[Configuration], torchs: list[Configuration]) -> None:
        share, rungs = _SHARES["grid"], 0
        window: float | None = None
        while True:
            points = _alternating(ours, torchs)
            window = self._window(share if rungs else share / 2, len(points), least=window)
            for configuration in points:
                if (
                    self._left(share) < window + self._overhead
                    and self._any("millrace")
                    and (self._any("torch") or not torchs)
                ):
                    self._cut_short(configuration, not rungs)
                else:
                    self._measure(configuration, window, "grid")
            rungs += 1
            ours, torchs = self._best(ours), self._best(torchs)
            if not ours and not self._any("millrace"):
                raise NothingMeasured(
                    "\n".join(["no configuration gave a batch", *self.notes, *self._told_failures()])
                )
            if (len(ours) <= _FINALISTS and len(torchs) <= _TORCHS) or rungs >= 4 or self._left(share) <= 0:
                return
            ours = ours[: max(_FINALISTS, (len(ours) + 1) // 2)]
            torchs = torchs[: max(_TORCHS, (len(torchs) + 1) // 2)]
            window = min(2 * window, _WINDOW_S[1])

    def _around(self) -> None:
        share = _SHARES["around"]
        window = self._window(share, 8)

        def tried(configuration: Configuration) -> None:
            if configuration not in self._rates() and configuration not in self.failures:
                if self._left(share) < window + self._overhead:
                    self._short = True
                else:
                    self._measure(configuration, window, "around")

        sides = [side for side in ("millrace", "torch") if self._any(side)]
        for side in sides if not self._options.workers and self._most_workers is None else []:
            self._more_workers(side, tried)
            self._between_workers(side, tried)
        for prefetch in self._options.prefetch or ([4, 8] if not self.facts["prefetch"] else [2, 4, 8]):
            for best in [best for side in sides if (best := self._best_of(side)).workers]:
                tried(best.with_(prefetch=prefetch))
        for pin in self._options.pin or ([False, True] if self.facts["accelerator"] else []):
            for side in sides:
                tried(self._best_of(side).with_(pin=pin))

    def _more_workers(self, side: str, tried: Callable[[Configuration], None]) -> None:
        """Twice as many as the best has, as long as that helps: loading that waits for something else than a
        CPU.
        """
        while (best := self._best_of(side)).workers >= self._cpus:
            more = best.with_(workers=2 * best.workers)
            if more.workers > MOST_WORKERS_PER_CPU * self._cpus or more in self._rates():
                return
            tried(more)
            if self._rates().get(more, 0.0) < 1.05 * self._rates()[best]:
                return

    def _between_workers(self, side: str, tried: Callable[[Configuration], None]) -> None:
        """Halfway between the best and its neighbours."""
        best = self._best_of(side)
        known = sorted({c.workers for c in self._rates() if (c.side, c.method) == (best.side, best.method)})
        place = known.index(best.workers)
        for other in known[max(0, place - 1) : place] + known[place + 1 : place + 2]:
            if abs(other - best.workers) > 1 and (other + best.workers) // 2 <= 2 * self._cpus:
                tried(best.with_(workers=(other + best.workers) // 2))

    def _final(self) -> None:
        rates = self._rates()
        best = self._best_of("millrace")
        noise = max(_SHORT_NOISE, self._noise_so_far())
        equal = [c for c, rate in rates.items() if c.side == "millrace" and rate >= (1 - noise) * rates[best]]
        chosen = min(equal, key=Configuration.effort)
        others = sorted((c for c in rates if c.side == "millrace" and c != chosen), key=lambda c: -rates[c])
        # The best so far must lose to, or tie with, the modest one side by side.
        rival = best if chosen != best else next(iter(others), None)
        torchs = self._best([c for c in rates if c.side == "torch"])
        # Measured for short, one may have been lucky.
        torchs = [c for c in torchs if rates[c] >= (1 - _CLOSE) * rates[torchs[0]]][:_TORCHS]
        sides = [c for c in (chosen, rival, *torchs) if c is not None]
        self.winner, self.runner_up, self.torch = chosen, rival, next(iter(torchs), None)
        repeats = self._options.repeats
        self._progress.phase("final")
        whole = self._window(_SHARES["final"], repeats * len(sides), longest=_WINDOW_S[2] + _WARM_S)
        warm = min(_WARM_S, whole / 3)
        window = whole if self._options.seconds is not None else whole - warm
        for repeat in range(repeats):
            if repeat >= _LEAST_REPEATS and self._left(1.0) < len(sides) * (window + warm + self._overhead):
                self.notes.append(f"the budget was enough for {repeat} of {repeats} repeats at the end")
                break
            for configuration in sides[:: -1 if repeat % 2 else 1]:
                self._measure(configuration, window, "final", warm)
        self._decide(chosen, rival)
        finals = {c: statistics.median(values) for c in torchs if (values := self.rates_of(c, "final"))}
        if finals:
            self.torch = min(finals, key=lambda c: (-finals[c], c.effort()))

    def _decide(self, chosen: Configuration, rival: Configuration | None) -> None:
        rates = {c: self.rates_of(c, "final") for c in (chosen, rival) if c is not None}
        if not rates[chosen]:
            if rival is None or not rates[rival]:
                raise NothingMeasured(
                    f"{chosen} failed when it was measured again: {self.failures.get(chosen, '')}"
                )
            self.winner, self.runner_up = rival, None
            return
        if rival is None or not rates[rival]:
            return
        medians = {c: statistics.median(values) for c, values in rates.items()}
        noise = max(LEAST_NOISE, *(spread(values) / 2 for values in rates.values()))
        better = max(medians, key=lambda c: medians[c])
        if medians[better] * (1 - noise) <= min(medians.values()):
            self.tied = sorted(medians, key=Configuration.effort)
            self.winner, self.runner_up = self.tied
        else:
            self.winner, self.runner_up = better, min(medians, key=lambda c: medians[c])

    # ------------------------------------------------------------------ one point

    def _measure(self, configuration: Configuration, window: float, phase: str, warm: float = 0.0) -> None:
        options = self._options
        self._progress.measuring(str(configuration), phase)
        begun = time.monotonic()
        if self._left(1.0) <= 0 and not self.records:
            raise NothingMeasured(
                "\n".join(
                    [
                        (
                            f"no configuration gave enough batches within the budget of {options.budget:g} s;"
                            " a larger one, or smaller batches, may help"
                        ),
                        *self._told_failures(),
                    ]
                )
            )
        step = options.step_seconds + self._batch_s
        usual = 4 * (
            window + warm + self._overhead + step * (options.steps or 2)
        )  # what takes much longer hangs
        limit = max(3.0, min(max(10.0, usual), max(self._left(1.0), 2 * window + 5)) / (1 + self._silent))
        if not self.records:
            limit = min(limit, max(usual, options.budget / 4))  # something must be left for the others
        task = Task(
            options.seconds or window,
            options.steps,
            options.step_seconds,
            options.step_on == "cpu",
            limit,
            warm,
        )
        try:
            record = self._client.measure(configuration, task, self.facts)
        except Failed as failure:
            self.failures[configuration] = _told(failure)
            self._silent += failure.kind == "silent"
            self._progress.measured(str(configuration), None, self._best_text())
            if failure.kind not in ("silent", "died"):
                self._survey()
            return
        spent = time.monotonic() - begun
        self._overhead = 0.5 * self._overhead + 0.5 * max(0.0, spent - window - warm)
        record.update(configuration=configuration, phase=phase)
        self.records.append(record)
        self._progress.measured(str(configuration), record["rate"], self._best_text())

    def _told_failures(self) -> list[str]:
        reasons = set(self.failures.values())
        if len(reasons) == 1:
            return [f"all {len(self.failures)} alike: {reasons.pop()}"]
        return [f"{configuration}: {why}" for configuration, why in self.failures.items()]

    def _survey(self) -> None:
        """After a failure, once: whether it is the dataset's. DatasetFails where it is."""
        if self._surveyed:
            return
        self._surveyed = True
        self._progress.phase("reading samples one by one")
        try:
            found = self._client.survey(min(SURVEY_S, self._options.budget))
        except Failed as failure:
            self.notes.append(f"reading samples one by one failed, too: {_told(failure)}")
            return
        if found["failed"]:
            raise DatasetFails(survey_text(found, self.facts["iterable"]), found)
        self.notes.append(
            f"{found['read']:,} samples were read one by one without an error; what fails is making batches"
            " of them"
        )

    # ------------------------------------------------------------------ what is known

    def rates_of(self, configuration: Configuration, phase: str | None = None) -> list[float]:
        """samples/s of each measurement that counts, or of those of one phase."""
        return [
            r["rate"]
            for r in self.records
            if r["configuration"] == configuration and r["phase"] == (phase or r["phase"]) != "warm-up"
        ]

    def _rates(self) -> dict[Configuration, float]:
        found: dict[Configuration, list[float]] = {}
        for record in self.records:
            if record["phase"] != "warm-up":
                found.setdefault(record["configuration"], []).append(record["rate"])
        return {
            configuration: statistics.median(rates)
            for configuration, rates in found.items()
            if configuration not in self.failures
        }

    def _any(self, side: str) -> bool:
        return any(configuration.side == side for configuration in self._rates())

    def _best(self, of: list[Configuration]) -> list[Configuration]:
        rates = self._rates()
        return sorted((c for c in of if c in rates), key=lambda c: -rates[c])

    def _best_of(self, side: str) -> Configuration:
        rates = self._rates()
        return min((c for c in rates if c.side == side), key=lambda c: (-rates[c], c.effort()))

    def _best_text(self) -> str:
        if not self._any("millrace"):
            return ""
        best = self._best_of("millrace")
        return f"{best}: {self._rates()[best]:,.0f}"

    def _noise_so_far(self) -> float:
        """Half the spread of configurations measured more than once: the median of them."""
        spreads = [spread(rates) / 2 for c in self._rates() if len(rates := self.rates_of(c)) > 1]
        return min(0.10, statistics.median(spreads)) if spreads else 0.0

    # ------------------------------------------------------------------ time

    def _left(self, share: float) -> float:
        return share * self._options.budget - (time.monotonic() - self._start)

    def _window(
        self, share: float, points: int, least: float | None = None, longest: float = _WINDOW_S[1]
    ) -> float:
        """Seconds for each of so many points, so that they end by this share of the budget."""
        if self._options.seconds is not None:
            return self._options.seconds
        fair = self._left(share) / max(1, points) - self._overhead
        return max(_WINDOW_S[0], min(longest, fair), min(least or 0.0, longest))

    def _cut_short(self, configuration: Configuration, never_measured: bool) -> None:
        self._short = True
        if never_measured:
            self.failures.setdefault(configuration, "not measured: the budget was spent")


def seconds(value: float) -> str:
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def spread(values: list[float]) -> float:
    """(highest - lowest) / median."""
    return (max(values) - min(values)) / statistics.median(values)


def _alternating(ours: list[Configuration], torchs: list[Configuration]) -> list[Configuration]:
    longer = max(len(ours), len(torchs))
    return [side[place] for place in range(longer) for side in (ours, torchs) if place < len(side)]


def _told(failure: Failed) -> str:
    """In short: of what a worker process raised its last line, since the trace before it leads through torch
    and millrace.
    """
    text = str(failure)
    if "Original Traceback" in text:
        text = text.strip().splitlines()[-1]
    if "stack expects each tensor to be equal size" in text:
        text += "; samples that differ in size need a collate function: --collate module:function"
    return text + (f" ({failure.where})" if failure.where else "")
