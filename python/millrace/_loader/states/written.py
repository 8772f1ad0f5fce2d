"""What a Progress writes: the state of its loader, as torchdata nests it, and what that has no place for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..._common.checksum import signed
from .dataset_parts import dataset_parts
from .saved import VERSION, fingerprint
from .worker_places import WorkerPlaces

_CURSOR_KEYS = ("_index_sampler_state", "_sampler_iter_state", "_sampler_iter_yielded")
_ORDER_KEYS = (
    "samples",
    "ranks",
    "sampler_epoch",
    "generators",
    "drew_when_made",
    "iterated_anew",
    "pending",
    "again",
)


class Written:
    """Base of Progress: reads what it keeps, and changes nothing."""

    workers: int
    streams: bool
    epoch: int
    number: int
    finished: bool
    places: WorkerPlaces
    left_out: Callable[[], int]
    _asks_workers: bool
    _keeps_items: bool
    _every: int
    _yielded: int
    _cursor: Any  # the IndexCursor, once there is one
    _behind: dict[str, Any] | None
    _snapshot: Any
    _held: Any
    _parts: tuple[Any, Any]
    _inline: Callable[[], Any]
    _base_seed: int | None
    _shared_seed: int | None
    _dataset_epoch: int | None
    _left_out_then: int | None
    _left_out_before_epoch: int

    @property
    def left_out_before(self) -> int:
        raise NotImplementedError

    def state(self, loader: Any) -> dict[str, Any]:
        """A new dict, which nothing changes later, with its checksum; of JSON's types, if what users' objects
        put into it is.
        """
        # else it has what users made
        of_json = not self._asks_workers and not self._keeps_items and self._cursor.known_throughout
        state = self._shared_state() if of_json else self._state()
        state["millrace"]["fingerprint"] = fingerprint(loader)
        return signed(state, of_json)

    def _state(self) -> dict[str, Any]:
        return copy.deepcopy(self._shared_state())

    def _shared_state(self) -> dict[str, Any]:
        self.places.check()
        if self.workers == 0:
            return self._inline_state()
        snapshot = dict(self._now() if self._every == 1 else self._snapshot)
        return {
            "_snapshot": snapshot,
            "_steps_since_snapshot": self._yielded - snapshot["_snapshot_step"],
            "_iterator_finished": self.finished,
            "millrace": snapshot.pop("millrace"),
        }

    def _inline_state(self) -> dict[str, Any]:
        cursor = self._behind or self._cursor.state()
        live = self._inline() is not None and self._held is None
        dataset_state, fetcher_state = (
            dataset_parts(self._inline().fetcher, self.streams) if live else self._parts
        )
        return {
            **{key: cursor[key] for key in _CURSOR_KEYS},
            "_num_yielded": self._yielded,
            "_IterableDataset_len_called": None,
            "_shared_seed": self._shared_seed,
            "fetcher_state": fetcher_state,
            "dataset_state": dataset_state,
            "_iterator_finished": self.finished,
            "millrace": self._own(cursor),
        }

    def _now(self) -> dict[str, Any]:
        """A snapshot of the step that the consumer is at."""
        cursor = self._behind or self._cursor.state()
        return {
            "_snapshot_step": self._yielded,
            "_last_yielded_worker_id": self.places.last,
            "_main_snapshot": {
                "_num_workers": self.workers,
                **{key: cursor[key] for key in _CURSOR_KEYS},
                "_IterableDataset_len_called": None,
                "_shared_seed": self._shared_seed,
                "_base_seed": self._base_seed,
            },
            "_worker_snapshots": self.places.states(),
            "millrace": self._own(cursor),
        }

    def _own(self, cursor: dict[str, Any]) -> dict[str, Any]:
        """What torchdata's keys have no place for."""
        order = {key: cursor[key] for key in _ORDER_KEYS if key in cursor}
        own: dict[str, Any] = {
            "version": VERSION,
            "base_seed": self._base_seed,
            "epoch": self.epoch,
            "number": self.number,
            "order": order,
        }
        if self._dataset_epoch is not None:
            own["dataset_epoch"] = self._dataset_epoch
        if self.places.ended and not self.finished:
            own["ended_workers"] = sorted(self.places.ended)
        made = self.left_out() if self._left_out_then is None else self._left_out_then
        if left_out := made - self._left_out_before_epoch + self.left_out_before:
            own["left_out"] = left_out
        return own
