"""Controller: finds the best number of threads and of batches in memory for a training loop, while it runs.

The model. A loader is a pipeline; its consumer takes batches in order. The measure is batches per second as
the consumer sees them, its own step included; the share of time in which it waits shows which side is slower.
- The consumer waits (2 % or more): the loader is the limit. More threads, then more batches in memory, are
  tried; then fewer threads, because threads may also slow down each other, or the consumer.
- The consumer does not wait: the loader is fast enough, and threads that it does not need belong to the
  training loop. Fewer threads are tried, as long as the loop is not slowed down.
A trial compares the setting in force with one other: windows of both, alternating (A B A B A), so that a
drift of the load cancels out. Batches that are in the queue before a change are skipped. A trial ends when
the difference is clear against the noise that neighbouring windows of A show, after four pairs at most, and
after one window that is much worse.

Why it settles: values are doubled or halved, then bisected, between values that lost a trial; a value that
lost, or was left, is not tried again, so a search ends after about 2 log2(threads) + log2(slots) trials. More
must bring 2 %; less must cost no more than 1 %, and 1.5 % in one search altogether. Why it does not
oscillate: another search begins only if the load has changed for three windows in a row (by 10 %, and clearly
against the noise; or the other side is the limit now). The least time between two searches doubles, up to ten
minutes; it returns to five seconds if ten times this time has passed since the last search.

The controller sees only the numbers that note() gets, in seconds; it uses no clock and no thread. Batches do
not depend on any setting, so a wrong decision costs time and nothing else. A copy or a pickle begins with the
setting that was in force.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Literal

from .windows import Bounds, Meter, Noise, Setting, Window

WAITS = 0.02  # share of waiting time; from this on, the loader is the limit
MORE_GAIN = 0.02
LESS_LOSS = 0.01
LESS_LOSS_OF_SEARCH = 0.015
MUCH_WORSE = 0.25
SHIFT = 0.10
MOST_PAIRS = 4
ODD_WINDOWS = 3
CALM = 0.02  # noise of a window; above this, windows get longer
LONGEST_STRETCH = 3.0
FIRST_PATIENCE_SECONDS = 5.0
MOST_PATIENCE_SECONDS = 600.0
MOST_EVENTS = 64
MOST_LEFT_OUT = 8  # batches at an epoch's beginning: short epochs must say something, too

Knob = Literal["threads", "slots"]
Steps = Generator[Setting, Window, Any]


@dataclass
class Bracket:
    """For one knob, the values next to the one in force that were tried and are not wanted."""

    below: int | None = None
    above: int | None = None

    def lower(self, value: int, least: int) -> int | None:
        """The next value to try below `value`; None if there is none."""
        if self.below is None:
            return max(least, value // 2) if value > least else None
        return _between(self.below, value)

    def higher(self, value: int, most: int) -> int | None:
        if self.above is None:
            return min(most, value * 2) if value < most else None
        return _between(value, min(self.above, most + 1))


def _between(low: int, high: int) -> int | None:
    """The middle of two values, unless they are nearly the same."""
    return (low + high) // 2 if high - low > max(1, high // 8) else None


class Controller:
    """`setting` is the setting to apply; note() of each batch, and a change of `bounds`, may change it.

    `start`: the first setting; `settled`: it is known to be good, so it is only watched. `events`: the latest
    64 decisions, as {"at": seconds measured, "threads", "slots", "why"}.
    """

    def __init__(self, bounds: Bounds, start: Setting, settled: bool = False) -> None:
        self._bounds = bounds
        self._base = self.setting = bounds.fit(start)
        self._starts_settled = settled
        self.settled = False
        self.searches = 0
        self.changes = 0
        self.rate = 0.0  # batches per second in force, of the last window
        self.waiting = 0.0  # share of time, of the last window
        self.events: list[dict[str, Any]] = []
        self._begin()

    def _begin(self) -> None:
        self._meter = Meter()
        self._noise = Noise()
        self._patience = FIRST_PATIENCE_SECONDS
        self._searched_at = 0.0
        self._roomier = False  # there are more threads than the last search knew of
        self._event("from the file of tuned settings" if self._starts_settled else "to begin with")
        self._steps: Steps = self._run()
        self._change(next(self._steps))

    @property
    def bounds(self) -> Bounds:
        return self._bounds

    def set_bounds(self, bounds: Bounds) -> None:
        """Apply `bounds` at once: when this returns, the setting in force fits into them."""
        if bounds == self._bounds:
            return
        self._roomier |= self.settled and bounds.threads > self._bounds.threads
        self._bounds = bounds
        base = bounds.fit(self._base)
        if base == self._base:
            self._change(self.setting)  # a trial's setting may not fit
            return
        self._base = base
        self._event("the bounds have changed")
        self._steps = self._run()
        self._change(next(self._steps))

    def restart(self) -> None:
        """An epoch begins with an empty pipeline: the next batches say little."""
        self._meter.leave_out(min(self.setting.slots, MOST_LEFT_OUT))

    def note(self, wait: float, step: float) -> bool:
        """Note a delivered batch: `wait` seconds were spent on it, after `step` seconds of the consumer's.
        Returns whether `setting` has changed.
        """
        window = self._meter.add(wait, step)
        if window is None:
            return False
        return self._change(self._steps.send(window))

    def _change(self, setting: Setting) -> bool:
        setting = self._bounds.fit(setting)
        if setting == self.setting:
            return False
        self._meter.skip(max(self.setting.slots, setting.slots) + 1)
        self.setting = setting
        self.changes += 1
        return True

    def _event(self, why: str) -> None:
        event = {
            "at": round(self._meter.seconds, 3),
            "threads": self._base.threads,
            "slots": self._base.slots,
            "why": why,
        }
        self.events = [*self.events[-(MOST_EVENTS - 1) :], event]

    # ---------------------------------------------------------------- the search: yields a setting, is sent a
    # window of it

    def _run(self) -> Steps:
        last = yield from self._calibrate()
        while True:
            if not self._starts_settled:
                self.settled = False
                self.searches += 1
                self._searched_at = self._meter.seconds
                self._roomier = False
                last = yield from self._search(last)
            self._starts_settled = False
            self.settled = True
            last = yield from self._watch(last)

    def _measure(self) -> Steps:
        """A window of the setting in force."""
        window = yield self._base
        self.rate, self.waiting = window.batches / max(window.seconds, 1e-9), window.waiting
        return window

    def _calibrate(self) -> Steps:
        """Measure until two windows agree, as pipelines start slowly; set windows' length by the noise."""
        last = yield from self._measure()
        for _ in range(6):
            window = yield from self._measure()
            difference = window.level - last.level
            self._noise.add(difference)
            last = window
            if abs(difference) < SHIFT / 2:
                break
        self._meter.stretch = min(LONGEST_STRETCH, max(1.0, (self._noise.spread / CALM) ** 2))
        return last

    def _search(self, last: Window) -> Steps:
        brackets: dict[Knob, Bracket] = {"threads": Bracket(), "slots": Bracket()}
        least_slots = self._base.slots  # to save memory, no fewer than it began with
        lost = 0.0
        shifts = 0
        while (move := self._next_move(brackets, last.waiting, least_slots)) is not None:
            knob, value = move
            now = getattr(self._base, knob)
            candidate = self._bounds.fit(replace(self._base, **{knob: value}))
            bracket = brackets[knob]
            if getattr(candidate, knob) == now:
                setattr(bracket, "above" if value > now else "below", value)
                continue
            wanted = MORE_GAIN if value > now else -max(0.003, min(LESS_LOSS, LESS_LOSS_OF_SEARCH - lost))
            gain, taken, last = yield from self._trial(last, candidate, wanted)
            # the load has changed meanwhile: earlier trials say nothing any more
            if gain is None and shifts < 3:
                shifts += 1
                brackets, lost = {"threads": Bracket(), "slots": Bracket()}, 0.0
                continue
            if not taken:
                setattr(bracket, "above" if value > now else "below", value)
                continue
            setattr(bracket, "below" if value > now else "above", now)
            lost += max(0.0, -(gain or 0.0))
            self._base = candidate
            self._event(f"{(gain or 0.0):+.1%} with {'more' if value > now else 'fewer'} {knob} than {now}")
            last = yield from self._measure()
        return last

    def _next_move(
        self, brackets: dict[Knob, Bracket], waiting: float, least_slots: int
    ) -> tuple[Knob, int] | None:
        base, bounds = self._base, self._bounds
        threads, slots = brackets["threads"], brackets["slots"]
        if waiting >= WAITS:
            moves: list[tuple[Knob, int | None]] = [
                ("threads", threads.higher(base.threads, bounds.threads)),
                ("slots", slots.higher(base.slots, bounds.slots)),
                ("threads", _gently(threads.lower(base.threads, bounds.least_threads), base.threads)),
            ]
        else:
            moves = [
                ("threads", threads.lower(base.threads, bounds.least_threads)),
                ("slots", slots.lower(base.slots, least_slots)),
            ]
        return next(((knob, value) for knob, value in moves if value is not None), None)

    def _trial(self, before: Window, candidate: Setting, wanted: float) -> Steps:
        """(gain, whether to take the candidate, the last window of the setting in force); gain None: the load
        changed during the trial.
        """
        gains: list[float] = []
        while True:
            tried = yield candidate
            if tried.level - before.level < -max(MUCH_WORSE, 4 * self._noise.spread):
                after = yield from self._measure()
                if after.level - before.level < -MUCH_WORSE:
                    return None, False, after
                return tried.level - before.level, False, after
            after = yield from self._measure()
            difference = after.level - before.level
            if abs(difference) > max(2 * SHIFT, 5 * self._noise.spread):
                return None, False, after
            self._noise.add(difference)
            gains.append(tried.level - (before.level + after.level) / 2)
            before = after
            mean = sum(gains) / len(gains)
            error = 1.5 * self._noise.spread * (1.5 / len(gains)) ** 0.5
            if mean - error > wanted:
                return mean, True, after
            if mean + error < wanted or len(gains) >= MOST_PAIRS:
                return mean, mean > wanted, after

    def _watch(self, last: Window) -> Steps:
        """Measure until it is time for another search: the load has changed, or more threads may work."""
        known = [last]
        while len(known) < ODD_WINDOWS:
            known.append((yield from self._measure()))
        usual = sum(window.level for window in known) / len(known)
        waited = sum(window.waiting for window in known) / len(known)
        odd = 0
        while True:
            window = yield from self._measure()
            if self._roomier and window.waiting >= WAITS:
                self._event("more threads may work")
                return window
            changed = abs(window.level - usual) > max(SHIFT, 4 * self._noise.spread)
            turned = window.waiting > 4 * WAITS if waited < WAITS else window.waiting < WAITS / 2
            odd = odd + 1 if changed or turned else 0
            since = self._meter.seconds - self._searched_at
            if odd >= ODD_WINDOWS and since >= self._patience:
                calm = since >= 10 * self._patience
                self._patience = (
                    FIRST_PATIENCE_SECONDS if calm else min(MOST_PATIENCE_SECONDS, 2 * self._patience)
                )
                self._event("the load has changed")
                return window

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_steps"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._steps = self._run()
        self._starts_settled |= self.settled
        self._change(next(self._steps))


def _gently(value: int | None, now: int) -> int | None:
    """A value of at least 3/4 of `now`: if the loader is the limit, a trial with half the threads would cost
    too much, and seldom wins.
    """
    return None if value is None else max(value, min(now - 1, -(-now * 3 // 4)))
