"""One iterator's way through an epoch of a pipeline, and the state that says where it stands."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millrace.errors import StateError

from ..._common.states import verified
from .flow import Flow, Position, Stage
from .split import Reader

VERSION = 1


@dataclass
class Run:
    """`source`, `stages`: in place of the dataset's own. `most`: items of an epoch, as Chain's."""

    source: Any = None
    stages: tuple[Stage, ...] | None = None
    most: int | None = None
    begun: bool = False
    ended: bool = False
    epoch: int = 0
    repetition: int = 0  # of the data, within the epoch
    given: int = 0
    given_now: int = 0  # in this repetition
    reader: Reader = Reader()
    flow: Flow | None = None

    def state(self) -> dict[str, Any]:
        reader = self.reader
        return {
            "version": VERSION,
            "epoch": self.epoch,
            "repetition": self.repetition,
            "given": [self.given, self.given_now],
            "places": [] if self.flow is None else self.flow.position(),
            "reader": [reader.rank, reader.ranks, reader.worker, reader.workers],
        }

    def go_on(self, state: Mapping[str, Any]) -> Position:
        """Takes up such a state; the entries of its position. StateError for another reader's."""
        then, now = Reader(*state["reader"]), self.reader
        if then != now:
            raise StateError(
                f"the state is that of {then}, and this is {now}; load the DataLoader's state, with as many"
                " workers and ranks as then"
            )
        self.repetition, (self.given, self.given_now) = state["repetition"], state["given"]
        return state["places"]


def checked_state(state: Any, name: str, described: list[str], verify: bool) -> dict[str, Any]:
    """A copy of `state`. StateError when it is of another version, or of another pipeline than `described`,
    or damaged, as its checksum says unless `verify` is False.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"the state of a {name} is a dict from state_dict(), not {type(state).__name__}")
    if state.get("version") != VERSION:
        raise StateError(
            f"this state has version {state.get('version')!r}, and this millrace reads version {VERSION}"
            f" of a {name}'s"
        )
    state = verified(state, f"the {name}'s state", verify)
    _check_types(state, name)
    if state.get("pipeline", described) != described:
        raise StateError(
            f"the state was saved for the pipeline {' | '.join(map(str, state['pipeline']))}, and this"
            f" one is {' | '.join(described)}; resume with the same shards, seed and stages"
        )
    return copy.deepcopy(state)


def _check_types(state: Mapping[str, Any], name: str) -> None:
    """StateError unless it has the numbers of a position, all of them or, at the start of an epoch, none but
    the epoch's.
    """
    of_position = {"repetition": 1, "given": 2, "places": None, "reader": 4, "pipeline": None}
    missing = [key for key in of_position if key not in state]
    if missing and len(missing) < len(of_position):
        raise StateError(f"the state of a {name} lacks {', '.join(missing)}: it is damaged; load another one")
    for key, count in {"epoch": 1, **({} if missing else of_position)}.items():
        value = state.get(key)
        numbers = [value] if count == 1 else value
        fits = isinstance(numbers, (list, tuple)) and count in (None, len(numbers))
        if not fits or (
            count is not None and not all(type(number) is int and number >= 0 for number in numbers)
        ):
            raise StateError(f"the state of a {name} has {key!r} {value!r}: it is damaged; load another one")
