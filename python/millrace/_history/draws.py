"""What a dataset that is Python code draws from the generators of torch, numpy and random, so that a batch
can be made with the same draws.

Their states are read before each batch (torch's costs a microsecond, random's ten, numpy's thirty), but not
of those that the first batches have left alone: these are only glanced at, around every 16th, later every
64th, which costs half a microsecond for each of random and numpy.
"""

from __future__ import annotations

import ctypes
import pickle
import random
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

_AT_FIRST = 8
_EVERY, _SELDOM, _LATER = 16, 64, 256  # so many tasks later


Draws = dict[str, Any]
"""States of the generators that the dataset draws from, by name, before a batch was made."""


class DrawWatch:
    """Of the one thread that makes batches. `before`: one of the same dataset, in an earlier epoch."""

    def __init__(self, before: DrawWatch | None = None) -> None:
        self._drawn: set[str] = set() if before is None else set(before._drawn)
        self.tasks: int = 0 if before is None else before.tasks  # that were done
        self.looking = False  # between before() and after(), which look at some of the generators
        self.due = 0  # before this task, counting `tasks` on does what before() and after() do
        self._then: dict[str, Any] = {}

    def before(self) -> Draws | None:
        """A batch is about to be made. None: the dataset draws from no generator, as far as is known."""
        tasks = self.tasks
        every = _EVERY if tasks < _LATER else _SELDOM
        due = tasks < _AT_FIRST or tasks % every == 0
        looks = self.looking = due and len(self._drawn) < len(_GENERATORS)
        if not looks and not self._drawn:
            self.due = tasks + every - tasks % every
            return None
        self._then = {name: self._reader(name)() for name in _GENERATORS if looks or name in self._drawn}
        return {name: self._then[name] for name in self._drawn} if self._drawn else None

    def after(self, draws: Draws | None) -> Draws | None:
        """Call this after the batch is made. `draws`: before()'s result. Returns the draws to remember."""
        if not self.looking:
            self.tasks += 1
            return draws
        new = {
            name
            for name, then in self._then.items()
            if name not in self._drawn and not _equal(self._reader(name)(), then)
        }
        whole = self.tasks < _AT_FIRST  # of a glance nothing can be put back
        self.tasks += 1
        self._drawn |= new
        return {name: self._then[name] for name in self._drawn} if new and whole else draws

    def _reader(self, name: str) -> Callable[[], Any]:
        generator = _GENERATORS[name]
        return generator.state if name in self._drawn or self.tasks < _AT_FIRST else generator.glance


def watch_of(log: Any) -> DrawWatch | None:
    """Of the training loop's thread, where an EpochLog remembers batches."""
    if log is None:
        return None
    log.recorder.watch = DrawWatch(log.recorder.watch)
    return log.recorder.watch


def put_back(draws: None | bytes | Draws) -> None:
    """The generators are where they were; `draws` may be pickled."""
    states = pickle.loads(draws) if isinstance(draws, bytes) else draws or {}
    for name, state in states.items():
        _GENERATORS[name].put_back(state)


def size_of(draws: None | bytes | Draws) -> int:
    """Bytes, about."""
    return len(draws) if isinstance(draws, bytes) else sum(_BYTES[name] for name in draws or ())


def _randoms() -> Any:
    version, words, gauss = random.getstate()
    return version, array("I", words), gauss


def _glance_at_randoms() -> Any:
    """The last words of the state and the place in them, which every draw moves, and what gauss() keeps."""
    _, words, gauss = random.getstate()
    return words[620:], gauss


def _put_randoms(state: Any) -> None:
    version, words, gauss = state
    random.setstate((version, tuple(words), gauss))


def _glance_at_numpys() -> Any:
    """The last words of the state and the place in them, which every draw moves; nothing of a generator of
    another kind.
    """
    generator = np.random.mtrand._rand._bit_generator
    return (
        ctypes.string_at(generator.ctypes.state_address + 620 * 4, 5 * 4)
        if type(generator) is np.random.MT19937
        else None
    )


class _Generator(NamedTuple):
    state: Callable[[], Any]
    put_back: Callable[[Any], None]
    glance: Callable[[], Any]


_GENERATORS = {
    "torch": _Generator(
        lambda: torch.get_rng_state().numpy(),
        lambda state: torch.set_rng_state(torch.from_numpy(state.copy())),
        lambda: torch.get_rng_state().numpy().tobytes(),  # which are compared in no time
    ),
    "numpy": _Generator(lambda: np.random.get_state(legacy=False), np.random.set_state, _glance_at_numpys),
    "random": _Generator(_randoms, _put_randoms, _glance_at_randoms),
}
_BYTES = {"torch": 5200, "numpy": 3000, "random": 2800}


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)
