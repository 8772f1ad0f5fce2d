"""What of a loader can be tuned: from its arguments and its plan to a Tuning."""

from __future__ import annotations

from typing import Any

from torch.utils.data.dataloader import _DatasetKind

from ... import _core
from ..._common.devices import batch_memory
from .budget import Budget, checked_memory
from .numbers import Auto
from .tune_file import description, tune_path
from .tuning import Room, Tuning

_MOST_SLOTS = 64


def tuning_of(loader: Any, plan: Any, engine: str) -> Tuning | None:
    """For an iterator that runs `plan` on `engine`, which goes on from what the loader has; None: nothing is
    "auto", or can be.
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
    """For explain()."""
    if not _is_auto(loader):
        return []
    tuning = tuning_of(loader, plan, engine)
    return [
        f"tuning: {'fixed — ' + _why_not(loader, plan.spec, engine) if tuning is None else tuning.sentence()}"
    ]


def _is_auto(loader: Any) -> bool:
    return isinstance(loader.num_workers, Auto) or isinstance(loader.prefetch_factor, Auto)


def _why_not(loader: Any, job: Any, engine: str) -> str:
    if engine == "inline":
        return "without workers there is nothing to choose"
    if job is not None:
        return "the device's decoder and the threads share the work by decode="
    if loader.on_error == "skip":
        return 'on_error="skip" asks for batches anew, and in which order must not depend on speed'
    return "in_order=False hands out what is ready first"


def _room(loader: Any, job: Any, engine: str) -> Room | None:
    workers = loader.num_workers
    if not _is_auto(loader) or engine == "inline":
        return None
    batch_size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 1
    cpus = min(int(workers), _core.cpu_budget()["threads"]) if isinstance(workers, Auto) else int(workers)
    lists = workers * (loader.prefetch_factor or 2)
    tunes_slots = isinstance(loader.prefetch_factor, Auto)
    if job is None:
        if loader.on_error == "skip" or not loader.in_order:
            return None
        usual, most, rows = (2 * cpus if tunes_slots else lists) + 1, lists + 1, 1
        per_thread = lists // workers
    else:
        if job.on_device:
            return None
        all_slots, fewer = (job.usual_slots(number, loader.batch_size) for number in (workers, cpus))
        usual = fewer if tunes_slots else all_slots
        most = min(_MOST_SLOTS, max(lists, all_slots)) if job.grows else all_slots
        rows = batch_size if job.shares_batches else 1
        per_thread = (all_slots - fewer) // max(1, workers - cpus)
    counts = job is not None or loader._dataset_kind == _DatasetKind.Map
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
