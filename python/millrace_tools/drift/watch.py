"""watch(): a loader that also looks at its batches while they are used.

The loop's thread only hands tensors over (20 us per batch that is looked at, 0.2 us per other one); a native
thread samples their numbers without the GIL, then lets go of them. At most two batches wait for that thread:
when it lags, batches are passed over.
"""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, TypeVar, Union

import torch
from millrace import _core
from millrace._common.batch_tree import Around

from .alarms import DriftAlarm, DriftError, DriftWarning, alarm_of
from .fields import DriftOptions, Field, fields_of
from .profile import DriftProfile, Path, chosen

T_co = TypeVar("T_co", covariant=True)
OnDrift = Union[Literal["warn", "raise"], Callable[[DriftAlarm], Any], None]

_MOST_EVERY = 1024
_NO_STATS = {"batches": 0, "examined": 0, "dropped": 0, "every": [], "seconds": 0.0, "handing_seconds": 0.0}
_DEVICE_ROWS = 32  # of a batch on a device that are copied back


def watch(
    loader: Iterable[T_co], reference: DriftProfile | Path | None = None, on_drift: OnDrift = "warn",
    options: DriftOptions | None = None,
) -> WatchedLoader[T_co]:  # fmt: skip
    """Return `loader` with statistics of the batches that it hands out, and alarms when they no longer match
    `reference`.

    Batches on a device are looked at before they are copied there, if the loader is millrace's and makes them
    on the host; of others 32 samples are copied back without waiting for them.

    Args:
        loader: a millrace.DataLoader, torch's, or anything that gives batches of tensors, arrays, texts in
            any nesting.
        reference: a DriftProfile or a file of one (`millrace profile`, or `watch(loader)` over good data and
            `.profile().save()`). None: only statistics.
        on_drift: "warn" (a DriftWarning), "raise" (a DriftError out of `next()`, which loses no batch), or a
            function of the DriftAlarm, called in the loop's thread. None: alarms are only kept, in `.alarms`.
        options: which batches are looked at, how closely, and which changes are no drift; see `DriftOptions`.

    Raises:
        ValueError: at the first batch, if the reference is of other fields.
    """
    if on_drift not in ("warn", "raise", None) and not callable(on_drift):
        raise ValueError(f'on_drift={on_drift!r} is neither "warn" nor "raise", and no function')
    if reference is not None and not isinstance(reference, DriftProfile):
        reference = DriftProfile.load(reference)
    return WatchedLoader(loader, reference, on_drift, options or DriftOptions())


class WatchedLoader(Generic[T_co]):
    """The result of `watch()`: iterated like the loader, and with its attributes, beside these.

    One thread at a time iterates. A pickle or a forked process has statistics of its own.

    Attributes:
        alarms: all DriftAlarms so far.
    """

    def __init__(
        self,
        loader: Iterable[T_co],
        reference: DriftProfile | None,
        on_drift: OnDrift,
        options: DriftOptions,
    ) -> None:
        self.loader = loader
        self.reference, self.on_drift, self.options = reference, on_drift, options
        self._watch: _Watch | None = None

    def __iter__(self) -> Iterator[T_co]:
        if self._watch is None or self._watch.process != os.getpid():
            self._watch = _Watch(self.reference, self.on_drift, self.options)
        watch = self._watch
        watch.new_epoch = True
        tapped = getattr(type(self.loader), "_tapped", None)
        return (
            tapped(self.loader, lambda batches: _Watching(batches, watch))
            if tapped
            else _Watching(iter(self.loader), watch)
        )

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_watch": None}

    @property
    def alarms(self) -> list[DriftAlarm]:
        return [] if self._watch is None else list(self._watch.alarms)

    def profile(self) -> DriftProfile:
        """Return the profile of the batches that have been seen so far.

        Raises:
            ValueError: if no batch has been looked at yet.
        """
        if self._watch is None or self._watch.steps == 0:
            raise ValueError("no batch has been looked at yet: iterate over the loader first")
        return self._watch.profile()

    def drift_stats(self) -> dict[str, Any]:
        """Return counts of the watch.

        Returns:
            batches: handed out.
            examined: looked at.
            dropped: passed over because the thread lagged.
            every: [batch, every] from when on each so-manieth was looked at.
            seconds: CPU time of the looking thread.
            handing_seconds: time that the loop's thread spent.
        """
        return dict(_NO_STATS) if self._watch is None else self._watch.stats()


class _Watching(Around):
    """One pass over the batches of a loader."""

    def __init__(self, batches: Iterator[Any], watch: _Watch) -> None:
        super().__init__(batches)
        self._watch = watch
        self._kept: list[Any] = []  # a batch for which an error was raised

    def __next__(self) -> Any:
        if self._kept:
            return self._kept.pop()
        try:
            batch = next(self._batches)
        except StopIteration:
            self._watch.end_epoch()
            raise
        watch = self._watch
        watch.steps = step = watch.steps + 1
        if step > watch.next:
            try:
                watch.look_at(batch, step - 1)
            except Exception:
                self._kept.append(batch)
                raise
        return batch


class _Watch:
    """The statistics of all passes, and which batches are looked at: those from `next` on that divide by
    `every`.
    """

    def __init__(self, reference: DriftProfile | None, on_drift: OnDrift, options: DriftOptions) -> None:
        self.process = os.getpid()
        self._reference = None if reference is None else reference.to_dict()["fields"]
        if self._reference is not None and options.fields is not None:
            self._reference = {
                name: field for name, field in self._reference.items() if name in options.fields
            }
        self._on_drift, self._options = on_drift, options
        native = None if reference is None else reference._native
        self._examiner = _core.DriftExaminer(
            native, 2, options.rows, options.values, options.false_alarms, options.least
        )
        # its thread lets go of tensors, for which it needs the interpreter
        self._end = weakref.finalize(self, self._examiner.close)
        self.steps = 0
        self.next = 0
        self.new_epoch = True
        self.alarms: list[DriftAlarm] = []
        self._every = 1 if options.every == "auto" else options.every
        self._changes = [[0, self._every]]
        self._checked = False
        self._on_device: tuple[int, bool, list[Field], Any] | None = None
        self._handing = 0.0
        self._begun: tuple[int, float] | None = (
            None  # (step, time) of the second batch: the first one's wait is the start's
        )

    def look_at(self, batch: Any, step: int) -> None:
        begin = time.perf_counter()
        if step >= self._options.first and step % self._every:
            self.next = self._next_after(step)
            return
        fields = chosen(fields_of(batch), self._options)
        if not self._checked and self._reference is not None:
            _check_fields(fields, self._reference)
        self._checked = True
        self._hand_over(step, fields)
        now = time.perf_counter()
        self._handing += now - begin
        if self._options.every == "auto":
            self._adapt(step, now)
        self.next = self._next_after(step)
        self._notify()

    def end_epoch(self) -> None:
        if self.process != os.getpid():
            return
        self._send_copied(wait=True)
        self._examiner.finish()
        self._begun = None  # time between epochs is not the loop's
        self._notify()

    def profile(self) -> DriftProfile:
        self._send_copied(wait=True)
        self._examiner.finish()
        return DriftProfile(self._examiner.statistics())

    def stats(self) -> dict[str, Any]:
        return {
            "batches": self.steps,
            **self._examiner.counts(),
            "every": [list(change) for change in self._changes],
            "handing_seconds": self._handing,
        }

    def _next_after(self, step: int) -> int:
        """The number of the next batch to look at: `_Watching` asks whether it is there."""
        return step + 1 if step + 1 < self._options.first else (step // self._every + 1) * self._every

    def _hand_over(self, step: int, fields: list[Field]) -> None:
        new_epoch, self.new_epoch = self.new_epoch, False
        self._send_copied(wait=self._options.exact)
        if not fields:
            return
        if any(tensor.device.type != "cpu" for field in fields for tensor in field.tensors):
            self._on_device = _copied_back(step, new_epoch, fields)
        elif not self._examiner.submit(step, new_epoch, fields, self._options.exact):
            self.new_epoch = new_epoch

    def _send_copied(self, wait: bool) -> None:
        """Hands over what was copied back from a device, once it is here."""
        if self._on_device is None:
            return
        step, new_epoch, fields, event = self._on_device
        if event is not None and not event.query():
            if not wait:
                return
            event.synchronize()
        self._on_device = None
        self._examiner.submit(step, new_epoch, fields, wait)

    def _adapt(self, step: int, now: float) -> None:
        if self._begun is None:
            self._begun = (step, now)
            return
        counts = self._examiner.counts()
        steps = step - self._begun[0]
        if steps < 4 or counts["examined"] == 0:
            return
        looks = counts["examined"] + counts["dropped"]
        cost = counts["seconds"] / counts["examined"] + self._handing / looks
        wall = (now - self._begun[1]) / steps
        most = self._options.cost / 2 * wall  # per batch
        every = self._every
        while every < _MOST_EVERY and cost > most * every:
            every *= 2
        while every > 1 and cost * 4 < most * every:  # hysteresis: only when it is far too seldom
            every //= 2
        if every != self._every:
            self._every = every
            self._changes.append([step, every])

    def _notify(self) -> None:
        new = [
            alarm_of(native, self._reference.get(native["field"]) if self._reference else None)  # fmt: skip
            for native in self._examiner.take_alarms()
            if not self._options.ignores(native["field"], native["kind"])
        ]
        self.alarms += new
        for alarm in new:
            if alarm.ended or self._on_drift is None:
                continue
            if self._on_drift == "raise":
                raise DriftError(alarm)
            if self._on_drift == "warn":
                warnings.warn(str(alarm), DriftWarning, stacklevel=4)
            else:
                self._on_drift(alarm)


def _copied_back(step: int, new_epoch: bool, fields: list[Field]) -> tuple[int, bool, list[Field], Any]:
    """A few samples of each field, on their way to the host; nobody waits for them."""
    event, copied = None, []
    for field in fields:
        tensors = field.tensors[:_DEVICE_ROWS]
        if field.kind != "ragged":
            rows = len(tensors[0])
            tensors = [tensors[0][:: max(1, -(-rows // _DEVICE_ROWS))]]
        copied.append(field._replace(tensors=[_on_host(tensor) for tensor in tensors]))
        if event is None and (device := tensors[0].device).type != "cpu":
            event = torch.Event(device=device)
    if event is not None:
        event.record()
    return step, new_epoch, copied, event


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type != "cuda":
        return tensor.to("cpu")
    # others would wait
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


def _check_fields(fields: list[Field], reference: dict[str, dict[str, Any]]) -> None:
    names = [field.name for field in fields]
    missing, extra = (
        [name for name in reference if name not in names],
        [name for name in names if name not in reference],
    )
    if missing or extra:
        parts = [f"it has {_quoted(missing)}, which the batches have not"] * bool(missing)
        parts += [f"the batches have {_quoted(extra)}, which it has not"] * bool(extra)
        raise ValueError(
            # fmt: skip
            f"the reference profile is of other fields: {', and '.join(parts)}. Make one of this watch with"
            " `millrace profile` or watch(loader).profile(), or name the fields to compare in"
            " DriftOptions(fields=[...])"
        )
    for field in fields:
        sizes, expected = list(field.tensors[0].shape), reference[field.name]["layout"]
        ragged = field.kind == "ragged"
        found = _core.field_layout([1, *sizes] if ragged else sizes, field.dtype, ragged)
        if found["series"] != expected["series"] or (
            field.kind != "lengths" and found["counted"] != expected["counted"]
        ):
            raise ValueError(
                f'field "{field.name}" is {field.dtype} of shape {tuple(sizes)} here, but the reference'
                " profile has "
                f"{reference[field.name]['type']} of row shape {tuple(reference[field.name]['row_shape'])}; "
                "make a profile of these batches"
            )


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
