"""What all samplers of this package share: states that are checked, and a next iterator that may go on where
another stopped.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from .._common.checksum import signing, unsigned_state, verified
from ..errors import StateError
from .iterators import ResumableIterator, SamplerIterator
from .origin import check_origin
from .readers import Reader

VERSION = 1
_MOST_RANKS = 1 << 16


class Resumable:
    """Mixin before torch's class. Its own values lie in slots, so that they are no part of the attributes
    torch's class has.
    """

    __slots__ = ("_latest", "_pending", "_begun")

    _whole_numbers: tuple[str, ...] = ("position",)  # whole numbers in a state
    _ends_at_length = True  # whether the length is known for sure
    _state_is_json = True
    _draws_from_torch = False  # and from what an epoch was drawn is part of a state
    seekable = (
        False  # whether a state stays true when a multiple of the number of ranks is taken from its position
    )

    _iterator: type[ResumableIterator] = SamplerIterator
    _latest: Any  # the iterator that state_dict() is of
    _pending: dict[str, Any] | None
    _begun: int  # the next iterator's number, which is the epoch of samplers that have no set_epoch()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = list(inspect.signature(cls.__init__).parameters.values())[1:]
        cls.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]  # else help() shows that of __new__

    def __new__(cls, *_: Any, **__: Any) -> Any:
        self = super().__new__(cls)
        self._latest, self._pending, self._begun = None, None, 0
        return self

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return dict(self.__dict__), {"_latest": None, "_pending": self._pending, "_begun": self._begun}

    @signing
    def state_dict(self) -> dict[str, Any]:
        """A small dict of what json can write: where the latest iterator is, or the loaded state that the
        next one goes on from, or else the beginning of the epoch.
        """
        if self._pending is not None:
            return dict(self._pending)
        if self._latest is not None:
            return unsigned_state(self._latest)
        return {**self._head(), "position": 0}

    def load_state_dict(self, state: Mapping[str, Any], verify: bool = True) -> None:
        """The next iterator goes on where `state` was taken; those after it are ordinary epochs.

        StateError when the state is another sampler's: of another kind, version, length or seed, say; or when
        it is damaged, as its checksum says, unless `verify` is False.
        """
        try:
            rest = (
                verified(state, f"the {type(self).__name__}'s state", verify)
                if isinstance(state, Mapping)
                else state
            )
        except StateError:
            # of what is plainly wrong, or another sampler's, there is more to say
            copy.copy(self)._checked(state)
            raise
        self._pending = self._checked(rest)

    def _facts(self) -> dict[str, Any]:
        """What a state must agree with, besides kind and version."""
        raise NotImplementedError

    def _epoch(self) -> int:
        return self._begun

    def _head(self) -> dict[str, Any]:
        return {"version": VERSION, "kind": type(self).__name__, "epoch": self._epoch(), **self._facts()}

    def _checked(self, state: Mapping[str, Any]) -> dict[str, Any]:
        name = type(self).__name__
        if not isinstance(state, Mapping):
            raise StateError(f"the state of a {name} is a dict from state_dict(), not {type(state).__name__}")
        if "kind" not in state:
            raise StateError(
                f"this is no sampler's state: it has no 'kind'; give a {name} its own, and a loader's to the"
                " loader"
            )
        if state["kind"] != name:
            raise StateError(
                f"this is the state of a {state.get('kind')}, and this sampler is a {name}; build the sampler"
                " it is from"
            )
        if state.get("version") != VERSION:
            raise StateError(
                f"the state has version {state.get('version')}; this millrace reads version {VERSION}"
            )
        facts = self._facts()
        different = [
            f"{key}={state.get(key)!r} there, {value!r} here"
            for key, value in facts.items()
            if state.get(key) != value
        ]
        if different:
            raise StateError(
                f"the state is of another {name}: {'; '.join(different)}. Build it with the same arguments"
                " and data"
            )
        for key in ("epoch", *self._whole_numbers):
            if not isinstance(state.get(key), int) or isinstance(state.get(key), bool) or state[key] < 0:
                raise StateError(f"the state's {key} is a whole number of 0 or more, not {state.get(key)!r}")
        if self._draws_from_torch:
            check_origin(state, name)
        length = facts.get("length")
        # Of ranks, the last step may go beyond the end: of as many as there were then.
        beyond = _MOST_RANKS if isinstance(self, ResumableEpochs) or hasattr(self, "num_replicas") else 0
        if self._ends_at_length and isinstance(length, int) and state["position"] > length + beyond:
            raise StateError(
                f"the state's position is {state['position']}, behind the end of a {name} of length {length}"
            )
        return dict(state)

    def _resume(self) -> tuple[int, dict[str, Any]]:
        """(position, state) of the loaded state, once; else the beginning, and an empty one."""
        state, self._pending = self._pending or {}, None
        self._begun = state.get("epoch", self._begun)
        return state.get("position", 0), state

    def _follow(
        self,
        reader: Reader,
        tail: Callable[[], dict[str, Any]] = dict,
        item: Callable[[int], Any] | None = None,
    ) -> Any:
        """An iterator over `reader`, which is the latest from here on."""
        return self._is_latest(self._iterator.over(reader, self._head(), tail, item))

    def _is_latest(self, iterator: Any) -> Any:
        self._latest = iterator
        self._begun += 1
        return iterator


class ResumableEpochs(Resumable):
    """Samplers that shuffle by (seed, epoch): the epoch is an attribute."""

    __slots__ = ()

    epoch: int

    def _epoch(self) -> int:
        return self.epoch

    def load_state_dict(self, state: Mapping[str, Any], verify: bool = True) -> None:
        """As Resumable's; sets the epoch, too."""
        super().load_state_dict(state, verify)
        self.epoch = state["epoch"]

    def set_epoch(self, epoch: int) -> None:
        """Which order the iterators made from here on have; the same on all ranks. A loaded state of another
        epoch is given up.
        """
        if self._pending is not None and self._pending["epoch"] != epoch:
            warnings.warn(
                f"set_epoch({epoch}) gives up the loaded state of epoch {self._pending['epoch']}; start the"
                " loop at that epoch",
                stacklevel=2,
            )
            self._pending = None
        self.epoch = epoch
