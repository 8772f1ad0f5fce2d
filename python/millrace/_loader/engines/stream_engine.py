"""StreamEngine: a stream's samples are drawn, submitted to the C++ loader, made, delivered.

The dataset's own stages run unchanged, in the consumer's thread, over samples with pictures that were not
read yet (Picture): the same objects as in Python do shuffles, splits, labels, epochs and the position to
resume at. The C++ loader does only the pictures.

    shards ─▶ {"jpg": Picture, "cls": b"3"} ─▶ shuffle, decode the rest, to_tuple ─▶ (Picture, 3) ─▶ a ticket

A batch is drawn a few batches before it is delivered: its samples, their tickets, and the dataset's state
after it. That state becomes the loader's when the batch is delivered. An error in drawing is delivered in the
place of its batch, and ends the stream, as an error ends a generator.
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
from ..._common.states import unsigned_state
from ..._history.recorder import Names
from ..._profiling.stages import COLLATE, WAIT, during, thread_rows
from ...datasets.webdataset.decoders import IMAGE_EXTENSIONS, IMAGE_SPECS, decoding_error, picture
from ...datasets.webdataset.flow import Context
from ...datasets.webdataset.handlers import Handler
from ...datasets.webdataset.shards import ShardFlow, Shards
from ...errors import UnavailableError
from ..engine import Delivered, closed_error
from .native import MadeOnce, native_snapshot


class Picture:
    """A picture that is not decoded yet, and not read yet if that can wait. `number`, `number_of_pass`: the
    key of its random numbers.
    """

    __slots__ = ("content", "key", "number", "number_of_pass", "url")

    def __init__(self, content: Any, url: str, key: str, number: int, number_of_pass: int) -> None:
        self.content, self.url, self.key = content, url, key
        self.number, self.number_of_pass = number, number_of_pass


def is_picture_name(name: str) -> bool:
    return name.rpartition(".")[2].lower() in IMAGE_EXTENSIONS


def as_pil(value: Any) -> Any:
    """A Picture as decode("pil") makes it, now; anything else as it is."""
    if type(value) is not Picture:
        return value
    return picture(content_of(value), IMAGE_SPECS["pil"])


def content_of(value: Picture) -> bytes:
    return value.content if isinstance(value.content, bytes) else value.content.read()


class NotDecoded(Exception):
    """Holds the error that decode() would have raised, for decode()'s handler."""


def decoded(value: Any) -> Any:
    """as_pil(); raises NotDecoded."""
    try:
        return as_pil(value)
    except (MemoryError, UnavailableError):
        raise
    except Exception as error:
        folder, slash, file = value.key.rpartition("/")
        key, _, field = file.partition(".")
        named = decoding_error(error, {"__url__": value.url, "__key__": folder + slash + key}, field)
        named.__cause__ = error
        raise NotDecoded(named) from error


@dataclass(frozen=True)
class TwoHandlers:
    """`decoding` handles errors in decoding, as decode() raises them; `others` handles all others."""

    decoding: Handler
    others: Handler

    def __call__(self, error: Exception) -> Any:
        return self.decoding(error.args[0]) if isinstance(error, NotDecoded) else self.others(error)


class PictureFlow(ShardFlow):
    """A ShardFlow of samples with Pictures."""

    def __init__(self, shards: Shards, context: Context, own: Any) -> None:
        super().__init__(shards, context, own)
        self._numbers = None if shards.resampled else shards.share(context).shards

    def _reader(self, source: Any) -> Any:
        return _PictureReader(super()._reader(source), self)

    def _reads_later(self) -> bool:
        return True

    @property
    def identity(self) -> tuple[int, int]:
        """(number of the present sample, number of the pass): the same for any number of ranks, except with
        resampled shards, which each rank draws for itself.
        """
        if self._numbers is None:
            reader = self._context.reader
            return self._sample, reader.number + self._shard * reader.readers
        return self._numbers[self._shard] << 32 | self._sample, self._context.repetition


class _PictureReader:
    """Puts Pictures into the samples of one shard. Errors pass through, and the shard goes on after them as
    its reader does.
    """

    def __init__(self, reader: _core.ShardReader, flow: PictureFlow) -> None:
        self._reader, self._flow = reader, flow

    def __iter__(self) -> _PictureReader:
        return self

    def __next__(self) -> dict[str, Any]:
        sample = next(self._reader)
        number, number_of_pass = self._flow.identity
        for name, value in sample.items():
            if name.startswith("__"):
                continue
            if is_picture_name(name):
                key = f"{sample['__key__']}.{name}"
                sample[name] = Picture(value, sample["__url__"], key, number, number_of_pass)
            elif isinstance(value, _core.LocatedFile):
                sample[name] = value.read()
        return sample


State = dict[str, Any]
END = object()


@dataclass
class Drawn:
    samples: list[tuple[Any, ...]]
    states: list[State]  # of the dataset: after each sample, or only after the last one
    ended: bool = False  # whether the stream had no more samples for this batch
    behind: int = 0  # its last ticket + 1
    error: Exception | None = None


class _StillToCome(Exception):
    """A time-out: nothing was lost."""


class StreamEngine(MadeOnce):
    """Draws samples a few batches ahead, in the consumer's thread; the C++ loader makes their pictures.

    states/ uses it as one of torch's fetchers: `dataset`, `dataset_iter`, `ended`. If close() is called
    during next() (engine.py), the loader wakes the consumer, and next() drops the drawn samples as it leaves.
    """

    lists_ahead = 0
    pins = False

    def __init__(self, spec: Any, seed: int, convert: Any) -> None:
        self.workers: list[Any] = []
        self.outstanding = 0
        self._spec, self._convert = spec, convert
        self._in_lists = convert is not None and spec.handler is None  # of the samples of a batch
        self._tickets = _core.StreamSamples()
        self._state: State = unsigned_state(spec.dataset)
        self._samples = spec.samples()
        self._drawn: deque[Drawn] = deque()
        self._ahead = spec.slots + 1 if spec.threads else 1
        self._drained = False
        self._seat = threading.RLock()  # the consumer's, inside next()
        self.ended = self.closed = False
        self.dataset_iter = object()  # has no state of its own
        self.names = Names()  # of the samples in the batch that was made last
        self.core = spec.loader(self._tickets)
        self.core.start_epoch(seed, 0)
        self.set_limits = self.core.set_limits

    @property
    def fetcher(self) -> StreamEngine:
        return self

    @property
    def dataset(self) -> StreamEngine:
        return self

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
                ended = batch is END
            except _StillToCome as error:
                raise error.args[0] from None
            except Exception as error:
                if self.closed:  # by another thread: the batch was not given
                    raise
                self.outstanding -= 1
                return Delivered(None, error=error)
            finally:
                if self.closed:
                    self._let_go()
        self.outstanding -= 1
        return None if ended else Delivered(batch, rows=self.names)

    def _next_batch(self) -> Any:
        made = None if self.ended else self._next_made()
        if made is None:
            self.ended = True
            return END
        pictures, drawn = made
        self._state, self.ended = drawn.states[-1], drawn.ended
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
        """Drop samples, and with them the open shards: a kept iterator must not keep these."""
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

    def _next_made(self) -> tuple[torch.Tensor, Drawn] | None:
        """The pictures of the batch to deliver next; None at the end. Raises the batch's error, after giving
        the batch up.
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
            self._state, self.ended = first.states[-1], first.ended
            raise
        self._give_up(first)
        return made[0], first

    def _give_up(self, drawn: Drawn) -> None:
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
            drawn = Drawn([], [], error=error.with_traceback(None))
        self._drawn.append(drawn)

    def _take(self) -> Drawn:
        """The samples of the next batch; none at the end."""
        spec = self._spec
        if self._in_lists:
            samples: list[Any] = next(self._samples, [])
        else:
            samples = list(islice(self._samples, spec.batch_size))
        ended = not self._in_lists and len(samples) < spec.batch_size
        if ended and not spec.partial:
            samples = []
        return Drawn(samples, [unsigned_state(spec.dataset)], ended)

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
