"""Python datasets with a __getitem__ that was read (plan/items.py): the engine makes their pictures, Python
makes their other values.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import _core
from ..._profiling.stages import SAMPLE, during
from ...datasets.pillow_decode import PillowDecoder
from .core import Core
from .item_form import ItemCollate
from .native import NativeSpec, slots_for
from .seeding import generators_seeded


@dataclass(frozen=True)
class Group:
    """Files of a sample, by their numbers, with pictures that are made alike. `stacked`: the one view is one
    tensor of all files; `joined`: the views are one tensor.
    """

    files: tuple[int, ...]
    pipelines: tuple[_core.ImagePipeline, ...]
    modes: Any
    stacked: bool
    joined: bool

    def dataset(self, files: _core.StreamSamples, ragged: bool) -> _core.ImageDataset:
        made = np.empty(0, np.int64), list(self.pipelines), PillowDecoder()
        return _core.ImageDataset(files, *made, stacked=self.joined, ragged=ragged, modes=self.modes)

    def in_order(self, samples: list[Any]) -> list[Any]:
        """The entries of `samples` for the group's files, in the order of a batch's rows."""
        if self.stacked:
            return [sample[file] for sample in samples for file in self.files]
        return [sample[file] for file in self.files for sample in samples]

    def picture(self, rows: Any, parts: tuple[tuple[int, int], ...], count: int) -> Any:
        """The part of `rows` with these (file, view), in a batch of `count` samples."""
        if self.stacked:
            return rows.view(count, len(self.files), *rows.shape[1:])
        ((file, view),) = parts
        begin = self.files.index(file) * count
        return (rows[view] if isinstance(rows, list) else rows)[begin : begin + count]


class _Turn:
    """A submitted batch. `before`: the number of samples before it in the epoch. `values`: the other values
    of its samples; None: torch's fetcher makes it of `indices`. `ends`: for each group, its last ticket + 1.
    `made`: the rows from the groups' loaders so far; None for a loader that failed.
    """

    def __init__(self, indices: Any, before: int, values: list[Any] | None, ends: list[int]) -> None:
        self.indices, self.before, self.values, self.ends = indices, before, values, ends
        self.made: list[Any] = []
        self.failed = False


class ItemCore(Core):
    """C++ loaders, one for each group, of files that are known when their indices are submitted. If anything
    raises, the dataset's own Python makes the samples of that index list: it gives the batch, or raises its
    own error.

    Invariant: `_turns` are the submitted batches, in order. A batch of them is in a loader if it has `values`
    and its `made` has no rows of that loader yet.
    """

    def __init__(self, spec: ItemSpec, *options: Any) -> None:
        self._spec = spec
        self._files = [_core.StreamSamples() for _ in spec.groups]
        self._loaders = [
            _core.Loader(group.dataset(files, spec.ragged), *options)
            for group, files in zip(spec.groups, self._files)
        ]
        self._turns: deque[_Turn] = deque()
        self._came: Counter[int] = Counter()  # indices of this epoch
        self._epoch = 0, 0
        self._before = 0  # samples of earlier lists
        self._fetched = {"samples": 0, "batches": 0}

    @property
    def set_limits(self) -> Callable[[int, int], None]:
        def limit(threads: int, slots: int) -> None:
            for loader in self._loaders:
                loader.set_limits(threads, slots)

        return limit

    def start_epoch(self, seed: int, epoch: int) -> None:
        self._turns.clear()
        self._came.clear()
        self._epoch, self._before = (seed, epoch), 0
        for loader in self._loaders:
            loader.start_epoch(seed, epoch)

    def skip(self, indices: Any) -> None:
        self._before += len(indices)
        with contextlib.suppress(Exception):  # as it was when they were submitted
            self._keys(indices)

    def _keys(self, indices: Any) -> list[tuple[int, int]]:
        """For each index, the sample's number, and how often it came before in this epoch."""
        keys = []
        for index in indices:
            number = operator.index(index)
            number = number + self._spec.item_count if number < 0 else number
            keys.append((number, self._came[number]))
            self._came[number] += 1
        return keys

    def submit(self, indices: Any) -> None:
        if isinstance(indices, np.ndarray):
            indices = indices.tolist()  # what a dataset is asked for
        try:
            with during(SAMPLE):
                keys, count = self._keys(indices), len(self._spec.kinds)
                made = [self._spec.values(operator.index(index)) for index in indices]
                tickets = [self._added(values[:count], *key) for values, key in zip(made, keys)]
                ends = [tickets[-1][group.files[-1]] + 1 for group in self._spec.groups]
        except Exception:
            turn = _Turn(indices, self._before, None, [])
        else:
            for group, loader in zip(self._spec.groups, self._loaders):
                loader.submit(group.in_order(tickets))
            turn = _Turn(indices, self._before, [values[count:] for values in made], ends)
        self._turns.append(turn)
        self._before += len(indices)

    def _added(self, places: Sequence[Any], number: int, occurrence: int) -> list[int]:
        """The tickets of a sample's files, which draw numbers of their own."""
        tickets = [0] * len(places)
        for group, files in zip(self._spec.groups, self._files):
            for file in group.files:
                key = number * len(places) + file, occurrence
                tickets[file] = added(files, places[file], self._spec.kinds[file], *key)
        return tickets

    def end_epoch(self) -> None:
        for loader in self._loaders:
            loader.end_epoch()

    def next(self, timeout: float = 0.0) -> Any:
        if not self._turns:
            return None
        turn = self._turns[0]
        if turn.values is not None and not self._collect(turn, timeout):
            return None
        self._turns.popleft()
        for files, end in zip(self._files, turn.ends):
            files.drop_before(end)
        if turn.values is not None and not turn.failed:
            return turn.made, turn.values
        with during(SAMPLE), generators_seeded((*self._epoch, turn.before), False):
            samples = self._spec.fetch(turn.indices)
        self._fetched["batches"] += 1
        self._fetched["samples"] += len(samples)
        return None, samples

    def _collect(self, turn: _Turn, timeout: float) -> bool:
        """Collect the rows of all groups, or their failures; False if the loaders are closed. TimeoutError if
        rows are still to come.
        """
        while len(turn.made) < len(self._loaders):
            rows = None
            try:
                if (made := self._loaders[len(turn.made)].next(timeout)) is None:
                    return False
                rows = made[0]
            except Exception as error:
                if isinstance(error, TimeoutError) and error.errno is None:  # it is still to come
                    raise
                turn.failed = True
            turn.made.append(rows)
        return True

    def close(self) -> None:
        for loader in self._loaders:
            loader.close()

    def snapshot(self) -> dict[str, Any]:
        return self._loaders[0].snapshot()

    def clocks(self) -> list[Any]:
        return [clock for loader in self._loaders for clock in loader.clocks()]

    def stats(self) -> dict[str, Any]:
        first, *others = [loader.stats() for loader in self._loaders]
        for stats in others:
            first |= {name: first[name] + stats[name] for name in ("bytes",) if name in stats}
        first["samples"] //= len(self._spec.groups[0].files)
        return {**first, **{name: first[name] + count for name, count in self._fetched.items()}}


def added(files: _core.StreamSamples, place: Any, kind: str, number: int, occurrence: int) -> int:
    """Add a picture (a path, its bytes, or an array) to `files`; return its ticket."""
    if kind == "path":
        return files.add_file(os.fspath(place), number, occurrence)
    if kind == "pixels":
        grey = place.ndim == 2
        rows = np.broadcast_to(place[None, ..., None], (1, *place.shape, 3)) if grey else place[None]
        return files.add_of(_core.PixelFiles(rows), 0, number, occurrence)
    if type(place) is not bytes:
        place = memoryview(place).tobytes()  # an object of other kinds has another meaning to BytesIO
    return files.add(place, "", "bytes", number, occurrence)


@dataclass(frozen=True, kw_only=True)
class ItemSpec(NativeSpec):
    """`kinds`: for each file of a sample, "path", "bytes" or "pixels". `pictures`: for each picture of the
    form, its group and its (file, view) pairs there. `values`: from an index to the places of the files and
    the sample's other values. `fetch`: makes a batch's samples in Python. `told`: lines of explain().
    """

    groups: tuple[Group, ...]
    pictures: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    kinds: tuple[str, ...]
    index_maps: tuple[Sequence[int], ...]
    python_collate: ItemCollate
    values: Callable[[int], tuple[Any, ...]]
    item_count: int
    fetch: Callable[[Any], list[Any]]
    told: tuple[str, ...]

    @property
    def ragged(self) -> bool:
        """Whether pictures of a batch may differ in size; only a collate_fn that gets samples takes these."""
        if self.python_collate.of_batch or any(group.stacked for group in self.groups):
            return False
        return any(pipeline.fixed_shape is None for group in self.groups for pipeline in group.pipelines)

    def core(self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str) -> Core:
        return ItemCore(self, threads, self.usual_slots(threads, batch_size), on_error, drop_last, memory)

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        pipelines = [pipeline for group in self.groups for pipeline in group.pipelines * len(group.files)]
        return slots_for(pipelines, batch_size)

    def rows(self, batch: Any) -> Any:
        for indices in self.index_maps:
            batch = [indices[i] for i in batch]
        return batch

    def collated(self, made: tuple[Any, Any]) -> Any:
        rows, values = made
        if rows is None:
            return made
        count = len(values)
        return [
            self.groups[group].picture(rows[group], parts, count) for group, parts in self.pictures
        ], values

    def maker(self) -> Callable[[int], list[Any]]:
        """A function from an index to the rows of its pictures, made without a batch."""
        files = [_core.StreamSamples() for _ in self.groups]
        datasets = [group.dataset(held, self.ragged) for group, held in zip(self.groups, files)]

        def make(index: int) -> list[Any]:
            places = self.values(index)
            return [
                images.row(added(held, places[file], self.kinds[file], index, 0), 0, 0)
                for group, images, held in zip(self.groups, datasets, files)
                for file in group.files
            ]

        return make

    def names(self, index: int) -> list[str]:
        """The names of a sample's files: paths, or "bytes" or "pixels"."""
        places = self.values(index)[: len(self.kinds)]
        return [os.fspath(place) if kind == "path" else kind for place, kind in zip(places, self.kinds)]
