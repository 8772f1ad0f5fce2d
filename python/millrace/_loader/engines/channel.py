"""Communication of the training process and its workers: messages of 64 bytes in pipes, everything else in a
slot.

A message of that size arrives whole or not at all, whichever process is killed meanwhile. Each pipe has one
writer and one reader, so there is no lock, and nothing to repair when a worker dies.

A task: its index list lies pickled at the beginning of the slot that it brings along. An answer: its batch
lies there instead.

How a worker puts a batch into a slot, and how the training process makes it again, is the rest of the file,
but for Parcel: what a process is given when it starts.
"""

from __future__ import annotations

import functools
import os
import pickle
import struct
import threading
from collections.abc import Callable, Iterable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

from ... import _core
from ..._common.shared_memory import for_child, is_spawning

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


#: Ends of pipes that belong to this process as a parent. A forked worker closes them first of all: a pipe
#: does not end with its owner while a sibling holds its other end.
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


def new_stacks() -> Descriptor | None:
    """Memory for the Python stacks of one worker; None where the system has no such memory."""
    try:
        return Descriptor(os.memfd_create("millrace stacks", os.MFD_CLOEXEC))
    except (AttributeError, OSError):
        return None


# ---------------------------------------------------------------- any value

_OUT_OF_BAND_BYTES = 4096  # arrays from this size on are kept beside the pickle instead of in it

_unpacking = threading.local()  # .tensors: those of the value that this thread unpickles


def _tensor_beside(number: int) -> torch.Tensor:
    return _unpacking.tensors[number]


def _take_large(taken: list[memoryview], buffer: pickle.PickleBuffer) -> bool:
    """Whether the buffer stays in the pickle; else it is appended."""
    view = buffer.raw()
    if view.nbytes < _OUT_OF_BAND_BYTES:
        return True
    taken.append(view)
    return False


class TakesOut:
    """In front of a pickler's class: plain tensors and large buffers are kept beside the pickle."""

    def __init__(self, *arguments: Any) -> None:
        """`arguments`: of the pickler, up to its buffer_callback."""
        self.tensors: list[torch.Tensor] = []
        self.buffers: list[memoryview] = []
        # Not a method of this object: it would hold itself, and with it a batch, until the next garbage
        # collection.
        super().__init__(*arguments, functools.partial(_take_large, self.buffers))  # type: ignore[call-arg]

    def reducer_override(self, value: Any) -> Any:
        if type(value) is torch.Tensor and _core.is_plain_tensor(value):
            self.tensors.append(value)
            return _tensor_beside, (len(self.tensors) - 1,)
        theirs = getattr(super(), "reducer_override", None)
        return NotImplemented if theirs is None else theirs(value)


def unpickled(data: Any, tensors: list[torch.Tensor], buffers: Iterable[Any]) -> Any:
    """The value, of its pickle and of what a TakesOut has kept beside that."""
    outer, _unpacking.tensors = getattr(_unpacking, "tensors", None), tensors
    try:
        return pickle.loads(data, buffers=buffers)
    finally:
        _unpacking.tensors = outer


class _Packer(TakesOut, ForkingPickler):
    """torch's rules for values that cross processes, but plain tensors and large arrays go into the slot."""


def write_pickle(
    sink: Any, begin: int, value: Any, pickler: type[ForkingPickler] = ForkingPickler
) -> tuple[int, Any]:
    """Pickles into the slot that a fetchers.Sink has open, from `begin` on: (end, the pickler).

    Large bytes go from where they are into the slot, others by way of the pickler's 64 KiB. An end past the
    slot's end: it did not fit.
    """
    file = _core.SlotFile(sink.ring, sink.slot, begin, sink.reserved)
    made = pickler(file, 5, True)
    try:
        made.dump(value)
    finally:
        sink.reserved = file.reserved  # after an error, too
    return file.end, made


def read_pickle(lease: _core.SlotLease, begin: int, length: int) -> Any:
    """Reads a pickle where it lies: the values are copies, and nothing refers to the slot afterwards."""
    part: Any = lease.part(begin, length)
    return pickle.loads(part)


def pack_value(sink: Any, value: Any) -> tuple[int, int] | None:
    """Puts any picklable value into the sink's slot, its pickle first, then its tensors and arrays: (their
    end, length of what says where these lie, which comes next; 0 when there are none).

    None when the value is longer than a slot can be. Errors of pickling pass through.
    """
    ring, slot = sink.ring, sink.slot
    end, packer = write_pickle(sink, 0, value, _Packer)
    if end > ring.stride or not (packer.tensors or packer.buffers):
        return None if end > ring.stride else (end, 0)
    packed = ring.pack(slot, end, sink.reserved, packer.tensors, packer.buffers)
    if packed is None:
        return None
    fields, end, sink.reserved = packed
    places = pickle.dumps((fields, len(packer.tensors)), 5)
    if end + len(places) > ring.stride:
        return None
    sink.reserved = ring.put(slot, end, places, sink.reserved)
    return end, len(places)


def unpack_value(lease: _core.SlotLease, end: int, length: int, copy: bool) -> Any:
    """The value that `pack_value` put in; leases the slot to its tensors and arrays, or copies them."""
    if not length:
        return read_pickle(lease, 0, end)
    fields, n_tensors = read_pickle(lease, end, length)
    tensors = _core.BatchFields(fields, False).tensors(lease, 0, copy)
    arrays = [tensor.numpy() for tensor in tensors[n_tensors:]]
    return unpickled(lease.part(0, end), tensors[:n_tensors], arrays)


# ---------------------------------------------------------------- batches collated row by row


class Layout:
    """What `_core.RowWriter.layout()` describes, ready to make batches of."""

    def __init__(self, description: tuple) -> None:
        self._description = description
        self._fields = _core.BatchFields(_fields_of(description), True)

    def batch(self, lease: _core.SlotLease, rows: int, objects: Any, copy: bool) -> Any:
        """What default_collate returns for these rows; leases the slot to its tensors, or copies them."""
        tensors = iter(self._fields.tensors(lease, rows, copy))

        def leaf(node: tuple) -> Any:
            if node[0] == "field":
                return next(tensors)
            _, number, in_sequence = node
            return tuple(objects[number]) if in_sequence else objects[number]

        return _tree(self._description, leaf, {})


_LEAVES = "field", "objects"


def _fields_of(node: tuple) -> list[tuple]:
    """What _core.BatchFields is to know of each field."""
    if node[0] in _LEAVES:
        return [node[2:]] if node[0] == "field" else []
    return [field for child in node[-1] for field in _fields_of(child)]


def _tree(node: tuple, leaf: Callable[[tuple], Any], sequences: dict[str, type]) -> Any:
    """What `node` describes, of what `leaf` gives for each leaf, in their order. `sequences`: the types of
    those that are no lists.
    """
    tag = node[0]
    if tag in _LEAVES:
        return leaf(node)
    parts = [_tree(child, leaf, sequences) for child in node[-1]]
    if tag == "dict":
        return dict(zip(node[1], parts))
    if tag == "namedtuple":
        return node[1](*parts)
    return sequences.get(tag, list)(parts)


def samples_again(writer: _core.RowWriter, ring: _core.SharedRing, slot: int) -> list[Any]:
    """The samples that the writer has taken so far, as they were: for when the batch turns out to need
    torch's collate after all.
    """
    if writer.rows == 0:
        return []
    layout, objects = writer.layout(), writer.objects()
    tensors = _core.BatchFields(_fields_of(layout), True).copies(ring, slot, writer.rows)
    return [_sample(layout, tensors, objects, row) for row in range(writer.rows)]


def _sample(layout: tuple, tensors: list[torch.Tensor], objects: Any, row: int) -> Any:
    fields = iter(tensors)

    def leaf(node: tuple) -> Any:
        return objects[node[1]][row] if node[0] == "objects" else _element(next(fields)[row], node[1])

    return _tree(layout, leaf, {"tuple": tuple})


def _element(value: torch.Tensor, kind: Any) -> Any:
    """`value`, a part of a batch, as the sample had it."""
    if kind == "tensor":
        return value.clone()
    if kind == "array":
        return value.clone().numpy()
    return value.item() if kind in (float, int, bool) else value.numpy()[()]  # the latter: a numpy scalar


class Parcel:
    """`content` on its way into a process that is being started: inherited where that is forked, else pickled
    into a file without a name, which the process unpickles and closes.

    The sender calls close() once the process is started.
    """

    def __init__(self, content: Any) -> None:
        self.content = content
        self._file = Descriptor(-1)

    def close(self) -> None:
        self._file.close()

    def __reduce__(self) -> Any:
        if not (is_spawning() and hasattr(os, "memfd_create")):
            return Parcel, (self.content,)
        self.close()
        self._file = Descriptor(os.memfd_create("millrace-worker", os.MFD_CLOEXEC))
        with open(self._file.fd, "wb", closefd=False) as file:
            ForkingPickler(file, 5).dump(self.content)
        return _opened, (self._file,)


def _opened(carried: Descriptor) -> Parcel:
    with open(carried.fd, "rb") as file:
        file.seek(0)  # the sender's place, which the descriptors have in common
        return Parcel(pickle.load(file))
