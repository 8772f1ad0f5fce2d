"""What a dataset that is Python code draws from the generators of torch, numpy and random, so that a batch can be made with the same draws.

Their states are read before each batch, but of those that the dataset leaves alone only before every 16th: torch's costs a microsecond,
random's ten, numpy's thirty.
"""

from __future__ import annotations

import pickle
import random
from array import array
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import torch

_AT_FIRST, _EVERY = 8, 16


class Draws(NamedTuple):
    """`states`: of the generators that the dataset draws from, by name, before a batch was made. `late`: one of them was found to be drawn
    from just now, so batches before may have drawn from it, too."""

    states: dict[str, Any]
    late: bool


class DrawWatch:
    """Of the one thread that makes batches."""

    def __init__(self) -> None:
        self._drawn: set[str] = set()
        self._tasks = 0
        self._then: dict[str, Any] = {}

    def before(self) -> Optional[Draws]:
        """A batch is about to be made. None: the dataset draws from no generator, as far as is known."""
        looks = self._looks()
        self._then = {name: get() for name, (get, _) in _GENERATORS.items() if looks or name in self._drawn}
        return Draws({name: self._then[name] for name in self._drawn}, False) if self._drawn else None

    def after(self, draws: Optional[Draws]) -> Optional[Draws]:
        """The batch is made; `draws`: what before() said. Returns what is to be remembered."""
        looks, self._tasks = self._looks(), self._tasks + 1
        if not looks:
            return draws
        new = {name for name, then in self._then.items() if name not in self._drawn and not _equal(_GENERATORS[name][0](), then)}
        if not new:
            return draws
        late = self._tasks > _AT_FIRST
        self._drawn |= new
        return Draws({name: self._then[name] for name in self._drawn}, late)

    def _looks(self) -> bool:
        return len(self._drawn) < len(_GENERATORS) and (self._tasks < _AT_FIRST or self._tasks % _EVERY == 0)


def put_back(draws: Union[None, bytes, Draws]) -> None:
    """The generators are where they were; `draws` may be pickled."""
    if isinstance(draws, bytes):
        draws = pickle.loads(draws)
    for name, state in ({} if draws is None else draws.states).items():
        _GENERATORS[name][1](state)


def size_of(draws: Union[None, bytes, Draws]) -> int:
    """Bytes, about."""
    if draws is None or isinstance(draws, bytes):
        return len(draws or b"")
    return sum(_BYTES[name] for name in draws.states)


def _torchs() -> Any:
    return torch.get_rng_state().numpy()


def _put_torchs(state: Any) -> None:
    torch.set_rng_state(torch.from_numpy(state.copy()))


def _randoms() -> Any:
    version, words, gauss = random.getstate()
    return version, array("I", words), gauss


def _put_randoms(state: Any) -> None:
    version, words, gauss = state
    random.setstate((version, tuple(words), gauss))


def _numpys() -> Any:
    return np.random.get_state(legacy=False)


_GENERATORS: dict[str, tuple[Any, Any]] = {
    "torch": (_torchs, _put_torchs),
    "numpy": (_numpys, np.random.set_state),
    "random": (_randoms, _put_randoms),
}
_BYTES = {"torch": 5200, "numpy": 3000, "random": 2800}


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)
