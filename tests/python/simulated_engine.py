"""Engines without threads or processes, for tests of order: workers are queues, answers come in any order."""

from __future__ import annotations

import random
from collections import deque
from types import SimpleNamespace

from millrace._loader.engine import NeedsIndex
from millrace._loader.engines.workers import Answer, WorkerEngine


class Places:
    last, ended = -1, frozenset()

    def arrived(self, worker):
        pass

    def has_ended(self, worker, state):
        pass


def setup_of(workers, prefetch=2, in_order=True, on_error="raise", tuned=False):
    loader = SimpleNamespace(
        prefetch_factor=prefetch, in_order=in_order, persistent_workers=False, batch_size=1, drop_last=False
    )
    tuning = SimpleNamespace(room=SimpleNamespace(tunes_threads=False)) if tuned else None
    progress = SimpleNamespace(
        positions=Places(),
        starts=lambda seed: None,
        keeps_workers=False,
        place_of=lambda number: (0, number),
    )
    return SimpleNamespace(
        loader=loader,
        threads=workers,
        on_error=on_error,
        prefix=None,
        progress=progress,
        record=SimpleNamespace(tuning=tuning),
    )


class SimulatedEngine(WorkerEngine):
    """`shares`: how many lists each worker can serve before its part of a stream ends; None: any number.

    `log`: (worker, task, index, turn) as they were sent.
    """

    pins = False

    def __init__(self, setup, seed=0, shares=None):
        super().__init__(setup)
        self.queues = [deque() for _ in range(setup.threads)]
        self.shares = list(shares) if shares is not None else None
        self.random = random.Random(seed)
        self.log = []
        self.resumed = 0

    def _send(self, worker, task, place, index, turn):
        self.log.append((worker, task, index, turn))
        self.queues[worker].append((task, index))

    def _resume(self, shared_seed):
        self.resumed += 1
        for queue in self.queues:
            queue.clear()

    def _dismiss(self, worker):
        pass

    def _on_their_way(self):
        return 0

    def _receive(self, deadline, timeout):
        worker = self.random.choice([n for n, queue in enumerate(self.queues) if queue])
        task, index = self.queues[worker].popleft()
        if self.shares is not None:
            if self.shares[worker] == 0:
                self.queues[worker].clear()
                self._ended(worker, None)
                return
            self.shares[worker] -= 1
        self._arrived(task, Answer(1, [], index, None), worker)

    def rows(self):
        return []

    def snapshot(self, stacks):
        return {}

    def close(self):
        pass


def drained(engine, indices, depth):
    """(worker, index) of everything that is delivered, with `depth` lists out, as the iterator does it."""
    indices, found = iter(indices), []

    def put():
        if (index := next(indices, None)) is not None:
            engine.submit(index)

    for _ in range(depth):
        put()
    while (delivered := engine.next(0.0)) is not None:
        if not isinstance(delivered, NeedsIndex):
            found.append((delivered.worker, delivered.value()))
        put()
    return found
