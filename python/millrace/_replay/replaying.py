"""replay(): makes the batch of a past step again.

There are three ways; the first possible one is used: from the recorder's notes about the step; from its index
list, drawn again; and, for datasets that have a position (streams, Stateful ones), by going on from the
nearest known state.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from array import array
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from .._common.batch_place import at_place
from .._common.data_parallel import rank_of
from .._history.draws import put_back
from .._history.hashes import BatchHash
from .._history.recorder import BatchHistory, EpochLog, Step, described
from .._loader.engine import RunRecord
from .._loader.engines.items import ItemSpec
from .._loader.engines.native import DeviceImageSpec, ImageSpec, NativeSpec, one_batch
from .._loader.iterator import iterator_over
from .._loader.plan import make_plan
from .._loader.states.progress import Progress
from .._loader.states.saved import SavedState, fingerprint
from ..errors import UnavailableError
from ..prefetch import prefetched
from .shadow import (
    PastProgress,
    copied_order,
    dataset_of_epoch,
    list_again,
    lists_again,
    own_dataset,
    undisturbed,
    view,
    view_of_list,
)


def replay(loader: Any, state: dict[str, Any], step: int) -> Any:
    """Make the batch again that `next()` gave, or would have given, as step `step` of the epoch that `state`
    is from.

    Map-style datasets are as exact as DataLoader.replay() describes, at any step of the epoch. Streams and
    Stateful datasets go on from `state`, so it must be from before that step. A state does not know the draws
    of Python code from torch's, numpy's or random's generators: such batches are approximate.

    Args:
        loader: made like the loader that gave `state = loader.state_dict()`; its own iterators are left
            alone.
        state: of the epoch; a stream or Stateful dataset goes on from it.
        step: from 0.

    Raises:
        IndexError: if the epoch has no such step.
        ValueError: if the state is of another dataset or sampler, or from after the step.
    """
    saved = SavedState.read(state)
    saved.check_fingerprint(fingerprint(loader))
    number = _checked(step)
    if saved.finished or _has_position(loader):
        return _on_device(loader, _run_again(loader, state, number))
    progress = SimpleNamespace(
        began_in=0, _shared_seed=saved.shared_seed, epoch=saved.epoch, workers=saved.workers_then
    )
    log = EpochLog(BatchHistory(0), saved.number, progress, saved.base_seed or 0, 0, loader.dataset)
    log.dataset_epoch, log.start = None, state
    return _on_device(loader, _of_rows(loader, log, number, None))


def replayed(loader: Any, step: int, epoch: int | None, verify: bool) -> Any:
    """DataLoader.replay()."""
    log, number = _find(loader, step, epoch)
    known = log.step(number)
    batch = _made_again(loader, log, number, known)
    if verify and known is not None and known.digest is not None:
        difference = known.digest.difference(BatchHash.of(batch))
        if difference is not None:
            warnings.warn(
                f"the replayed batch of epoch {log.number}, step {number} is not the one that was handed out:"
                f" {difference}. " + (_approximate(loader, log, number, known) or _CHANGED),
                stacklevel=3,
            )
    return _on_device(loader, batch)


_CHANGED = (
    "Files or tensors may have changed since, or the dataset draws random numbers from generators of its own"
)


def _approximate(loader: Any, log: EpochLog, number: int, step: Step) -> str | None:
    """The reason why the batch may differ; None if there is no sign of it."""
    spec = make_plan(loader).spec
    natively = isinstance(spec, NativeSpec) and (spec.python_collate is None or loader.num_workers > 0)
    if natively or _has_position(loader):
        return None
    if step.draws is not None and (loader.num_workers == 0 or not loader._in_threads()):
        return None
    drew = ((at, kept) for at, kept in log.steps.items() if type(kept) is Step and kept.draws is not None)
    if any(kept.worker == step.worker or at > number for at, kept in drew):
        return (
            "Approximate: the dataset draws random numbers, and it is not known where its generators stood"
            " before this batch"
        )
    if loader.num_workers > 0 and loader._in_threads():
        return "Approximate if the dataset draws random numbers: its threads share the generators"
    return None


def seen(loader: Any, step: int, epoch: int | None, draws: bool) -> dict[str, Any]:
    """DataLoader.seen()."""
    log, number = _find(loader, step, epoch)
    known = log.step(number)
    exact = known is not None and known.exact
    if known is None and not _has_position(loader):
        with undisturbed():
            known = Step(_list(loader, log, number))
    if known is None:
        return {"epoch": log.number, "step": number, "worker": -1, "seed": log.base_seed, "hash": None}
    result = described(log, number, known)
    if (why := _approximate(loader, log, number, known)) is not None:
        result["approximate"] = why
    spec = make_plan(loader).spec
    if isinstance(spec, ItemSpec) and known.rows is not None:
        rows = known.rows.tolist() if hasattr(known.rows, "tolist") else list(known.rows)
        result["indices"] = np.asarray(spec.rows(rows)).tolist()
        result["paths"] = [name for index in result["indices"] for name in spec.names(index)]
    if isinstance(spec, ImageSpec) and known.rows is not None:
        indices, occurrences = (
            (known.rows, known.occurrences) if exact else _keys(loader, log, number, spec, known.rows)
        )
        result["indices"] = np.asarray(indices).tolist()
        if spec.drawn_size is not None:
            result["size"] = spec.drawn_size.at(log.number, number)
        result["paths"] = [spec.files.files.name(int(index)) for index in indices]
        if draws:
            images, counts = spec.dataset(), itertools.repeat(0) if occurrences is None else occurrences
            form = spec.form(log.number, number) or 0
            result["draws"] = [
                images.draw(int(index), log.base_seed, log.engine_epoch, int(n), form)
                for index, n in zip(indices, counts)
            ]
    return result


# ---------------------------------------------------------------- which step


def _checked(step: Any) -> int:
    if not isinstance(step, (int, np.integer)) or isinstance(step, bool) or step < 0:
        raise ValueError(f"step={step!r}: steps are numbers from 0 on, as enumerate(loader) counts them")
    return int(step)


def _find(loader: Any, step: Any, epoch: int | None) -> tuple[EpochLog, int]:
    number, recorder = _checked(step), loader.history
    if recorder is False:
        raise UnavailableError(
            "history=False: this loader remembers nothing of its past; leave it out, or give a"
            " millrace.BatchHistory"
        )
    epochs = recorder.epochs if isinstance(recorder, BatchHistory) else {}
    if not epochs:
        raise IndexError(
            "no step has been taken yet; iterate over the loader first, or use millrace.replay(loader, state,"
            " step)"
        )
    which = max(epochs) if epoch is None else epoch
    if which not in epochs:
        raise IndexError(
            f"epoch {which} is not known here, only {min(epochs)} to {max(epochs)}, counted over all"
            " iterators of the loader; of others, and of other processes, millrace.replay(loader, state,"
            " step) makes batches from a state of theirs"
        )
    log = epochs[which]
    if number >= log.count:
        raise IndexError(f"step {number} of epoch {which} has not been taken yet: {log.count} have")
    return log, number


def _has_position(loader: Any) -> bool:
    """Whether a batch depends on earlier batches by more than the order of indices."""
    return Progress(view(loader, process_group=None))._asks_workers


# ---------------------------------------------------------------- a batch again


def _made_again(loader: Any, log: EpochLog, number: int, known: Step | None) -> Any:
    if _has_position(loader):
        before = {at: state for at, state in log.nearest_states.items() if at <= number}
        if not before:
            raise UnavailableError(
                f"step {number} is from before this loader resumed at step {log.first}, or its dataset could"
                " not say where it stood; use millrace.replay(loader, state, step) with a state from before"
                " the step"
            )
        return _run_again(loader, before[max(before)], number)
    return _of_rows(loader, log, number, known)


def _of_rows(loader: Any, log: EpochLog, number: int, step: Step | None) -> Any:
    """The batch of an index list, which is drawn again if it is not remembered."""
    with undisturbed():
        if step is None or (step.worker < 0 and step.rows is None):
            worker = number % log.workers if log.workers else -1  # torch deals them out in turn
            step = Step(_list(loader, log, number), worker)
        spec = make_plan(loader).spec
        if spec is None:
            return _by_python(loader, log, number, step)
        return _natively(loader, log, number, spec, step)


def _list(loader: Any, log: EpochLog, number: int) -> Any:
    """The index list of a step that is not remembered."""
    if log.start is None:
        raise UnavailableError(
            f"nothing is known of where the sampler stood in epoch {log.number}; later steps can be replayed"
        )
    if loader.on_error == "skip":
        raise UnavailableError(
            f"step {number} is not remembered, and with on_error='skip' a list alone does not say what filled"
            " its holes; BatchHistory(steps=...) says how many steps are, and millrace.replay(loader,"
            " state, step) goes on from a state"
        )
    found = list_again(loader, log.start, number, make_plan(loader), log.agreed_steps)
    if found is None:
        raise IndexError(f"epoch {log.number} has no step {number}: its sampler ends before")
    return found


def _by_python(loader: Any, log: EpochLog, number: int, step: Step) -> Any:
    kind = "inline" if loader.num_workers == 0 else "threads" if loader._in_threads() else "processes"
    rows = step.indices()
    past = view_of_list(
        loader, rows, min(1, loader.num_workers), dataset_of_epoch(loader.dataset, log.dataset_epoch)
    )
    progress = PastProgress(past, log, number, step)
    iterator = iterator_over(past, make_plan(past).python_spec(kind), RunRecord("replay"), progress)
    if loader.num_workers == 0:
        put_back(step.draws)  # workers do that themselves
    return _only(iterator)


def _only(iterator: Any) -> Any:
    try:
        return next(iterator)
    finally:
        getattr(iterator, "_shutdown_workers", lambda: None)()


def _natively(loader: Any, log: EpochLog, number: int, spec: Any, step: Step) -> Any:
    batch = _native_batch(loader, log, number, spec, step)
    if spec.python_collate is None:
        return batch
    with at_place((log.number, number)):
        if log.workers:
            return spec.python_collate.seeded(batch, log.base_seed, log.engine_epoch, number, rank_of(loader))
        put_back(step.draws)
        return spec.python_collate(batch)


def _native_batch(loader: Any, log: EpochLog, number: int, spec: Any, step: Step) -> Any:
    if not spec.leaves_out:
        return _rows_again(loader, log, number, spec, step)
    indices, occurrences = (
        (step.rows, step.occurrences) if step.exact else _keys(loader, log, number, spec, step.rows)
    )
    if spec.place is not None:
        return _by_engine(log, spec, max(1, loader.num_workers), np.ascontiguousarray(indices), occurrences)
    images = spec.dataset()
    counts = np.zeros(len(indices), np.uint32) if occurrences is None else occurrences
    form = spec.form(log.number, number) or 0

    def row(which: tuple[Any, Any]) -> torch.Tensor:
        return images.row(int(which[0]), log.base_seed, log.engine_epoch, int(which[1]), form=form)

    with ThreadPoolExecutor(max(1, min(8, len(os.sched_getaffinity(0))))) as pool:
        rows = list(pool.map(row, zip(indices, counts)))
    labels = spec.files.labels
    return spec.collated(
        (
            _batch_of(rows, spec.ragged),
            torch.tensor([int(labels[index]) if len(labels) else 0 for index in indices]),
        )
    )


def _batch_of(rows: Sequence[Any], ragged: bool) -> Any:
    """A batch as the engine makes it: for rows with several views, a list of the views' batches."""
    if isinstance(rows[0], list):
        return [_batch_of(view, ragged) for view in zip(*rows)]
    return tuple(rows) if ragged else torch.stack(list(rows))


def _keys(loader: Any, log: EpochLog, number: int, spec: Any, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """(files' indices, occurrences) of a list, from all lists before it."""
    length = len(spec.files.files) if spec.item_count is None else spec.item_count
    wanted = _file_indices(spec, rows, length)
    counts: Counter[int] = Counter()
    if number and log.start is not None:
        with contextlib.closing(lists_again(loader, log.start, True, log.agreed_steps)) as lists:
            for earlier in itertools.islice(lists, number):
                indices = _file_indices(spec, earlier, length)
                counts.update(indices[np.isin(indices, wanted)].tolist())
    occurrences = []
    for index in wanted.tolist():
        occurrences.append(counts[index])
        counts[index] += 1
    return wanted, np.array(occurrences, np.uint32)


def _file_indices(spec: Any, rows: Any, length: int) -> np.ndarray:
    indices = np.asarray(spec.rows(rows.tolist() if hasattr(rows, "tolist") else rows), dtype=np.int64)
    return np.where(indices < 0, indices + length, indices)


def _rows_again(loader: Any, log: EpochLog, number: int, spec: Any, step: Step) -> Any:
    if log.dataset_epoch is not None:
        past = view(loader, dataset=dataset_of_epoch(loader.dataset, log.dataset_epoch))
        spec = make_plan(past).spec
    rows = np.frombuffer(step.rows, np.int64) if isinstance(step.rows, array) else step.rows
    if spec.item_count is not None:
        return _by_engine(log, spec, 0, *_keys(loader, log, number, spec, rows))
    return _by_engine(log, spec, 0, spec.rows(rows))


def _by_engine(log: EpochLog, spec: Any, threads: int, rows: Any, occurrences: Any = None) -> Any:
    """A batch of an engine of its own."""
    core = spec.core(threads, len(rows), "raise", False, "system")
    try:
        return spec.collated(one_batch(core, (log.base_seed, log.engine_epoch), rows, occurrences))
    finally:
        core.close()


# ---------------------------------------------------------------- streams


def _run_again(loader: Any, state: dict[str, Any], number: int) -> Any:
    """A second run from `state` on, up to the step."""
    saved = SavedState.read(state)
    at = 0 if saved.finished else saved.yielded + saved.replay
    if at > number:
        raise ValueError(
            f"the state is from behind step {at - 1}, and {type(loader.dataset).__name__} goes only forwards"
            f" from there; step {number} needs an earlier one"
        )
    with undisturbed():
        _, order = copied_order(loader)
        past = view(loader, **order, dataset=own_dataset(loader), num_workers=loader.num_workers)
        past.__dict__["_millrace_saved"] = saved
        saved.set_sampler_epoch(past)
        iterator = past._batches()
        try:
            for _ in range(at, number):
                with contextlib.suppress(Exception):
                    _next(iterator, number)
            return _next(iterator, number)
        finally:
            getattr(iterator, "_shutdown_workers", lambda: None)()


def _next(iterator: Any, number: int) -> Any:
    try:
        return next(iterator)
    except StopIteration:
        raise _NoStep(f"the epoch has no step {number}: it ends before") from None


class _NoStep(IndexError, BaseException):
    """Passes through the loop that goes over errors of batches in between."""


def _on_device(loader: Any, batch: Any) -> Any:
    device = loader._millrace_device
    if device is None or device.type == "cpu" or isinstance(make_plan(loader).spec, DeviceImageSpec):
        return batch
    return next(prefetched(iter([batch]), device, 1))
