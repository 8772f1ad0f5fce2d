"""Tuning of one loader, over all its iterators: the settings to choose, the budget, the controller, and the
file that remembers; and which settings of a loader can be tuned, from its arguments and its plan.

Life. Until the first batch has come, all threads work on as few batches as possible (two, or one more than
threads if each thread makes whole batches), because a batch's memory is not known yet. Then its bytes bound
the batches in memory, and the controller begins, with the file's setting, if there is one. Each larger batch
tightens the bound at once. Only the consumer's thread uses a Tuning. It holds no engine longer than an
iterator does; a copy of a loader takes the results along.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ... import _core
from ..._common.batch_tree import leaves
from ..._common.torch_private import _DatasetKind
from ..arguments import Auto, checked_memory
from ..engine import Engine, RunRecord, batch_memory
from .budget import LOOK_BATCHES, LOOK_SECONDS, Budget, CpuUse, slots_within
from .controller import Controller
from .tune_file import description, read_choice, tune_path, write_choice
from .windows import Bounds, Setting

_logger = logging.getLogger("millrace.tuning")

_MEASURED_FIRST = 16  # so many first batches are all measured; after them every sixteenth

Apply = Callable[[int, int], None]  # threads, slots


@dataclass(frozen=True)
class Room:
    """The settings that an engine allows: `workers` threads or processes, with CPUs for `cpus` of them;
    `rows` of a batch that they share; at most `slots` batches.
    """

    workers: int
    cpus: int
    slots: int
    usual_slots: int
    slots_per_thread: int  # if slots are not tuned: each thread less than `workers` needs so many less
    rows: int
    tunes_threads: bool
    tunes_slots: bool
    pinned: bool

    def slots_of(self, setting: Setting) -> int:
        """The slots in force with `setting`."""
        return (
            setting.slots
            if self.tunes_slots
            else self.usual_slots - self.slots_per_thread * (self.workers - setting.threads)
        )

    def bounds(self, budget: Budget, batch_bytes: int | None, threads: int) -> Bounds:
        """The bounds of settings, with at most `threads` at work, if that can be set."""
        least, most = (1, threads) if self.tunes_threads else (self.workers, self.workers)
        if not self.tunes_slots:
            return Bounds(most, self.usual_slots, least, self.usual_slots, self.rows)
        slots = slots_within(budget.batch_bytes(self.pinned), batch_bytes, self.slots)
        return Bounds(most, slots, least, 2, self.rows)


class Tuning:
    """`room` and `budget` bound the settings; `what`: description() of the pipeline; `path`: the file, or
    None.
    """

    def __init__(self, room: Room, budget: Budget, what: dict[str, Any], path: Path | None) -> None:
        self.room, self.budget, self.what, self.path = room, budget, what, path
        self.batch_bytes: int | None = None  # of the largest batch so far
        self.controller: Controller | None = None
        self._known = None if path is None else read_choice(path, what)
        self.from_file = self._known is not None
        self._kept = self._known
        self.cpu_use = CpuUse(
            budget.cpus, room.cpus, room.workers, 0 if self._known is None else self._known.threads
        )
        self._readings: Callable[[], list[Any]] | None = None
        self._look_at, self._look_behind = 0.0, 0
        self._notified = False
        self._batches = 0
        self._apply: Apply | None = None
        self._owner = 0
        self._left: float | None = None

    @property
    def setting(self) -> Setting:
        """The setting in force."""
        if self.controller is not None:
            return self.controller.setting
        bounds = self._bounds(None)
        return bounds.fit(
            Setting(bounds.threads, bounds.least_slots if self.room.tunes_slots else self.room.usual_slots)
        )

    def _bounds(self, batch_bytes: int | None) -> Bounds:
        return self.room.bounds(self.budget, batch_bytes, self.cpu_use.allowed)

    @property
    def peak_bytes(self) -> int:
        """The most bytes that batches in memory may take: within the budget, if two batches fit into it."""
        bytes_ = self.budget.batch_bytes(self.room.pinned)
        if self.batch_bytes is None:
            return bytes_
        return self._bounds(self.batch_bytes).slots * self.batch_bytes

    def opened(self, engine: Engine, owner: RunRecord) -> None:
        """Set the limits of this engine until ended() with the same owner."""
        if engine.set_limits is None:
            return
        self._apply, self._owner, self._left = engine.set_limits, id(owner), None
        self._readings = None
        if (
            self.room.tunes_threads
            and self.room.cpus < self.room.workers
            and _core.StageClock.enabled
            and owner.profiler is not None
        ):
            self._readings = owner.profiler.readings
            self.cpu_use.restart()
        self._put_in_force()

    def delivered(self, batch: Any, asked: float | None) -> None:
        """Note a delivered batch. `asked`: the time of the call of next(). None: an error came instead; then
        the time until the next batch does not count as the training loop's.
        """
        left, self._left = self._left, None
        if asked is None:
            return
        now = self._left = time.perf_counter()
        if self._batches < _MEASURED_FIRST or self._batches % 16 == 0:
            self._measure(batch)
        self._batches += 1
        controller = self.controller
        if controller is None:
            return
        if left is None:  # the first batch of an epoch, or after an error
            controller.restart()
            return
        if self._readings is not None and now >= self._look_at and self._batches >= self._look_behind:
            self._look_at, self._look_behind = (
                now + LOOK_SECONDS,
                self._batches + LOOK_BATCHES * self.cpu_use.allowed,
            )
            if self.cpu_use.look(now, self._readings()):
                controller.set_bounds(self._bounds(self.batch_bytes))
                self._put_in_force()
        if controller.note(now - asked, asked - left):
            self._put_in_force()
        if controller.settled and controller.setting != self._kept:
            self._keep()

    def ended(self, owner: RunRecord) -> None:
        if self._owner == id(owner):
            self._apply = self._readings = None

    def _put_in_force(self) -> None:
        if self._apply is not None:
            setting = self.setting
            self._apply(setting.threads, self.room.slots_of(setting))

    def _measure(self, batch: Any) -> None:
        taken = sum(leaf.nbytes for leaf in leaves(batch, []) if isinstance(leaf, torch.Tensor))
        if self.batch_bytes is not None and taken <= self.batch_bytes:
            return
        self.batch_bytes = taken
        bytes_ = self.budget.batch_bytes(self.room.pinned)
        if self.budget.explicit and self.room.tunes_slots and 2 * taken > bytes_:
            raise ValueError(
                f"memory_budget leaves {bytes_} bytes for this rank's"
                f" {'page-locked ' if self.room.pinned else ''}batches, but two of them take {2 * taken}:"
                f" give at least that ({self.budget.ranks} ranks share it), or use a smaller batch_size"
            )
        bounds = self._bounds(taken)
        if self.controller is None:
            start = self._known or Setting(self.room.cpus, self.room.usual_slots)
            self.controller = Controller(bounds, start, settled=self._known is not None)
        else:
            self.controller.set_bounds(bounds)
        self._put_in_force()

    def _keep(self) -> None:
        controller = self.controller
        assert controller is not None
        self._kept = controller.setting
        if not self._notified:
            self._notified = True
            _logger.debug("tuned: %s", self.sentence())
        if self.path is not None and os.environ.get("LOCAL_RANK", "0") in ("", "0"):
            if not write_choice(self.path, self.what, controller.setting, self.batch_bytes, controller.rate):
                self.path = None

    def sentence(self) -> str:
        """For explain()."""
        room, setting = self.room, self.setting
        name = "threads" if self.what["engine"] == "threads" else "worker processes"
        parts = [
            f"{setting.threads} of {room.workers} {name}" if room.tunes_threads else f"{room.workers} {name}"
        ]
        if room.tunes_slots:
            most = self._bounds(self.batch_bytes).slots if self.batch_bytes is not None else room.slots
            parts.append(
                f"{setting.slots} of {most} batches in memory, which take {_size(self.peak_bytes)} at most"
            )
        state = (
            "to begin with"
            if self.controller is None
            else "found"
            if self.controller.settled
            else "searching"
        )
        source = ", from the file of tuned settings" if self.from_file and self.controller is None else ""
        held = _size(self.budget.batch_bytes(room.pinned))
        kind = "page-locked memory" if room.pinned else "memory"
        ranks = f", for each of {self.budget.ranks} ranks" if self.budget.ranks > 1 else ""
        return (
            f"{', '.join(parts)} ({state}{source}; budget: {self.budget.threads} CPUs, {held} of"
            f" {kind}{ranks})"
        )

    def report(self) -> dict[str, Any]:
        """stats()["tuned"]: JSON's types."""
        setting, controller = self.setting, self.controller
        return {
            "threads": setting.threads,
            "slots": self.room.slots_of(setting),
            "most_threads": self._bounds(self.batch_bytes).threads,
            "cpus_used": round(self.cpu_use.used, 3),
            "tunes": [
                name
                for name, on in (("threads", self.room.tunes_threads), ("slots", self.room.tunes_slots))
                if on
            ],
            "settled": controller is not None and controller.settled,
            "searches": 0 if controller is None else controller.searches,
            "changes": 0 if controller is None else controller.changes,
            "rate": 0.0 if controller is None else controller.rate,
            "waiting": 0.0 if controller is None else controller.waiting,
            "batch_bytes": self.batch_bytes,
            "peak_bytes": self.peak_bytes,
            "budget": self.budget.as_dict(),
            "from_file": self.from_file,
            "file": None if self.path is None else str(self.path),
            "events": [] if controller is None else list(controller.events),
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_apply": None, "_readings": None, "_left": None}


def _size(bytes_: int) -> str:
    return f"{bytes_ / 2**20:,.0f} MiB" if bytes_ >= 10 * 2**20 else f"{bytes_ / 2**10:,.0f} KiB"


_MOST_SLOTS = 64


def tuning_of(loader: Any, plan: Any, engine: str) -> Tuning | None:
    """The Tuning for an iterator that runs `plan` on `engine`: the loader's own, if it fits; None if nothing
    can be "auto".
    """
    room = _room(loader, plan.spec, engine)
    if room is None:
        return None
    what, path = description(loader, engine, plan.spec is not None), tune_path(loader.tune_file)
    old: Tuning | None = loader._millrace_tuning
    if old is not None and (old.room, old.what) == (room, what):
        return old
    return Tuning(room, Budget.of_machine(checked_memory(loader.memory_budget)), what, path)


def tuning_lines(loader: Any, plan: Any, engine: str) -> list[str]:
    """The lines of explain() for a loader with an "auto" argument."""
    tuning = tuning_of(loader, plan, engine)
    return [
        f"tuning: {'fixed — ' + _why_not(loader, plan.spec, engine) if tuning is None else tuning.sentence()}"
    ]


def _why_not(loader: Any, spec: Any, engine: str) -> str:
    if engine == "inline":
        return "without workers there is nothing to choose"
    if spec is not None:
        return "the device's decoder and the threads share the work by decode="
    if loader.on_error == "skip":
        return 'on_error="skip" asks for batches anew, and in which order must not depend on speed'
    return "in_order=False hands out what is ready first"


def _room(loader: Any, spec: Any, engine: str) -> Room | None:
    workers = loader.num_workers
    if engine == "inline":
        return None
    batch_size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 1
    cpus = min(int(workers), _core.cpu_budget()["threads"]) if isinstance(workers, Auto) else int(workers)
    lists = workers * (loader.prefetch_factor or 2)
    tunes_slots = isinstance(loader.prefetch_factor, Auto)
    if spec is None:
        if loader.on_error == "skip" or not loader.in_order:
            return None
        usual, most, rows = (2 * cpus if tunes_slots else lists) + 1, lists + 1, 1
        per_thread = lists // workers
    else:
        if spec.place is not None:
            return None
        all_slots, fewer = (spec.usual_slots(number, loader.batch_size) for number in (workers, cpus))
        usual = fewer if tunes_slots else all_slots
        grows = spec.shares_batches and loader._dataset_kind == _DatasetKind.Map
        most = min(_MOST_SLOTS, max(lists, all_slots)) if grows else all_slots
        rows = batch_size if spec.shares_batches else 1
        per_thread = (all_slots - fewer) // max(1, workers - cpus)
    counts = spec is not None or loader._dataset_kind == _DatasetKind.Map
    return Room(
        workers=int(workers),
        cpus=cpus,
        slots=int(most),
        usual_slots=int(usual),
        slots_per_thread=int(per_thread),
        rows=int(rows),
        tunes_threads=isinstance(workers, Auto) and counts,
        tunes_slots=tunes_slots,
        pinned=batch_memory(loader) != "system",
    )
