"""The rate of a loader: measured for some seconds, or read from the profile of an earlier run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from millrace._common.batch_tree import leaves
from millrace.dataloader import DataLoader
from torch.utils.data import IterableDataset

from .report.summary import Summary
from .texts import refuse

_PROFILE_VERSION = 1
_SHORTEST_RUN = 0.2  # of the time, after the start: a shorter run is taken as it is


@dataclass(frozen=True)
class MeasuredRate:
    """`per_rank`: samples per second of one process's loader; `what`: how it was measured. None if not known:
    the batch size; the step's own time; the stage that the profile named; sample_bytes, the bytes of a
    sample's tensors. overlaps: whether batches are made while the loop does something else.
    """

    per_rank: float
    what: str
    batch_size: int | None = None
    step_seconds: float | None = None
    stage: str | None = None
    overlaps: bool = True
    sample_bytes: float | None = None


def loader_of(dataset: Any, batch_size: int) -> DataLoader[Any]:
    """A dataset in millrace's loader, with as many workers as this process may use CPUs, shuffled if
    possible.
    """
    stream = isinstance(dataset, IterableDataset)
    return DataLoader(dataset, batch_size=batch_size, shuffle=None if stream else True, num_workers="auto")


def measure(
    loader: Iterable[Any], seconds: float = 5.0, step: Callable[[int, int], None] = lambda samples, size: None
) -> MeasuredRate:
    """Iterate for about `seconds`, epoch after epoch, and keep nothing. `step(samples, bytes)` is called for
    each batch.

    In each epoch, the start of the workers and the first batch of each worker do not count (in a short epoch,
    at most half of its batches): when the first batch comes, every worker has made one. Epochs of one batch
    count whole. ValueError for a loader that gives no batch; errors of the dataset pass through.
    """
    workers = getattr(loader, "num_workers", 1)
    heads = max(workers, 1) if isinstance(workers, int) else 1
    counted, counted_seconds, total, largest, size = 0, 0.0, 0, 0, 0
    begin = now = time.perf_counter()
    while now < begin + seconds:
        given: list[tuple[int, float]] = []  # samples in the epoch so far, and when
        for batch in loader:
            now = time.perf_counter()
            samples = samples_in(batch, is_batched(loader))
            bytes_now = sum(leaf.nbytes for leaf in leaves(batch, []) if isinstance(leaf, torch.Tensor))
            step(samples, bytes_now)
            size += bytes_now
            given.append(((given[-1][0] if given else 0) + samples, now))
            largest = max(largest, samples)
            if now >= begin + seconds:
                break
        if not given or given[-1][0] == 0:
            when = " in an epoch behind the first" if total else ""
            raise ValueError(f"the {type(loader).__name__} gave no samples{when}")
        before, since = given[max(min(heads, len(given) // 2) - 1, 0)]
        total += given[-1][0]
        counted, counted_seconds = counted + given[-1][0] - before, counted_seconds + now - since
    rate = counted / counted_seconds if counted and counted_seconds > 0 else total / max(now - begin, 1e-9)
    what = f"{total:,} samples in {now - begin:.1f} s, alone on this machine"
    overlaps = getattr(loader, "num_workers", 1) != 0
    return MeasuredRate(rate, what, largest, overlaps=overlaps, sample_bytes=size / total or None)


def is_batched(loader: Any) -> bool:
    """Whether the loader makes batches; else its dataset may."""
    return any(getattr(loader, name, None) is not None for name in ("batch_size", "batch_sampler"))


def samples_in(batch: Any, batched: bool = True, unknown: int = 1) -> int:
    """Samples of a batch: the length of its first field, `unknown` if that has none. `batched` False: 1,
    unless the batch has several tensors that all agree in their first dimension.
    """
    if not batched:
        tensors = [leaf for leaf in leaves(batch, []) if isinstance(leaf, torch.Tensor)]
        sizes = {tensor.shape[:1] for tensor in tensors}
        return tensors[0].shape[0] if len(tensors) > 1 and len(sizes) == 1 and tensors[0].ndim else 1
    while isinstance(batch, (dict, list, tuple)) and batch:
        first = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
        if not isinstance(batch, dict) and isinstance(first, (str, bytes, int, float)):
            break
        batch = first
    try:
        return len(batch) or unknown
    except TypeError:
        return unknown


def rate_of_profile(stats: Mapping[str, Any]) -> MeasuredRate:
    """The possible rate of a run's loader, from `loader.stats()` or its "profile".

    If the loop waited, the loader's rate is samples over time. If it did not wait, workers were idle, and
    could make more: samples / time / busy share of the workers. Making the iterator and its first batch do
    not count. ValueError for other dicts, and for runs without a batch.
    """
    try:
        profile = stats.get("profile", stats)
        version, summary, size = profile["version"], Summary(profile), profile["settings"].get("batch_size")
        step = float(profile["consumer"]["step"])
        in_workers = sum(float(worker["wall_seconds"]) for worker in profile["workers"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(
            f'this is no profile: it should be loader.stats(), or its "profile", as JSON ({what})'
        ) from None
    samples, batches, wall = summary.samples, summary.batches, summary.wall
    refuse(
        {
            f"this profile is of version {version!r}, and version {_PROFILE_VERSION} is read; take it"
            " anew with this millrace": version != _PROFILE_VERSION,
            f"this profile has {samples} samples in {wall:g} s: take it behind some hundred batches": (
                not min(samples, batches, wall) > 0
            ),
        }
    )
    running = wall - summary.consumer.get("start", 0.0) - summary.first_wait
    running = running if running >= _SHORTEST_RUN * wall else wall
    overlaps = in_workers > 0
    busy = 1 - summary.idle / in_workers if overlaps else (running - step) / running
    busy = min(1.0, max(busy, 1e-3))
    what = (
        f"{samples:,} samples in {wall:,.1f} s of a run, {'its workers busy' if overlaps else 'loading'}"
        f" {busy:.0%} of the time"
    )
    rate, size = samples / running / busy, round(samples / batches) if size is None else size
    return MeasuredRate(rate, what, size, step / batches, summary.bottleneck or None, overlaps)
