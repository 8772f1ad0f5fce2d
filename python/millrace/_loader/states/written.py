"""What a Progress writes: the state of its loader, as torchdata nests it, and what that has no place for; and
what it tells the history recorder: each epoch's beginning, and of each batch which samples it was made of.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

from ..._common.states import put_back, signed, state_of
from ..._tools.history.recorder import EpochLog, recorder_of
from .epochs import WorkerPositions
from .saved import VERSION, fingerprint


def dataset_parts(fetcher: Any, streams: bool) -> tuple[Any, Any]:
    """(the dataset's state, its iterator's as torchdata nests it) in the fetcher that runs it."""
    if not streams:
        return state_of(fetcher.dataset), None
    iterator = fetcher.dataset_iter
    return (
        None if iterator is fetcher.dataset else state_of(fetcher.dataset),
        {"dataset_iter_state": state_of(iterator), "fetcher_ended": fetcher.ended},
    )


def put_dataset_back(dataset: Any, saved: Any) -> None:
    """To where `saved`, a SavedState or None, is in the middle of an epoch: after torch's draws, because the
    dataset may hold the state of torch's generator.
    """
    if saved is not None and not saved.finished:
        put_back(dataset, saved.dataset_state)


def put_fetcher_back(fetcher: Any, saved: Any, streams: bool) -> None:
    parts = None if saved is None or not streams else saved.fetcher_state
    if parts is None:
        return
    if not saved.finished:
        put_back(fetcher.dataset_iter, parts["dataset_iter_state"])
        fetcher.ended = parts["fetcher_ended"]
    elif fetcher.dataset_iter is fetcher.dataset:
        put_back(fetcher.dataset, parts["dataset_iter_state"])
        fetcher.dataset_iter = iter(fetcher.dataset)


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
    """Base of Progress. `number`: of the epoch, counted over all iterators of the loader, also before it was
    resumed; -1 before the first. `log` is None where nothing is remembered (history=False).
    """

    saved: Any
    workers: int
    streams: bool
    epoch: int
    number: int
    log: EpochLog | None
    finished: bool
    positions: WorkerPositions
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

    workers_then = 0  # whom a batch is made again for: how many workers there were, if not as many as now
    draws: Any = None  # and where the generators stood

    _forgotten = {
        "log": None,
        "_recorder": None,
        "_dataset": None,
        "iterator": type(None),
    }  # what a pickled copy has instead

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
        self.positions.check()
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
            "_last_yielded_worker_id": self.positions.last,
            "_main_snapshot": {
                "_num_workers": self.workers,
                **{key: cursor[key] for key in _CURSOR_KEYS},
                "_IterableDataset_len_called": None,
                "_shared_seed": self._shared_seed,
                "_base_seed": self._base_seed,
            },
            "_worker_snapshots": self.positions.states(),
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
        if self.positions.ended and not self.finished:
            own["ended_workers"] = sorted(self.positions.ended)
        made = self.left_out() if self._left_out_then is None else self._left_out_then
        if left_out := made - self._left_out_before_epoch + self.left_out_before:
            own["left_out"] = left_out
        return own

    # ---------------------------------------------------------------- history

    def _begin_remembering(self, loader: Any, previous: Written | None) -> None:
        self._recorder, self.log = recorder_of(loader), None
        self.number = -1 if previous is None else previous.number
        self._iterator_seed, self._dataset = 0, None
        self.iterator: Callable[[], Any] = type(None)  # the one that this is the progress of, while it lives

    def worker_number(self, number: int) -> int:
        """What the iterator's worker `number` is called in get_worker_info()."""
        return number

    @property
    def log_wanted(self) -> bool:
        return self._recorder is not None

    def _begin_log(self, start: Any, steps: Any) -> None:
        """`start`: what an epoch is resumed from; `steps`: that all ranks agreed on."""
        if start is not None and not self.saved.finished:
            self.number = max(0, self.saved.number)
        else:
            self.number = 1 + max(self.number, -1 if start is None else self.saved.number)
        if self._recorder is not None:
            self.log = self._recorder.begin(
                self.number, self, self._iterator_seed, self._yielded, self._dataset
            )
            self.log.agreed_steps = steps

    def remember_start(self) -> None:
        """The state at the epoch's beginning. A dataset that cannot say where it stands says so in
        state_dict().
        """
        log = self.log
        if log is None or log.start is not None or log.count > log.first or self.finished:
            return
        with contextlib.suppress(Exception):
            state = self._state()
            if "left_out" in state["millrace"]:  # the first batch's are among them
                state["millrace"]["left_out"] = self.left_out_before
            log.start = state

    def _remember(self, log: EpochLog, rows: Any, worker: int | None, draws: Any) -> None:
        """After a batch is delivered."""
        log.engine_epoch = self.epoch  # of iterators that stay, known after the epoch's beginning
        log.handed_out(self._yielded - 1, rows, -1 if worker is None else worker, draws)
        if self._asks_workers and log.wants_state(self._yielded):
            log.keep_state(self._yielded, self._state())
