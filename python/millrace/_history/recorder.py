"""BatchHistory: which samples the latest batches were made of, and where the run stood, in bounded memory.

Written by the consumer's thread, in the iterators' bookkeeping (_loader/states/progress.py); read by replay()
and dump_state(), from any thread for the latter. Costs a few microseconds for each batch, and with `hashes`
one pass over its bytes.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from array import array
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from .draws import DrawWatch, size_of
from .hashes import BatchHash

# All that have been iterated over, by id: dump_state() and dump_on_signal() speak of them.
LOADERS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_LISTS = frozenset((int, array, np.ndarray))  # types with a fixed size
_MOST_EPOCHS = 512  # epochs with a remembered beginning
_MOST_STATES = 128  # of one epoch; more are thinned out


class Step:
    """One batch that was handed out, or the error in its place.

    `given`: an index list, as the sampler gave it or int64; (file indices, occurrences) as engines have them,
    both arrays, occurrences None where each is the first; Names; None: not known. `worker`: the number of the
    worker that made it, -1: none. `draws`: from draws.py, of the generators before it was made.

    `exact`: whether `rows` are indices of the engine's files, each as its occurrence in `occurrences`;
    `rows` is None of a stream, which has `names`.
    """

    __slots__ = ("exact", "rows", "occurrences", "names", "worker", "draws", "digest", "bytes")

    def __init__(self, given: Any, worker: int = -1, draws: Any = None) -> None:
        self.exact = _is_exact(given)
        self.names: Names | None = given if type(given) is Names else None
        self.rows: Any = None if self.names is given else given
        self.occurrences: Any = None
        if self.exact:
            self.rows, self.occurrences = given
        self.worker = worker
        self.draws = draws
        self.digest: BatchHash | None = None
        self.bytes = _size(given) if draws is None else _size(given) + size_of(draws)

    def indices(self) -> Any:
        """As a list of ints where they are that."""
        rows = self.rows
        return rows.tolist() if isinstance(rows, (array, np.ndarray)) else rows


class EpochLog:
    """An epoch, from where this loader's part of it begins (`first`, 0 unless it was resumed).

    `start`: the state there, and `states` those of later steps (of datasets that have a place); `count`:
    steps up to the one handed out last; `base_seed`, `engine_epoch`, `shared_seed`: as its iterator had them;
    `dataset_epoch`: of a map-style dataset with epochs.
    """

    def __init__(
        self,
        recorder: BatchHistory,
        number: int,
        progress: Any,
        iterator_seed: int,
        first: int,
        dataset: Any,
    ) -> None:
        self.recorder = recorder
        self.number, self.first, self.count = number, first, first
        self.base_seed, self.shared_seed = iterator_seed, progress._shared_seed
        self.engine_epoch, self.workers, self.began_in = progress.epoch, progress.workers, progress.began_in
        has_epochs = callable(getattr(dataset, "set_epoch", None))
        self.dataset_epoch = getattr(dataset, "epoch", None) if has_epochs else None
        self.start: dict[str, Any] | None = None
        self.agreed_steps: Any = None  # of equal_steps
        # Step; or only (index list, worker), or the list alone, where nothing else is known
        self.steps: dict[int, Any] = {}
        self.oldest = first  # of the steps that may be among them
        self.states: dict[int, dict[str, Any]] = {}
        self._states_every = recorder.states_every
        self.made = first  # batches, or errors in their places, that are on their way to the consumer
        self.at = time.monotonic()  # when the last batch was handed out, or the epoch began
        self._early: dict[int, BatchHash] = {}  # of batches that wait elsewhere for the consumer

    def wants_state(self, step: int) -> bool:
        return self._states_every > 0 and step % self._states_every == 0

    def keep_state(self, step: int, state: dict[str, Any]) -> None:
        self.states[step] = state
        if len(self.states) > _MOST_STATES:
            self._states_every *= 2
            self.states = {at: kept for at, kept in self.states.items() if at % self._states_every == 0}

    def hash(self, batch: Any, asked: float | None) -> None:
        """The batch that was made last, before anybody can change it; for a recorder with `hashes`. `asked`:
        None where an error came in its place.
        """
        if asked is None:
            return
        number, digest = self.made - 1, BatchHash.of(batch)
        step = self.steps.get(number)
        if type(step) is not Step:
            self._early[number] = digest
            return
        self._hashed(number, step, digest)

    def _hashed(self, number: int, step: Step, digest: BatchHash) -> None:
        step.digest = digest
        step.bytes += digest.nbytes
        self.recorder.bytes += digest.nbytes
        self.recorder.write(self, number, step)

    def handed_out(self, number: int, rows: Any, worker: int, draws: Any) -> None:
        """`rows`: as Step has them."""
        recorder, kind = self.recorder, type(rows)
        tells = recorder.hashes or recorder.file is not None
        if kind is list and rows and type(rows[0]) is int:
            try:
                rows, kind = array("q", rows), array  # a quarter of the memory
            except (TypeError, OverflowError):
                pass
        kept: Any
        if draws is None and kind in _LISTS and not tells:  # most steps
            size = 400 if kind is int else 300 + (8 * len(rows) if kind is array else rows.nbytes)
            kept = rows if worker < 0 else (rows, worker)
        else:
            kept = Step(rows, worker, draws)
            size = kept.bytes
        self.steps[number] = kept
        self.count, self.at = number + 1, time.monotonic()
        order = recorder.order
        order.append((self, size))
        recorder.bytes += size
        if len(order) > recorder.max_steps or recorder.bytes > recorder.memory:
            recorder.forget_oldest()
        if not tells:
            return
        if recorder.hashes:
            digest = self._early.pop(number, None)
            if digest is not None:
                self._hashed(number, kept, digest)
        else:
            recorder.write(self, number, kept)

    def step(self, number: int) -> Step | None:
        """The record of step `number`; None if there is none."""
        kept = self.steps.get(number)
        if kept is None or type(kept) is Step:
            return kept
        return Step(*kept) if type(kept) is tuple else Step(kept)

    @property
    def nearest_states(self) -> dict[int, dict[str, Any]]:
        """All of them, the start's included, by step."""
        return self.states if self.start is None else {self.first: self.start, **self.states}


class Names(list):
    """(shard, key) of each sample of a batch."""


class BatchHistory:
    """What a loader remembers of the batches it has handed out; for `DataLoader(history=...)`, one of its own
    for each loader.

    Args:
        steps: how many of the latest batches keep their index lists. Older steps of an epoch can be replayed,
            too: their indices are drawn again, by a copy of the sampler.
        hashes: each batch is hashed when it is handed out, one pass over its bytes in the consumer's thread,
            about 10 GB/s.
        file: a line of JSON is appended for each batch: {"epoch", "step", "time", "indices" or "samples",
            "worker", "hash", "fields"}. One file for each rank.
        memory: bytes that the index lists may take, with the hashes.
        states_every: of streams, and other datasets with a place, the state of every so many steps is kept
            (of at most 128 steps of an epoch, evenly): a replay goes on from there. 0: only each epoch's
            beginning.
        stuck_after: warns, through the logger "millrace", of samples (in Python: index lists) on which a
            thread or process of this loader has been working for more than so many seconds.
    """

    def __init__(
        self,
        steps: int = 4096,
        *,
        hashes: bool = False,
        file: None | str | os.PathLike[str] = None,
        memory: int = 32 << 20,
        states_every: int = 64,
        stuck_after: float | None = None,
    ) -> None:
        for name, value in (("steps", steps), ("memory", memory), ("states_every", states_every)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name}={value!r}: give a number from 0 on")
        if stuck_after is not None and not stuck_after > 0:
            raise ValueError(f"stuck_after={stuck_after!r}: give a number of seconds, or None")
        self.max_steps, self.memory = steps, memory
        self.states_every, self.stuck_after = states_every, stuck_after
        self.hashes = bool(hashes)
        self.file = None if file is None else os.fspath(file)
        self._file: Any = None
        self.forget()

    def forget(self) -> None:
        """Forget everything that was remembered."""
        self.epochs: dict[int, EpochLog] = {}
        self.bytes = 0
        self.watch: DrawWatch | None = None  # of the latest epoch without workers
        # The log of each step that was handed out, and the step's bytes without a hash, in order.
        self.order: deque[tuple[EpochLog, int]] = deque()

    def begin(self, number: int, progress: Any, iterator_seed: int, first: int, dataset: Any) -> EpochLog:
        """Begin an epoch, or go on with it. If an epoch is begun again, the steps known before are forgotten
        from there on.
        """
        log = EpochLog(self, number, progress, iterator_seed, first, dataset)
        self.epochs.pop(number, None)
        self.epochs[number] = log
        if len(self.epochs) > _MOST_EPOCHS:
            del self.epochs[next(iter(self.epochs))]
        for old in islice(reversed(self.epochs), 2, 3):  # those before it have none any more
            self.epochs[old].states.clear()
        return log

    def forget_oldest(self) -> None:
        """Forget the oldest steps until the rest is as little as it should be."""
        order = self.order
        while order and (len(order) > self.max_steps or self.bytes > self.memory):
            log, size = order.popleft()
            kept, log.oldest = log.steps.pop(log.oldest, None), log.oldest + 1
            self.bytes -= kept.bytes if type(kept) is Step else size

    def write(self, log: EpochLog, number: int, step: Step) -> None:
        if self.file is None:
            return
        if self._file is None or self._file[0] != os.getpid():
            self._file = os.getpid(), open(self.file, "a", buffering=1, encoding="utf-8")
        line = {"time": time.time(), **described(log, number, step)}
        self._file[1].write(json.dumps(line, default=repr) + "\n")

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or one in another process, remembers nothing of this one's past."""
        names = ("hashes", "file", "memory", "states_every", "stuck_after")
        return {"steps": self.max_steps, **{name: getattr(self, name) for name in names}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def described(log: EpochLog, number: int, step: Step) -> dict[str, Any]:
    """The known facts of a step, in JSON's types if the sampler's indices have these."""
    result: dict[str, Any] = {"epoch": log.number, "step": number}
    if step.names is not None:
        result["samples"] = [list(name) for name in step.names]
    elif step.rows is not None:
        result["indices"] = step.indices()
        if step.occurrences is not None:
            result["occurrences"] = step.occurrences.tolist()
    result["worker"] = step.worker
    result["seed"] = log.base_seed
    result["hash"] = None if step.digest is None else step.digest.text
    if step.digest is not None:
        result["fields"] = step.digest.field_texts()
    return result


def recorder_of(loader: Any) -> BatchHistory | None:
    """The one of a loader, made when it is first asked for; None with history=False."""
    setting = getattr(loader, "history", None)
    if setting is True:
        setting = loader.__dict__["history"] = BatchHistory()
    return setting if isinstance(setting, BatchHistory) else None


def _is_exact(given: Any) -> bool:
    return type(given) is tuple and len(given) == 2 and isinstance(given[0], np.ndarray)


def _size(given: Any) -> int:
    """Bytes of a step that holds no more than that, about."""
    kind = type(given)
    if kind is int:
        return 400
    if kind is array:
        return 300 + 8 * len(given)
    if given is None:
        return 300
    if isinstance(given, np.ndarray):  # as native engines have them
        return 300 + given.nbytes
    if _is_exact(given):
        return 300 + sum(part.nbytes for part in given if part is not None)
    return 300 + (100 * len(given) if isinstance(given, Sequence) else 100)
