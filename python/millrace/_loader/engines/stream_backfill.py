"""BackfillingEngine: a StreamEngine with a handler for pictures that cannot be decoded."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from ..._common.states import unsigned_state
from ...errors import CorruptDataError
from .stream_engine import END, Drawn, State, StreamEngine


@dataclass
class _Piece:
    pictures: torch.Tensor
    samples: list[tuple[Any, ...]]
    states: list[State]


class BackfillingEngine(StreamEngine):
    """With a handler for pictures that cannot be decoded: the other samples close up, so that batches are
    full and in the stream's order.

    The engine leaves holes in its batches. Samples after a hole move up, across batches, at the cost of one
    copy each. When samples are lost, a short batch of as many samples is drawn; from that batch on, the
    engine's batches are whole again.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pieces: deque[_Piece] = deque()
        self._short = 0  # samples that were lost and not drawn anew
        self._ended: int | None = None  # the repetition of the data that a handler ended
        self._given, given_now = self._state.get("given", [0, 0])
        # the last repetition that gave a batch
        self._repetition = self._state.get("repetition", 0) - (given_now == 0)

    def _next_batch(self) -> Any:
        spec = self._spec
        while spec.most is None or self._given < spec.most:
            rows, closed = self._gather()
            pictures, samples = self._assemble(min(rows, spec.batch_size))
            if len(samples) == spec.batch_size or (samples and spec.partial):
                if self._state["repetition"] > self._repetition + 1:
                    break  # as in Python: data that gave nothing are not repeated
                self._repetition = self._state["repetition"]
                self._given += 1
                if spec.most is not None:
                    self._state = {**self._state, "given": [self._given, self._given]}
                return self._collated(pictures, samples)
            if not closed:
                break
        self._spec.dataset.end()
        self.ended = True
        return END

    def _gather(self) -> tuple[int, bool]:
        """Make pieces until there is a batch. Returns (rows at hand of the present repetition of the data,
        whether the next repetition has begun).
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
        """Ask the handler whether to go on after an undecodable picture, and return its answer. False ends
        the repetition of the data there. It ends the stream if the data has no repetitions, or shards are
        resampled (a repetition without end).
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
        """Take the first `count` rows of all pieces."""
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

    def _take(self) -> Drawn:
        size, dataset = self._short or self._spec.batch_size, self._spec.dataset
        self._short = 0
        drawn = Drawn([], [])
        for sample in islice(self._samples, size):
            drawn.samples.append(sample)
            drawn.states.append(unsigned_state(dataset))
        return drawn
