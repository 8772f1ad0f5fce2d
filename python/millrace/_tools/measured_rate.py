"""What a loader gives: measured for some seconds, or read from the profile of a run that was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import IterableDataset

from .._common.batch_tree import leaves
from ..dataloader import DataLoader

_PROFILE_VERSION = 1


@dataclass(frozen=True)
class MeasuredRate:
    """`per_rank`: samples per second of one process's loader. The rest is None where it is not known: the
    batch size, the step's own
    time, and the stage that the profile named. overlaps: whether batches are made while the loop does
    something else.
    """

    per_rank: float
    batch_size: int | None = None
    step_seconds: float | None = None
    stage: str | None = None
    overlaps: bool = True
    what: str = ""


def loader_of(dataset: Any, batch_size: int) -> DataLoader[Any]:
    """A dataset in millrace's loader, as many workers as this process may use CPUs, shuffled where that is
    possible.
    """
    stream = isinstance(dataset, IterableDataset)
    return DataLoader(dataset, batch_size=batch_size, shuffle=None if stream else True, num_workers="auto")


def measure(
    loader: Iterable[Any], seconds: float = 5.0, step: Callable[[int, int], None] = lambda samples, size: None
) -> MeasuredRate:
    """Iterates for about so many seconds, epoch after epoch, and keeps nothing. `step(samples, bytes)` is
    called for each batch.

    Starting the workers and making an epoch's first batch do not count, unless epochs have one batch only.
    ValueError for a loader that gives no batch; what the dataset raises is passed on.
    """
    if not 0 < seconds <= 3600:
        raise ValueError(f"seconds={seconds:g} should be more than 0, and an hour at most")
    batched = (
        getattr(loader, "batch_size", None) is not None or getattr(loader, "batch_sampler", None) is not None
    )
    end = time.perf_counter() + seconds
    counted, counted_seconds, largest = 0, 0.0, 0  # behind each epoch's first batch
    total, begin = 0, time.perf_counter()
    now = begin
    while now < end:
        first = None
        before = total
        for batch in loader:
            now = time.perf_counter()
            samples, size = (
                samples_in(batch, batched),
                sum(leaf.nbytes for leaf in leaves(batch, []) if isinstance(leaf, torch.Tensor)),
            )
            step(samples, size)
            total, largest = total + samples, max(largest, samples)
            if first is None:
                first = now
            else:
                counted += samples
            if now >= end:
                break
        if first is None or total == before:
            raise ValueError(
                f"the {type(loader).__name__} gave no samples"
                + (" in an epoch behind the first" if total else "")
            )
        counted_seconds += now - first
    rate = counted / counted_seconds if counted and counted_seconds > 0 else total / max(now - begin, 1e-9)
    overlaps = getattr(loader, "num_workers", 1) != 0
    what = f"{total:,} samples in {now - begin:.1f} s, alone on this machine"
    return MeasuredRate(rate, batch_size=largest, overlaps=overlaps, what=what)


def samples_in(batch: Any, batched: bool = True) -> int:
    """Samples of a batch: the first dimension of its first tensor. `batched` False: 1, unless all tensors
    agree in that dimension.
    """
    tensors = [leaf for leaf in leaves(batch, []) if isinstance(leaf, torch.Tensor)]
    if not tensors:
        return len(batch) if batched and hasattr(batch, "__len__") else 1
    if batched:
        return tensors[0].shape[0] if tensors[0].ndim else 1
    sizes = {tensor.shape[0] if tensor.ndim else -1 for tensor in tensors}
    return sizes.pop() if len(sizes) == 1 and -1 not in sizes and len(tensors) > 1 else 1


def rate_of_profile(stats: Mapping[str, Any]) -> MeasuredRate:
    """What the loader of a run could give, by `loader.stats()` or its "profile".

    Where the loop waited, samples over time is what the loader gives. Where it did not, workers were idle,
    and could give as much more: samples / time / busy share of the workers. Making the iterator and its first
    batch do not count. ValueError for other dicts, and for runs of no batch.
    """
    try:
        profile = stats.get("profile", stats)
        version, samples, batches = profile["version"], int(profile["samples"]), int(profile["batches"])
        wall, consumer, settings = float(profile["wall_seconds"]), profile["consumer"], profile["settings"]
        start = float(consumer.get("start", 0)) + float(profile.get("first_wait", 0))
        step, workers = (
            float(consumer["step"]),
            [(float(w["wall_seconds"]), float(w["seconds"].get("idle", 0))) for w in profile["workers"]],
        )
        batch_size = settings.get("batch_size")
        stage = profile.get("bottleneck")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(
            f'this is no profile: it should be loader.stats(), or its "profile", as JSON ({what})'
        ) from None
    if version != _PROFILE_VERSION:
        raise ValueError(
            f"this profile is of version {version!r}, and version {_PROFILE_VERSION} is read; take it anew with"
            " this millrace"
        )
    running = wall - start
    if samples <= 0 or batches <= 0 or not wall > 0:
        raise ValueError(
            f"this profile has {samples} samples in {wall:g} s: take it behind some hundred batches"
        )
    if running < 0.2 * wall:  # a short run: mostly start
        running = wall
    in_workers = sum(wall for wall, _ in workers)
    if in_workers > 0:
        busy = 1 - sum(idle for _, idle in workers) / in_workers
    else:
        busy = (running - step) / running
    busy = min(1.0, max(busy, 1e-3))
    rate = samples / running / busy
    size = batch_size if batch_size is not None else round(samples / batches)
    who = "its workers busy" if in_workers > 0 else "loading"
    what = f"{samples:,} samples in {wall:,.1f} s of a run, {who} {busy:.0%} of the time"
    return MeasuredRate(rate, size, step / batches, stage, overlaps=in_workers > 0, what=what)
