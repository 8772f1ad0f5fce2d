"""StreamEngine: a stream's samples are drawn, submitted to the C++ loader, made, delivered.

The dataset's own stages run as they are, in the consumer's thread, over samples whose pictures were not read
yet (Picture): shuffles, splits, labels, epochs and the position to resume at are the same objects' work. Only
what happens to the pictures is the loader's.

    shards ─▶ {"jpg": Picture, "cls": b"3"} ─▶ shuffle, decode the rest, to_tuple ─▶ (Picture, 3) ─▶ a ticket

A batch is drawn a few batches before its turn: its samples, their tickets, and the dataset's state behind it,
which becomes the loader's when the batch is handed out. An error in drawing comes when it is its batch's
turn, and ends the stream, as generators end.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from ... import _core
from ..._common.checksum import unsigned_state
from ..._profiling.counters import thread_rows
from ..._profiling.stages import COLLATE, WAIT, during
from ..._tools.history.recorder import Names
from ...datasets.pillow_decode import PillowDecoder
from ...datasets.webdataset import WebDataset
from ...datasets.webdataset.collation import default_collation_fn
from ...datasets.webdataset.flow import Context, Stage
from ...datasets.webdataset.handlers import Handler
from ...datasets.webdataset.shards import ShardFlow
from ...errors import CorruptDataError
from ..endings import closed_error
from ..engine import Delivered, Setup
from ..states import put_dataset_back, put_fetcher_back
from .images import slots_for
from .native import NativeSpec, native_snapshot
from .stream_pictures import Picture, PictureFlow, as_pil

State = dict[str, Any]
_END = object()


@dataclass
class _Drawn:
    samples: list[tuple[Any, ...]]
    states: list[State]  # of the dataset: behind each sample, or only behind the last one
    behind: int = 0  # its last ticket + 1
    error: Exception | None = None


@dataclass(frozen=True)
class StreamSpec(NativeSpec):
    """A stream as the engine makes its batches: of `batch_size` samples, the last one with fewer if
    `partial`.

    `stages` give tuples, or dicts, with a Picture at `position`. `by_torch`: whose rule makes columns of
    them, torch's default_collate or webdataset's default_collation_fn.
    """

    dataset: WebDataset
    stages: tuple[Stage, ...]
    pipeline: _core.ImagePipeline
    position: int | str
    batch_size: int
    partial: bool
    by_torch: bool
    by_loader: bool  # the loader makes the batches, not the dataset
    in_lists: bool  # the stages give lists of the samples of a batch
    handler: Handler | None  # of pictures that cannot be decoded
    readers: int  # as many as Python code would have, for each of which with_epoch() counts
    threads: int
    timeout: float  # seconds
    memory: str
    streams = True
    grows = lazy = False

    def open(self, setup: Setup) -> StreamEngine:
        convert = None if self.by_loader else setup.loader.collate_fn
        put_dataset_back(self.dataset, setup.progress.saved)
        engine_class = StreamEngine if self.handler is None else BackfillingEngine
        engine = engine_class(self, setup.base_seed, convert)
        put_fetcher_back(engine, setup.progress.saved, True)
        return engine

    def samples(self) -> Iterator[Any]:
        """The samples of the epoch that begins, or of what is left of it. The dataset's state is that behind
        the last one given.
        """
        return self.dataset.iterate(self._source, self.stages, self.most if self.handler is None else None)

    @property
    def most(self) -> int | None:
        """Items of an epoch, where with_epoch() says it."""
        return None if self.dataset.most is None else self.dataset.most * self.readers

    def loader(self, samples: _core.StreamSamples) -> _core.Loader:
        """For tickets of `samples`; it belongs to the caller."""
        dataset = _core.ImageDataset(samples, np.empty(0, np.int64), self.pipeline, PillowDecoder())
        on_error = "raise" if self.handler is None else "leave"
        return _core.Loader(dataset, self.threads, self.slots, on_error, False, self.memory)

    @property
    def slots(self) -> int:
        return slots_for(self.pipeline, self.batch_size)

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        return self.slots

    def columns(self, pictures: torch.Tensor, samples: list[Any]) -> Any:
        """`pictures` and the columns of the other fields, as the rule makes them of tuples, or of dicts."""
        if isinstance(self.position, str):
            fields = [
                {name: as_pil(value) for name, value in sample.items() if name != self.position}
                for sample in samples
            ]
            made = (default_collate if self.by_torch else default_collation_fn)(fields)
            return {name: pictures if name == self.position else made[name] for name in samples[0]}
        others = [sample[: self.position] + sample[self.position + 1 :] for sample in samples]
        columns = list((default_collate if self.by_torch else default_collation_fn)(others))
        columns.insert(self.position, pictures)
        return columns if self.by_torch else tuple(columns)

    def _source(self, context: Context, own: Any) -> ShardFlow:
        return PictureFlow(self.dataset.shards, context, own)


class StreamEngine:
    """Draws samples a few batches ahead, in the consumer's thread; the C++ loader makes their pictures.

    For states it is a fetcher, as torch has them: `dataset`, `dataset_iter`, `ended`. close() beside next()
    (endings.py): the loader wakes the consumer; what was drawn goes after him.
    """

    lists_ahead = 0
    pins = False

    def __init__(self, spec: StreamSpec, seed: int, convert: Any) -> None:
        self.workers: list[Any] = []
        self.outstanding = 0
        self._spec, self._convert = spec, convert
        self._tickets = _core.StreamSamples()
        self._state: State = unsigned_state(spec.dataset)
        self._samples = spec.samples()
        self._drawn: deque[_Drawn] = deque()
        self._ahead = spec.slots + 1 if spec.threads else 1
        self._drained = False
        self._seat = threading.RLock()  # the consumer's, inside next()
        self.ended = self.closed = False
        self.fetcher = self.dataset = self
        self.dataset_iter = object()  # has no state of its own
        self.names = Names()  # of the samples in the batch that was made last
        self.core = spec.loader(self._tickets)
        self.core.start_epoch(seed, 0)
        self.set_limits = self.core.set_limits

    def state_dict(self) -> State:
        return copy.deepcopy(unsigned_state(self._spec.dataset) if self.ended else self._state)

    def load_state_dict(self, state: State) -> None:
        self._spec.dataset.load_state_dict(state)

    def start_epoch(self, seed: int, epoch: int, shared_seed: int | None = None) -> None:
        """Each epoch has an engine of its own."""

    def submit(self, index: Any) -> None:
        """torch's index list has nothing to say of a stream."""
        self.outstanding += 1

    def end_epoch(self) -> None:
        """A stream says itself when it ends."""

    def next(self, timeout: float) -> Delivered | None:
        with self._seat:
            try:
                batch = self._next_batch()
                ended = batch is _END
            except _StillToCome as error:
                raise error.args[0] from None
            except Exception as error:
                if self.closed:  # by another thread: the batch was not given
                    raise
                self.outstanding -= 1
                return Delivered(None, error)
            finally:
                if self.closed:
                    self._let_go()
        self.outstanding -= 1
        return None if ended else Delivered(batch, rows=self.names)

    def _next_batch(self) -> Any:
        made = self._next_made()
        if made is None:
            self.ended = True
            return _END
        pictures, drawn = made
        self._state = drawn.states[-1]
        return self._collated(pictures, drawn.samples)

    def close(self) -> None:
        """Any thread."""
        self.closed = True
        self.core.close()
        if self._seat.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._seat.release()

    def _let_go(self) -> None:
        """Of samples, and with them of shards that are open: who keeps the iterator does not keep these."""
        self._drawn.clear()
        self._tickets.drop_before(2**62)

    def stats(self) -> dict[str, Any]:
        return self.core.stats()

    def snapshot(self, stacks: bool) -> dict[str, Any]:
        found = native_snapshot(self.core)
        found["queue"]["drawn_ahead"] = len(self._drawn)
        return found

    def rows(self) -> list[Any]:
        return thread_rows(self.core.clocks())

    def _collated(self, pictures: torch.Tensor, samples: list[tuple[Any, ...]]) -> Any:
        position = self._spec.position
        self.names = Names((sample[position].url, sample[position].key) for sample in samples)
        with during(COLLATE):
            batch = self._spec.columns(pictures, samples)
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
                made = self.core.next(self._spec.timeout)
                if made is None:
                    raise closed_error()
        except Exception as error:
            if self.closed:  # by another thread: the batch was not given
                raise
            if isinstance(error, TimeoutError) and error.errno is None:  # the batch is still to come
                late = RuntimeError(f"DataLoader timed out after {self._spec.timeout} seconds")
                raise _StillToCome(late) from None
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
            tickets = [self._ticket(sample[self._spec.position]) for sample in drawn.samples]
            drawn.behind = tickets[-1] + 1
            self.core.submit(np.array(tickets, np.int64))
        except Exception as error:
            if self.closed:
                raise
            self._drained = True
            drawn = _Drawn([], [], error=error.with_traceback(None))
        self._drawn.append(drawn)

    def _take(self) -> _Drawn:
        """The samples of the next batch; none at the end."""
        job = self._spec
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
                f"field {self._spec.position!r} of a sample is not the shard's picture but"
                f' {type(picture).__name__}: select() replaced it. Give the loader native="never", or do that'
                " in map_tuple()"
            )
        return self._tickets.add(
            picture.content, picture.url, picture.key, picture.number, picture.number_of_pass
        )


class _StillToCome(Exception):
    """A time-out: nothing was lost."""


@dataclass
class _Piece:
    pictures: torch.Tensor
    samples: list[tuple[Any, ...]]
    states: list[State]


class BackfillingEngine(StreamEngine):
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

    def _next_batch(self) -> Any:
        job = self._spec
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
        self._spec.dataset.end()
        self.ended = True
        return _END

    def _gather(self) -> tuple[int, bool]:
        """Makes pieces until a batch is there. (rows at hand of the present repetition of the data, whether
        the next one has begun)
        """
        while True:
            numbers = [state.get("repetition") for piece in self._pieces for state in piece.states]
            rows = next((row for row, number in enumerate(numbers) if number != numbers[0]), len(numbers))
            if rows >= self._spec.batch_size or rows < len(numbers):
                return rows, rows < len(numbers)
            try:
                piece = self._next_piece()
            except Exception:
                self._pieces.clear()
                raise
            if piece is None:
                return rows, False
            self._pieces.append(piece)

    def _next_piece(self) -> _Piece | None:
        made = self._next_made()
        if made is None:
            return None
        pictures, drawn = made
        skipped = dict(self.core.skipped)
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
            goes_on = self._spec.handler(unreadable)
        except Exception:
            self._stop()
            raise
        dataset = self._spec.dataset
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
        size, dataset = self._short or self._spec.batch_size, self._spec.dataset
        self._short = 0
        drawn = _Drawn([], [])
        for sample in islice(self._samples, size):
            drawn.samples.append(sample)
            drawn.states.append(unsigned_state(dataset))
        return drawn
