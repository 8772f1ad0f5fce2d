"""Random generators, torch's and Python's: their states, as text too, and draws that leave them alone."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ..errors import StateError


def packed(state: torch.Tensor | None) -> str | None:
    """A generator's state (uint8) as text of about 3.4 kB: half of its 5 kB are zero bytes."""
    return (
        None if state is None else base64.b64encode(zlib.compress(state.numpy().tobytes(), 1)).decode("ascii")
    )


def unpacked(text: str | None) -> Any:
    """The reverse, a tensor or None; StateError for what packed() did not make."""
    if text is None:
        return None
    try:
        return torch.frombuffer(
            bytearray(zlib.decompress(base64.b64decode(text, validate=True))), dtype=torch.uint8
        )
    except Exception as error:
        raise StateError(
            f"the state of a random generator cannot be read ({error}); the saved state is damaged"
        ) from error


@contextlib.contextmanager
def global_generator_at(state: torch.Tensor | None) -> Iterator[None]:
    """torch's global CPU generator is at `state` inside, and where it was afterwards. None: nothing is
    done.
    """
    if state is None:
        yield
        return
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(before)


def draw_base_seed(generator: Any = None) -> int:
    """As torch's iterators draw it."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def generator_states(own: dict[str, torch.Generator], pythons: bool) -> dict[str, torch.Tensor]:
    """Of `own`, by their names; of torch's global one, as "global"; `pythons`: and of those of the modules
    random and numpy.random, as "python".
    """
    states = {name: generator.get_state() for name, generator in own.items()} | {
        "global": torch.get_rng_state()
    }
    if pythons:
        version, words, gauss = random.getstate()
        numpys = np.random.get_state(legacy=False)
        # it may have been exchanged, and then it stays as it is
        mersenne = numpys["bit_generator"] == "MT19937"
        state = numpys["state"]
        kept = (
            [state["key"].tolist(), int(state["pos"]), numpys["has_gauss"], numpys["gauss"]]
            if mersenne
            else None
        )
        states["python"] = torch.frombuffer(
            bytearray(json.dumps([version, words, gauss, kept]), "ascii"), dtype=torch.uint8
        )
    return states


@contextlib.contextmanager
def generators_at(states: dict[str, torch.Tensor | None]) -> Iterator[None]:
    """The global generators are at `states` inside, as generator_states() gave them, and where they were
    afterwards.
    """
    before = generator_states({}, pythons=states.get("python") is not None)
    _put(states)
    try:
        yield
    finally:
        _put(before)


def _put(states: Mapping[str, torch.Tensor | None]) -> None:
    if (torchs := states.get("global")) is not None:
        torch.set_rng_state(torchs)
    if (pythons := states.get("python")) is not None:
        version, words, gauss, numpys = json.loads(pythons.numpy().tobytes())
        random.setstate((version, tuple(words), gauss))
        if numpys is not None:
            np.random.set_state(("MT19937", np.array(numpys[0], np.uint32), *numpys[1:]))


class EarlyDraws:
    """What a user's sampler draws in its __iter__, which torch calls before it draws the base seed.

    The iterator without workers reads from the very iterator that torch makes then. Made before it; `end`
    comes after torch's draws. `own`: generators by name; `saved`: their states and the global ones before
    the epoch that is resumed, if it had such draws.
    """

    def __init__(self, own: dict[str, torch.Generator], saved: dict[str, str | None] | None) -> None:
        self._own = own
        self._outside = None if saved is None else generator_states({}, pythons=True)
        if saved is not None:
            then = {name: unpacked(text) for name, text in saved.items()}
            for name, generator in own.items():
                if then.get(name) is not None:
                    generator.set_state(then[name])
            _put(then)
        self._before = generator_states(own, pythons=True)

    def end(self) -> tuple[dict[str, torch.Tensor] | None, dict[str, str | None]]:
        """(the states before the sampler drew, or None if it did not; with `saved`, the global ones that the
        first draw finds).

        The global generators are where they were before those that were saved.
        """
        expected, now = dict(self._before), generator_states(self._own, pythons=True)
        seeds = "loader" if "loader" in self._own else "global"
        twin = torch.Generator().set_state(expected[seeds])
        draw_base_seed(twin)
        expected[seeds] = twin.get_state()
        drew = any(not torch.equal(state, now[name]) for name, state in expected.items())
        found: dict[str, str | None] = {}
        if self._outside is not None:
            found = {name: packed(now[name]) for name in self._outside}
            _put(self._outside)
        return self._before if drew else None, found
