"""From a stream's samples to batches: drawn, submitted to the engine, made, handed out.

A batch is drawn a few batches before its turn: its samples, their tickets, and the dataset's state behind it,
which becomes the loader's when the batch is handed out. An error in drawing comes when it is its batch's
turn, and ends the stream, as generators end.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from ... import _core
from ..._common.checksum import unsigned_state
from ..._profiling.stages import COLLATE, WAIT, during
from ..._tools.history.recorder import Names
from ...errors import CorruptDataError
from ..endings import closed_error
from ..plan import StreamJob
from ..plan.shard_stages import Picture

State = dict[str, Any]


@dataclass
class _Drawn:
    samples: list[tuple[Any, ...]]
    states: list[State]  # of the dataset: behind each sample, or only behind the last one
    behind: int = 0  # its last ticket + 1
    error: Exception | None = None


def fetcher_of(
    job: StreamJob, threads: int, memory: str, seed: int, timeout: float, convert: Any
) -> StreamFetcher:
    """What makes the batches of one epoch. `convert`: the loader's collate_fn, for batches that the dataset
    made.
    """
    return (StreamFetcher if job.handler is None else BackfillingFetcher)(
        job, threads, memory, seed, timeout, convert
    )


class StreamFetcher:
    """What torch's iterator asks for batches, and Progress for states: `fetch`, `dataset`, `dataset_iter`,
    `ended`.
    """

    def __init__(
        self, job: StreamJob, threads: int, memory: str, seed: int, timeout: float, convert: Any
    ) -> None:
        self._job, self._timeout = job, timeout
        self._convert = None if job.by_loader else convert
        self._tickets = _core.StreamSamples()
        self._state: State = unsigned_state(job.dataset)
        self._samples = job.samples()
        self._drawn: deque[_Drawn] = deque()
        self._ahead = job.slots + 1 if threads else 1
        self._drained = False
        self._seat = threading.RLock()  # the consumer's, inside fetch()
        self.ended = self.closed = False
        self.dataset = self
        self.dataset_iter = object()  # has no state of its own
        self.names = Names()  # of the samples in the batch that was made last
        self.engine = job.open(self._tickets, threads, memory)
        self.engine.start_epoch(seed, 0)

    def state_dict(self) -> State:
        return copy.deepcopy(unsigned_state(self._job.dataset) if self.ended else self._state)

    def load_state_dict(self, state: State) -> None:
        self._job.dataset.load_state_dict(state)

    def fetch(self, index: Any) -> Any:
        """The next batch. `index`, torch's, has nothing to say of a stream."""
        with self._seat:
            try:
                return self._fetched()
            finally:
                if self.closed:
                    self._let_go()

    def _fetched(self) -> Any:
        made = self._next_made()
        if made is None:
            self.ended = True
            raise StopIteration
        pictures, drawn = made
        self._state = drawn.states[-1]
        return self._collated(pictures, drawn.samples)

    def close(self) -> None:
        """Any thread. What has been drawn goes when the consumer is outside of fetch(): here, or behind
        it.
        """
        self.closed = True
        self.engine.close()
        if self._seat.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._seat.release()

    def _let_go(self) -> None:
        self._drawn.clear()
        self._tickets.drop_before(
            2**62
        )  # and with them shards that are open; who keeps the iterator does not keep these

    def _collated(self, pictures: torch.Tensor, samples: list[tuple[Any, ...]]) -> Any:
        place = self._job.position
        self.names = Names((sample[place].url, sample[place].key) for sample in samples)
        with during(COLLATE):
            batch = self._job.collated(pictures, samples)
            return batch if self._convert is None else self._convert(batch)

    def _next_made(self) -> tuple[torch.Tensor, _Drawn] | None:
        """The pictures of the batch whose turn it is; None at the end. Raises the batch's error, and has
        given it up then.
        """
        if self.closed and not self.ended:
            raise AssertionError(
                "Invalid iterator state: it was shut down before its last batch; make a new one, iter(loader)"
            )
        while not self._drained and len(self._drawn) < self._ahead:
            self._draw()
        if not self._drawn:
            return None
        first = self._drawn[0]
        if first.error is not None:
            self._drawn.popleft()
            raise first.error
        try:
            with during(WAIT):
                made = self.engine.next(self._timeout)
                if made is None:
                    raise closed_error()
        except Exception as error:
            if self.closed:  # by another thread: the batch was not given
                raise
            if isinstance(error, TimeoutError) and error.errno is None:  # the batch is still to come
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None
            self._give_up(first)
            self._state = first.states[-1]
            raise
        self._give_up(first)
        return made[0], first

    def _give_up(self, drawn: _Drawn) -> None:
        self._drawn.popleft()
        self._tickets.drop_before(drawn.behind)

    def _draw(self) -> None:
        try:
            drawn = self._take()
            if not drawn.samples:
                self._drained = True
                return
            tickets = [self._ticket(sample[self._job.position]) for sample in drawn.samples]
            drawn.behind = tickets[-1] + 1
            self.engine.submit(np.array(tickets, np.int64))
        except Exception as error:
            if self.closed:
                raise
            self._drained = True
            drawn = _Drawn([], [], error=error.with_traceback(None))
        self._drawn.append(drawn)

    def _take(self) -> _Drawn:
        """The samples of the next batch; none at the end."""
        job = self._job
        if job.in_lists:
            samples = next(self._samples, [])
        else:
            samples = list(islice(self._samples, job.batch_size))
            if len(samples) < job.batch_size and not job.partial:
                samples = []
        return _Drawn(samples, [unsigned_state(job.dataset)])

    def _ticket(self, picture: Any) -> int:
        if type(picture) is not Picture:
            raise TypeError(
                f"field {self._job.position!r} of a sample is not the shard's picture but"
                f' {type(picture).__name__}: select() replaced it. Give the loader native="never", or do that'
                " in map_tuple()"
            )
        return self._tickets.add(
            picture.content, picture.url, picture.key, picture.number, picture.number_of_pass
        )


@dataclass
class _Piece:
    pictures: torch.Tensor
    samples: list[tuple[Any, ...]]
    states: list[State]


class BackfillingFetcher(StreamFetcher):
    """With a handler for pictures that cannot be decoded: the others close up, so that batches are full and
    in the stream's order.

    The engine leaves holes in its batches. What is behind a hole moves up, across batches, which costs a copy
    of each, until a short batch of as many samples as were lost comes, drawn when they were: from there on
    the engine's batches are whole ones again.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pieces: deque[_Piece] = deque()
        self._short = 0  # samples that were lost and not drawn anew
        self._ended: int | None = None  # the repetition of the data that a handler ended
        self._given, given_now = self._state.get("given", [0, 0])
        self._repetition = self._state.get("repetition", 0) - (
            given_now == 0
        )  # the last one that gave a batch

    def _fetched(self) -> Any:
        job = self._job
        while job.most is None or self._given < job.most:
            rows, closed = self._gather()
            pictures, samples = self._assemble(min(rows, job.batch_size))
            if len(samples) == job.batch_size or (samples and job.partial):
                if self._state["repetition"] > self._repetition + 1:
                    break  # as in Python: data that gave nothing are not repeated
                self._repetition = self._state["repetition"]
                self._given += 1
                if job.most is not None:
                    self._state = {**self._state, "given": [self._given, self._given]}
                return self._collated(pictures, samples)
            if not closed:
                break
        self._end()

    def _gather(self) -> tuple[int, bool]:
        """Makes pieces until a batch is there. (rows at hand of the present repetition of the data, whether
        the next one has begun)
        """
        while True:
            numbers = [state.get("repetition") for piece in self._pieces for state in piece.states]
            rows = next((row for row, number in enumerate(numbers) if number != numbers[0]), len(numbers))
            if rows >= self._job.batch_size or rows < len(numbers):
                return rows, rows < len(numbers)
            try:
                piece = self._next_piece()
            except Exception:
                self._pieces.clear()
                raise
            if piece is None:
                return rows, False
            self._pieces.append(piece)

    def _end(self) -> None:
        self._job.dataset.end()
        self.ended = True
        raise StopIteration

    def _next_piece(self) -> _Piece | None:
        made = self._next_made()
        if made is None:
            return None
        pictures, drawn = made
        skipped = dict(self.engine.skipped)
        kept = []
        for row, state in enumerate(drawn.states):
            if self._ended is not None and state.get("repetition") == self._ended:
                continue
            if row not in skipped:
                kept.append(row)
            elif not self._goes_on_behind(skipped[row]):
                self._ended = state.get("repetition")
        if len(kept) == len(drawn.samples):
            return _Piece(pictures, drawn.samples, drawn.states)
        self._short += len(drawn.samples) - len(kept)
        return _Piece(
            pictures[kept], [drawn.samples[row] for row in kept], [drawn.states[row] for row in kept]
        )

    def _goes_on_behind(self, error: dict[str, Any]) -> bool:
        """The handler's answer. No ends the repetition of the data there; one that has no end, and the only
        one, the stream.
        """
        unreadable = CorruptDataError(error["reason"])
        unreadable.path, unreadable.offset = error["path"], error["offset"]
        try:
            goes_on = self._job.handler(unreadable)
        except Exception:
            self._stop()
            raise
        dataset = self._job.dataset
        if not goes_on and (not dataset.repeats or dataset.shards.resampled):
            self._stop()
        return goes_on

    def _stop(self) -> None:
        self._drained = True
        self._drawn.clear()

    def _assemble(self, count: int) -> tuple[torch.Tensor, list[tuple[Any, ...]]]:
        """The first `count` rows of all pieces."""
        pictures: list[torch.Tensor] = []
        samples: list[tuple[Any, ...]] = []
        while len(samples) < count:
            piece = self._pieces[0]
            rows = min(len(piece.samples), count - len(samples))
            pictures.append(piece.pictures[:rows])
            samples += piece.samples[:rows]
            if rows:
                self._state = piece.states[rows - 1]
            if rows == len(piece.samples):
                self._pieces.popleft()
            else:
                piece.pictures, piece.samples, piece.states = (
                    piece.pictures[rows:],
                    piece.samples[rows:],
                    piece.states[rows:],
                )
        return (
            pictures[0] if len(pictures) == 1 else torch.cat(pictures) if pictures else torch.empty(0)
        ), samples

    def _take(self) -> _Drawn:
        size, dataset = self._short or self._job.batch_size, self._job.dataset
        self._short = 0
        drawn = _Drawn([], [])
        for sample in islice(self._samples, size):
            drawn.samples.append(sample)
            drawn.states.append(unsigned_state(dataset))
        return drawn
