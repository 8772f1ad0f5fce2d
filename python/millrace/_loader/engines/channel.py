"""What the training process and its workers say to each other: messages of 64 bytes in pipes, everything else
in a slot.

A message of that size arrives whole or not at all, whoever is killed meanwhile. Each pipe has one writer and
one reader, so there is no lock, and nothing to repair when a worker dies.

A task: its index list lies pickled at the beginning of the slot that it brings along. An answer: its batch
lies there instead.
"""

from __future__ import annotations

import os
import struct
from typing import Any

from ... import _core
from ..._common.shared_memory import for_child

#: kind, slot, task number, then four numbers that depend on the kind, and two to spare
MESSAGE = struct.Struct("<IIQQQQQQQ")

# To a worker.
# length of the index list's pickle, bytes of the slot that have memory, whether the worker's state is wanted,
# its turn + 1 or 0
TASK = 1
RESUME = 2  # a new epoch; the slot holds the pickle of what torch calls the shared seed
STOP = 3

# From a worker. Each brings a slot back, in this order: begin and length of the pickle in it, bytes of it
# that have memory, samples.
# collated row by row; the pickle is of (layout or None, objects or None, errors, state, draws), or absent
ROWS = 1
# (batch, errors, state, draws), pickled at the slot's start; the pickle is of (fields, number of tensors
# among them), or absent
TREE = 2
INLINE = (
    3  # (batch, errors, state, draws); the pickle is torch's own, with tensors in torch's own shared memory
)
ENDED = 4  # the dataset's iterator has ended; the pickle is of the worker's state, or absent
DROPPED = 5  # a task that came after the end
RESUMED = 6  # the new epoch begins; the pickle is of the worker's state, or absent


class Descriptor:
    """A file descriptor that a starting process takes along: by inheritance when it is forked, duplicated
    otherwise.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __reduce__(self) -> Any:
        return _received, (for_child(self.fd),)


def _received(duplicate: Any) -> Descriptor:
    return Descriptor(duplicate.detach())


class RingHandle:
    """The shared ring on its way into a worker."""

    def __init__(self, ring: _core.SharedRing) -> None:
        self.ring = ring

    def __reduce__(self) -> Any:
        return _attached, ([for_child(fd) for fd in self.ring.fds], self.ring.slots, self.ring.stride)


def _attached(duplicates: list[Any], slots: int, stride: int) -> RingHandle:
    return RingHandle(
        _core.SharedRing.attach([duplicate.detach() for duplicate in duplicates], slots, stride)
    )


#: Ends of pipes that belong to this process as a parent: a forked worker closes them first of all, because a
#: pipe whose other end is held by a sibling does not end when its owner does.
parents_ends: set[int] = set()


def pipes() -> tuple[Descriptor, Descriptor, Descriptor, Descriptor]:
    """(reading end, writing end) of a worker's tasks, and the same of its answers."""
    made: list[int] = []
    try:
        made += os.pipe()
        made += os.pipe()
    except OSError as error:
        for fd in made:
            os.close(fd)
        error.strerror = (
            f"{error.strerror} (a worker process needs four descriptors; raise the limit, ulimit -n, or use"
            " fewer workers)"
        )
        raise
    tasks_out, tasks_in, answers_out, answers_in = (Descriptor(fd) for fd in made)
    return tasks_out, tasks_in, answers_out, answers_in
