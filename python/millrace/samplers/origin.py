"""What an epoch was drawn from, when that is one of torch's generators: remembered at the draw, and drawn
from again on resume.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from .._common.generator_state import packed, unpacked
from ..errors import StateError


class Origin:
    """The origin of one epoch's order, with the draws of an ordinary epoch whether it is resumed or not.

    A generator of the sampler's own is put back to where it was before the epoch, so that the epochs after it
    are those of the run that was left, too. The global generator is the whole program's: it makes its
    ordinary draws from where it is.
    """

    def __init__(self, state: dict[str, Any], generator: torch.Generator | None) -> None:
        self._own = generator
        self._seed: int | None = state.get("seed")
        self._before = unpacked(state.get("generator"))  # the generator's state
        self._text: str | None = None  # the same, for state()

    def state(self) -> dict[str, Any]:
        """Part of the sampler's state: what was drawn from; nothing when nothing was drawn yet."""
        if self._before is not None:
            self._text = self._text or packed(self._before)
            return {"generator": self._text}
        return {} if self._seed is None else {"seed": self._seed}

    def own_generator(self) -> torch.Generator:
        """The sampler's generator, to be drawn from."""
        assert self._own is not None
        if self._before is None:
            self._before = self._own.get_state()
        else:
            self._own.set_state(self._before)
        return self._own

    def seed(self) -> int:
        """64 bits from the global generator or the sampler's own, as torch's RandomSampler draws them."""
        generator = None if self._own is None else self.own_generator()
        drawn = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
        if self._own is not None:
            return drawn
        if self._seed is None:
            self._seed = drawn
        return self._seed

    def draw(self, make: Callable[[torch.Generator | None], torch.Tensor]) -> torch.Tensor:
        """make(generator) from the sampler's generator, or with None from the global one."""
        if self._own is not None:
            return make(self.own_generator())
        if self._before is None:
            self._before = torch.default_generator.get_state()
            return make(None)
        make(None)
        again = torch.Generator()
        again.set_state(self._before)
        return make(again)


def check_origin(state: Mapping[str, Any], name: str) -> None:
    """StateError unless it says what was drawn from, if anything was."""
    seed, generator = state.get("seed"), state.get("generator")
    if not isinstance(seed, (int, type(None))) or not isinstance(generator, (str, type(None))):
        kinds = (
            f"a seed that is a {type(seed).__name__}, and a generator that is a {type(generator).__name__}"
        )
        raise StateError(f"the state of a {name} has {kinds}: it is damaged; load another one")
    if state["position"] > 0 and seed is None and generator is None:
        raise StateError(
            f"the state of a {name} at position {state['position']} has neither 'seed' nor 'generator', so"
            " its order is lost; load another one"
        )


def own_generator(sampler: Any) -> dict[str, Any]:
    """Part of a state: whether the sampler draws from a generator of its own."""
    return {"own_generator": sampler.generator is not None}
