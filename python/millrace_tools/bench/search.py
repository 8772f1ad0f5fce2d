"""Which configurations are measured, when and for how long, so that the best is found within the budget.

    warm-up ─▶ grid: workers × method, the better half again for twice as long ─▶ around the best: workers,
    prefetch, pinning ─▶ final: the winner, the next best and torch's best, or its best two, take turns, and
    what they reach there is reported

The halves are taken among millrace's configurations and torch's apart, so both sides are searched alike. Of
configurations that do not differ by more than the noise, the one that asks for least of the machine wins.
"""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import replace

from ..report.scales import amount
from .client import Client, Failed
from .configurations import METHODS, MOST_WORKERS_PER_CPU, Configuration, Options, grid
from .measurements import DatasetFails, Measurements, NothingMeasured, Progress, described, spread

__all__ = ["DatasetFails", "NothingMeasured", "Search"]

LEAST_NOISE = 0.02  # configurations closer than this are equal, however quiet the machine
_SHORT_NOISE, _MOST_NOISE = 0.05, 0.10  # as far as short measurements tell
_GRID, _AROUND, _FINAL = 0.40, 0.65, 1.0  # shares of the budget, by the end of each phase
_WINDOW_S = (0.25, 2.0, 3.0)  # shortest, longest, longest of the final
_WARM_S = 1.0  # at most, before each window of the final: the result is the steady rate, not the start
_FINALISTS, _TORCHS, _LEAST_REPEATS, _MOST_RUNGS = 3, 2, 2, 4
_CLOSE = 0.15  # to torch's best: measured again beside it
_HELPS = 1.05  # what twice the workers must give


class Search(Measurements):
    """Decides which points are measured; results are in `winner`, `runner_up`, `torch`, `tied`, `notes`.

    After an exception, Ctrl-C included, they hold what was known until then.
    """

    def __init__(self, client: Client, options: Options, cpus: int, progress: Progress) -> None:
        super().__init__(client, options, progress)
        self._cpus = cpus
        self.winner: Configuration | None = None
        self.runner_up: Configuration | None = None
        self.torch: Configuration | None = None
        self.tied: list[Configuration] = []
        self._short = False  # something was left out for want of time
        self._most_workers: int | None = None

    def run(self) -> None:
        self._begin("loading", lasting=True)
        self.client.start()
        self.progress.start = time.monotonic()  # the budget counts from now
        self._probe()
        self._check_speed()
        ours, torchs = self._first_grid()
        self.measure(ours[0], self._window(_GRID, 2 * len(ours + torchs)), "warm-up")
        self._halve(ours, torchs)
        self._around()
        if self._short:
            self.notes.append(
                f"the budget of {self.options.budget:g} s left something out; a larger one tries more"
            )
        self._final()

    def _begin(self, phase: str, lasting: bool = False) -> None:
        self.progress.phase = phase
        self.progress.say(phase, lasting)

    def _probe(self) -> None:
        options = self.options
        try:
            self.facts = facts = self.client.ask("probe", options.budget, min(1.0, 0.02 * options.budget))
        except Failed as failure:
            raise NothingMeasured(described(failure)) from None
        if self.client.alone_because:
            self.notes.append(f"each measurement loads the dataset anew, since {self.client.alone_because}")
        if facts["failed"] and facts["on_error"] == "raise":
            self.survey()
        if facts["iterable"] and max(options.workers or [2]) > 1:
            self._check_division()

    def _check_speed(self) -> None:
        """NothingMeasured where the first batches alone would take the budget."""
        facts, budget = self.facts, self.options.budget
        sample_s, batch_size = facts["sample_seconds"], facts["batch_size"]
        if sample_s is None or not batch_size:
            return
        self.batch_s = sample_s * min(batch_size, facts["length"] or batch_size)
        if facts["native"]:
            self.batch_s /= self._cpus  # its threads share a batch
        if self.batch_s > budget / 4:
            raise NothingMeasured(
                f"a sample takes {amount(sample_s, 's')}, a batch of {batch_size} about"
                f" {amount(self.batch_s, 's')}: a budget of {budget:g} s is too short to compare anything;"
                f" give --budget {max(1, round(16 * self.batch_s))}, or a smaller --batch-size"
            )

    def _check_division(self) -> None:
        self._begin("do workers share the stream", lasting=True)
        try:
            divides = self.client.ask("divides", max(5.0, 0.1 * self.options.budget))
        except Failed:  # whatever it is, the measurements will meet it
            return
        if not divides:
            self._most_workers = None if self.options.workers else 1
            counted = "samples/s counts all of them" if self.options.workers else ""
            self.notes.append(
                "every worker reads the whole stream: it does not look at get_worker_info(), so samples come"
                f" once per worker; {counted or 'only 0 and 1 worker were measured'}"
            )

    def _first_grid(self) -> tuple[list[Configuration], list[Configuration]]:
        facts, options = self.facts, self.options
        possible = ["native"] if facts["native"] or facts["native_argument"] == "require" else []
        if facts["native_argument"] != "require":
            possible += ["process", "thread"]
        methods = [method for method in options.methods or METHODS if method in possible]
        if not methods:
            raise NothingMeasured(
                f"this dataset does not run by method {', '.join(options.methods or ())}:\n{facts['explain']}"
            )
        workers = sorted(set(options.workers or grid(self._cpus, facts["workers"])))
        workers = [number for number in workers if self._most_workers is None or number <= self._most_workers]
        prefetch = (options.prefetch or [facts["prefetch"] or 2])[0]
        pin = options.pin[0] if options.pin else facts["pin"]
        # Without workers, Python's methods are all one.
        inline = ["native", *[method for method in methods if method != "native"][:1]]
        ours = [
            Configuration("millrace", method, number, prefetch, pin)
            for method in methods
            for number in workers
            if number or method in inline
        ]
        torchs = [
            Configuration("torch", "process", number, prefetch, pin)
            for number in workers
            if options.with_torch
        ]
        if facts["on_error"] != "raise":
            if options.with_torch:
                text = f"torch's loader has no on_error={facts['on_error']!r}, so it is not measured"
                self.notes.append(text)
            torchs = []
        # The likely best first: it is the yardstick, and what there is when the budget ends.
        likely = sorted(ours, key=lambda c: (abs(c.workers - self._cpus), METHODS.index(c.method)))
        return likely, sorted(torchs, key=lambda c: abs(c.workers - self._cpus))

    def _halve(self, ours: list[Configuration], torchs: list[Configuration]) -> None:
        self._begin("grid")
        window = 0.0
        for rung in range(_MOST_RUNGS):
            turns = itertools.zip_longest(ours, torchs)
            points = [configuration for turn in turns for configuration in turn if configuration]
            window = self._window(_GRID if rung else _GRID / 2, len(points), least=window)
            for configuration in points:
                both = self.ranking("millrace") and (self.ranking("torch") or not torchs)
                if both and not self._time_for(window, _GRID):
                    if not rung:
                        self.failures.setdefault(configuration, "not measured: the budget was spent")
                else:
                    self.measure(configuration, window, "grid")
            ours, torchs = ([c for c in self.ranking() if c in side] for side in (ours, torchs))
            if not self.ranking("millrace"):
                self.nothing_measured("no configuration gave a batch", *self.notes)
            if (len(ours) <= _FINALISTS and len(torchs) <= _TORCHS) or self.left(_GRID) <= 0:
                return
            ours = ours[: max(_FINALISTS, (len(ours) + 1) // 2)]
            torchs = torchs[: max(_TORCHS, (len(torchs) + 1) // 2)]
            window = min(2 * window, _WINDOW_S[1])

    def _around(self) -> None:
        self._begin("around the best")
        options, window = self.options, self._window(_AROUND, 8)
        sides = [side for side in ("millrace", "torch") if self.ranking(side)]
        if not options.workers and self._most_workers is None:
            for side in sides:
                self._more_workers(side, window)
                self._between_workers(side, window)
        for prefetch in options.prefetch or ([4, 8] if not self.facts["prefetch"] else [2, 4, 8]):
            for best in [self.ranking(side)[0] for side in sides]:
                if best.workers:
                    self._try(replace(best, prefetch=prefetch), window)
        for pin in options.pin or ([False, True] if self.facts["accelerator"] else []):
            for side in sides:
                self._try(replace(self.ranking(side)[0], pin=pin), window)

    def _try(self, configuration: Configuration, window: float) -> None:
        """Measures it, once, while there is time for it."""
        if configuration not in self.rates() and configuration not in self.failures:
            if self._time_for(window, _AROUND):
                self.measure(configuration, window, "around")

    def _more_workers(self, side: str, window: float) -> None:
        """Twice as many as the best has, as long as that helps: loading that waits for something else than a
        CPU.
        """
        while (best := self.ranking(side)[0]).workers >= self._cpus:
            more = replace(best, workers=2 * best.workers)
            if more.workers > MOST_WORKERS_PER_CPU * self._cpus or more in self.rates():
                return
            self._try(more, window)
            if self.rates().get(more, 0.0) < _HELPS * self.rates()[best]:
                return

    def _between_workers(self, side: str, window: float) -> None:
        """Halfway between the best and its neighbours."""
        best = self.ranking(side)[0]
        known = sorted({c.workers for c in self.rates() if (c.side, c.method) == (best.side, best.method)})
        at = known.index(best.workers)
        for other in known[max(0, at - 1) : at] + known[at + 1 : at + 2]:
            if abs(other - best.workers) > 1 and (other + best.workers) // 2 <= 2 * self._cpus:
                self._try(replace(best, workers=(other + best.workers) // 2), window)

    def _final(self) -> None:
        self._begin("final")
        rates, ours, torchs = self.rates(), self.ranking("millrace"), self.ranking("torch")
        # half the spread of configurations that were measured more than once
        noises = [spread(several) / 2 for c in rates if len(several := self.rates_of(c)) > 1]
        noise = min(_MOST_NOISE, max(_SHORT_NOISE, statistics.median(noises or [0.0])))
        best = ours[0]
        chosen = min((c for c in ours if rates[c] >= (1 - noise) * rates[best]), key=Configuration.effort)
        # The best so far must lose to, or tie with, the modest one side by side.
        rival = best if chosen != best else next(iter(ours[1:]), None)
        # Measured for short, one may have been lucky.
        torchs = [c for c in torchs if rates[c] >= (1 - _CLOSE) * rates[torchs[0]]][:_TORCHS]
        sides = [c for c in (chosen, rival, *torchs) if c is not None]
        self.winner, self.runner_up, self.torch = chosen, rival, next(iter(torchs), None)
        repeats = self.options.repeats
        whole = self._window(_FINAL, repeats * len(sides), longest=_WINDOW_S[2] + _WARM_S)
        warm = min(_WARM_S, whole / 3)
        window = whole if self.options.seconds is not None else whole - warm
        for repeat in range(repeats):
            needed = len(sides) * (window + warm + self.overhead)
            if repeat >= _LEAST_REPEATS and self.left(_FINAL) < needed:
                self.notes.append(f"the budget was enough for {repeat} of {repeats} repeats at the end")
                break
            for configuration in sides[:: -1 if repeat % 2 else 1]:
                self.measure(configuration, window, "final", warm)
        finals = {c: values for c in sides if (values := self.rates_of(c, "final"))}
        self._decide(chosen, rival, finals)
        medians = {c: statistics.median(finals[c]) for c in torchs if c in finals}
        if medians:
            self.torch = min(medians, key=lambda c: (-medians[c], c.effort()))

    def _decide(
        self,
        chosen: Configuration,
        rival: Configuration | None,
        finals: dict[Configuration, list[float]],
    ) -> None:
        """Between those two, by their rates in the final."""
        both = {c: finals[c] for c in (chosen, rival) if c in finals}
        if not both:
            why = self.failures.get(chosen, "")
            raise NothingMeasured(f"{chosen} failed when it was measured again: {why}")
        medians = {c: statistics.median(values) for c, values in both.items()}
        noise = max(LEAST_NOISE, *(spread(values) / 2 for values in both.values()))
        order = sorted(both, key=lambda c: -medians[c])
        if len(order) == 2 and medians[order[0]] * (1 - noise) <= medians[order[1]]:
            order = self.tied = sorted(both, key=Configuration.effort)
        self.winner = order[0]
        if chosen not in both or len(order) == 2:
            self.runner_up = next(iter(order[1:]), None)

    def _time_for(self, window: float, share: float) -> bool:
        enough = self.left(share) >= window + self.overhead
        self._short = self._short or not enough
        return enough

    def _window(self, share: float, points: int, least: float = 0.0, longest: float = _WINDOW_S[1]) -> float:
        """Seconds for each of so many points, so that they end by this share of the budget."""
        if self.options.seconds is not None:
            return self.options.seconds
        fair = self.left(share) / max(1, points) - self.overhead
        return max(_WINDOW_S[0], min(longest, fair), min(least, longest))
