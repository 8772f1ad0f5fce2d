"""Datasets of Python whose __getitem__ was read (plan/items.py): the engine makes their pictures, Python the
values beside them.
"""

from __future__ import annotations

import operator
import os
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import _core
from ..._common.torch_private import default_collate
from ..._profiling.stages import SAMPLE, during
from .core import Core
from .native import Files, ImageSpec
from .python_collate import PythonCollate


@dataclass(frozen=True)
class SampleForm:
    """Makes a sample of a picture and its other values. `form`: lists, tuples and dicts of places among the
    values, counted from 1; None: the picture.
    """

    form: Any

    def __call__(self, picture: Any, values: tuple[Any, ...]) -> Any:
        return _filled(self.form, picture, values)

    def batch(self, pictures: Any, samples: list[tuple[Any, ...]]) -> Any:
        """What default_collate makes of the samples."""
        return _with(
            pictures, self.form, default_collate([_filled(self.form, 0, values) for values in samples])
        )


def _filled(form: Any, picture: Any, values: tuple[Any, ...]) -> Any:
    if form is None:
        return picture
    if type(form) is int:
        return values[form - 1]
    if type(form) is dict:
        return {key: _filled(part, picture, values) for key, part in form.items()}
    return type(form)([_filled(part, picture, values) for part in form])


def _with(pictures: Any, form: Any, made: Any) -> Any:
    if form is None or type(form) is int:
        return pictures if form is None else made
    if type(form) is dict:
        return {key: _with(pictures, part, made[key]) for key, part in form.items()}
    return [_with(pictures, part, field) for part, field in zip(form, made)]


@dataclass(frozen=True)
class ItemCollate(PythonCollate):
    """Of pictures and the samples' other values, or of None and samples, which Python has made."""

    form: SampleForm  # type: ignore[misc]

    def _batch(self, pictures: Any, values: list[Any]) -> Any:
        return default_collate(values) if pictures is None else self.form.batch(pictures, values)

    def _samples(self, pictures: Any, values: list[Any]) -> list[Any]:
        return values if pictures is None else super()._samples(pictures, values)

    def _targets(self, values: list[Any]) -> list[Any]:
        return values


class ItemCore(Core):
    """A C++ loader of files that are known when their indices are submitted, with torch's fetcher for index
    lists of which something cannot be known so: it gives the batch, or says in its own words what is wrong.

    Invariant: `_turns` are the batches that are out, in order: those that the C++ loader makes, with their
    values and the ticket behind their last sample, and index lists for torch's fetcher.
    """

    def __init__(self, spec: ItemSpec, *options: Any) -> None:
        self._files = _core.StreamSamples()
        images = replace(spec, files=Files(self._files, np.empty(0, np.int64))).dataset()
        self._loader = _core.Loader(images, *options)
        self._values, self._length, self._fetch = spec.values, spec.item_count, spec.fetch
        self._turns: deque[tuple[Any, Any]] = deque()
        self._came: Counter[int] = Counter()  # indices of this epoch
        self._fetched = {"samples": 0, "batches": 0}

    @property
    def set_limits(self) -> Callable[[int, int], None]:
        return self._loader.set_limits

    def start_epoch(self, seed: int, epoch: int) -> None:
        self._turns.clear()
        self._came.clear()
        self._loader.start_epoch(seed, epoch)

    def skip(self, indices: Any) -> None:
        self._came.update(map(self._place, indices))

    def _place(self, index: Any) -> int:
        number = operator.index(index)
        return number + self._length if number < 0 else number

    def submit(self, indices: Any) -> None:
        values, tickets = [], []
        try:
            with during(SAMPLE):
                for index in indices:
                    path, *rest = self._values(operator.index(index))
                    place = self._place(index)
                    tickets.append(self._files.add_file(os.fspath(path), place, self._came[place]))
                    self._came[place] += 1
                    values.append(tuple(rest))
            self._loader.submit(tickets)
        except Exception:
            self._turns.append((None, indices))
        else:
            self._turns.append((tickets[-1] + 1, values))

    def end_epoch(self) -> None:
        self._loader.end_epoch()

    def next(self, timeout: float = 0.0) -> Any:
        if not self._turns:
            return None
        end, values = self._turns[0]
        if end is None:
            self._turns.popleft()
            with during(SAMPLE):
                samples = self._fetch(values)
            self._fetched["batches"] += 1
            self._fetched["samples"] += len(samples)
            return None, samples
        try:
            made = self._loader.next(timeout)
        except TimeoutError as error:
            if error.errno is not None:
                self._drop(end)
            raise
        except Exception:
            self._drop(end)
            raise
        self._drop(end)
        return None if made is None else (made[0], values)

    def close(self) -> None:
        self._loader.close()

    def snapshot(self) -> dict[str, Any]:
        return self._loader.snapshot()

    def clocks(self) -> list[Any]:
        return self._loader.clocks()

    def _drop(self, end: int) -> None:
        self._turns.popleft()
        self._files.drop_before(end)

    def stats(self) -> dict[str, Any]:
        stats = self._loader.stats()
        return {**stats, **{name: stats[name] + count for name, count in self._fetched.items()}}


@dataclass(frozen=True)
class ItemSpec(ImageSpec):
    """`values`: of an index, the path of its file and the sample's other values; `fetch`: makes a batch's
    samples in Python.
    """

    values: Callable[[int], tuple[Any, ...]] = lambda index: ()
    item_count: int = 0
    fetch: Callable[[Any], list[Any]] = list
    leaves_out = False

    def core(self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str) -> Core:
        return ItemCore(self, threads, self.slots(batch_size), on_error, drop_last, memory)

    def collated(self, made: tuple[Any, Any]) -> Any:
        return made if made[0] is None else super().collated(made)
