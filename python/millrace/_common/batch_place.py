"""The batch that is being made here: (epoch, number of the batch in it), both from 0 on. It is set around
each call that makes samples or collates them, for values that are drawn once for all samples of a batch.

Where the user's Python makes samples on several threads, each thread has its own batch. In a worker process,
which makes one batch at a time, all threads have the same batch, also threads that the user's code starts.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Optional, Union

from ..errors import UnavailableError

Place = Union[tuple[int, int], str]
"""Of a batch; a text: why it is not known."""

OF_STREAM = "samples of an IterableDataset are made in an order of its own, before it is known in which batch"
OF_ACTOR = "a batch that an actor makes does not know its number; leave remote= out"


class _Here(threading.local):
    place: Optional[Place] = None


here = _Here()
_process: Optional[Place] = None


def put_place(place: Place) -> None:
    """Of a worker process."""
    global _process
    _process, here.place = place, None  # which a fork may have brought along


@contextlib.contextmanager
def at_place(place: Place) -> Iterator[None]:
    """Of this thread, while entered."""
    before, here.place = here.place, place
    try:
        yield
    finally:
        here.place = before


def batch_place() -> tuple[int, int] | None:
    """None outside of loaders; UnavailableError where a loader does not know it."""
    place = _process if here.place is None else here.place
    if isinstance(place, str):
        raise UnavailableError(f"a size per batch is not known here: {place}")
    return place
