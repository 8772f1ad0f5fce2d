"""Parcels: batches that an actor hands to a trainer on its own machine in shared memory.

Through Ray's store a batch costs a copy there and calls of Ray's daemon on both sides; here it costs a copy
alone. The actor writes into a file without a name (memfd), which the trainer finds as /proc/<pid>/fd/<n> and
maps once. Where that cannot be, in another container or for another user, batches go through the store.

Invariant: a slot has one writer at a time, and none while a trainer waits for its ticket or reads it. The
tickets of a trainer's process grow, and with each task comes which earlier ones it still waits for, from any
actor: slots of its other earlier ones are free once they are written, whatever the order in which tasks are
worked on. A ticket is waited for until its batch was copied. Slots of a process that has surely ended are
free, too. Each writing has a stamp of its own, in the answer and past the bytes: the reader compares it,
before and after reading.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from ... import _core

LEAST_BYTES = 2**17  # Ray hands smaller answers over without its store
NEVER = 2**62
_MOST_SLOTS = 16
_ALIGNMENT = 64
_HEADER = struct.Struct("=16s16s")  # of the slot, and of what was written last
_NOTHING = bytes(16)

Process = tuple[int, int, bytes]  # its pid, when it was started, and a number that another program has not
_image = os.urandom(8)


class Unreadable(Exception):
    """A parcel that cannot be opened here, or is not there any more."""


class Address(NamedTuple):
    """Where a batch is to go. waiting: earlier tickets that the process still waits for; least: bytes of a
    batch that is worth it.
    """

    process: Process
    ticket: int
    waiting: tuple[int, ...]
    least: int


class Parcel(NamedTuple):
    """Where a batch lies. places: (offset, bytes) of each of its arrays."""

    pid: int
    descriptor: int
    slot: bytes
    stamp: bytes
    places: list[tuple[int, int]]


def this_machine() -> str | None:
    """The same for all processes that may open each other's files; None where there is no such way."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        spaces = [os.stat(f"/proc/self/ns/{space}").st_ino for space in ("pid", "user")]
    except OSError:
        return None
    return f"{boot} {spaces} {os.getuid()}"


def this_process() -> Process | None:
    found = _started(os.getpid())
    return None if found is None else (os.getpid(), found, _image)


def _started(pid: int) -> int | None:
    """When it was, in ticks; None: it has ended. OSError where nobody can tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *rest = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in (b"Z", b"X") else int(rest[18])


def _lives(process: Process) -> bool | None:
    """None: nobody can tell."""
    try:
        return _started(process[0]) == process[1]
    except OSError:
        return None


# ------------------------------------------------------------------ the actor's side


class _Slot:
    """Room for arrays. owner: the process that it was taken for; busy: it is being written."""

    def __init__(self, size: int) -> None:
        self.size, self.name = size, os.urandom(16)
        self.descriptor = os.memfd_create("millrace-parcel", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.descriptor, _ALIGNMENT + size)
            self._memory = np.frombuffer(mmap.mmap(self.descriptor, _ALIGNMENT + size), np.uint8)
        except BaseException:
            os.close(self.descriptor)
            raise
        self.owner: Process | None = None
        self.ticket, self.busy = 0, False

    def write(self, arrays: Sequence[np.ndarray]) -> Parcel:
        places, offset, stamp = [], _ALIGNMENT, os.urandom(16)
        self._head(_NOTHING)
        for array in arrays:
            places.append((offset, array.size))
            _core.copy_field(array, self._memory[offset : offset + array.size])
            offset += _aligned(array.size)
        self._head(stamp)
        return Parcel(os.getpid(), self.descriptor, self.name, stamp, places)

    def _head(self, stamp: bytes) -> None:
        self._memory[: _HEADER.size] = np.frombuffer(_HEADER.pack(self.name, stamp), np.uint8)

    def close(self) -> None:
        os.close(self.descriptor)  # the mapping goes with its last array


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _rounded(size: int) -> int:
    """Up to an eighth more, so that slots of batches of nearly one size are of one size."""
    step = max(2**16, 2 ** max(0, size.bit_length() - 4))
    return -(-size // step) * step


class Outbox:
    """An actor's slots. Any thread."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._seen: set[Process] = set()  # trainers that are visible from here
        self._lock = threading.Lock()

    def put(self, address: Address, arrays: Sequence[np.ndarray]) -> Parcel | None:
        """None: there is no slot to be had, or too little to put there. arrays: uint8 [n] each. To be called
        for each task, whatever it is to return.
        """
        size = sum(_aligned(array.size) for array in arrays)
        with self._lock:
            self._free(address)
            if size < address.least or not self._sees(address.process):
                return None
            slot = self._slot(size)
            if slot is None:
                return None
            slot.owner, slot.ticket, slot.busy = address.process, address.ticket, True
        try:
            return slot.write(arrays)
        finally:
            slot.busy = False

    def _free(self, address: Address) -> None:
        for slot in self._slots:
            earlier = slot.owner == address.process and slot.ticket < address.ticket
            if earlier and slot.ticket not in address.waiting and not slot.busy:
                slot.owner = None

    def _sees(self, process: Process) -> bool:
        """Whether it would be noticed if it had ended."""
        if process not in self._seen and _lives(process):
            self._seen.add(process)
        return process in self._seen

    def _slot(self, size: int) -> _Slot | None:
        free = self._free_slots()
        if len(self._slots) >= _MOST_SLOTS and not free:
            for slot in self._slots:
                if slot.owner is not None and not slot.busy and _lives(slot.owner) is False:
                    self._seen.discard(slot.owner)
                    slot.owner = None
            free = self._free_slots()
        fitting = [slot for slot in free if slot.size >= size]
        if fitting:
            return fitting[0]
        if free:  # too small: its replacement will do for both
            self._slots.remove(free[-1])
            free[-1].close()
        elif len(self._slots) >= _MOST_SLOTS:
            return None
        try:
            self._slots.append(_Slot(_rounded(size)))
        except OSError:  # of memory or descriptors
            return None
        return self._slots[-1]

    def _free_slots(self) -> list[_Slot]:
        """The smallest first."""
        return sorted((slot for slot in self._slots if slot.owner is None), key=lambda slot: slot.size)


# ------------------------------------------------------------------ the trainer's side


class Tickets:
    """A process's tickets: one for each task with a batch that may come as a parcel, until it has come. Any
    thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._waiting: set[int] = set()

    def take(self, process: Process, least: int) -> Address:
        with self._lock:
            self._last += 1
            address = Address(process, self._last, tuple(self._waiting), least)
            self._waiting.add(self._last)
        return address

    def ended(self, ticket: int) -> None:
        """Its batch was copied, or is nobody's any more."""
        with self._lock:
            self._waiting.discard(ticket)


class Inbox:
    """A trainer's view of one actor's slots. One thread at a time."""

    def __init__(self) -> None:
        self._mapped: dict[Hashable, np.ndarray] = {}

    def arrays(self, parcel: Parcel) -> list[np.ndarray]:
        """uint8 [n] each, over the slot: to be copied while the ticket is waited for, and confirmed."""
        key = parcel.pid, parcel.slot
        memory = self._mapped.pop(key, None)
        if memory is None:
            memory = _opened(parcel)
        self._mapped[key] = memory  # at the end: in order of last use
        while len(self._mapped) > _MOST_SLOTS:
            del self._mapped[next(iter(self._mapped))]
        _confirm(memory, parcel)
        return [memory[offset : offset + size] for offset, size in parcel.places]

    def confirm(self, parcel: Parcel) -> None:
        """That what was copied was the parcel's."""
        _confirm(self._mapped[parcel.pid, parcel.slot], parcel)


def _confirm(memory: np.ndarray, parcel: Parcel) -> None:
    if _HEADER.unpack(memory[: _HEADER.size].tobytes()) != (parcel.slot, parcel.stamp):
        raise Unreadable("another batch is in its place")


def _opened(parcel: Parcel) -> np.ndarray:
    try:
        path = f"/proc/{parcel.pid}/fd/{parcel.descriptor}"
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # whatever it is by now
    except OSError as error:
        raise Unreadable(str(error)) from None
    try:
        populate = getattr(mmap, "MAP_POPULATE", 0)  # all pages by one call
        mapped = mmap.mmap(descriptor, 0, mmap.MAP_SHARED | populate, mmap.PROT_READ)
    except (OSError, ValueError) as error:
        raise Unreadable(str(error)) from None
    finally:
        os.close(descriptor)
    memory = np.frombuffer(mapped, np.uint8)
    end = max((offset + size for offset, size in parcel.places), default=_ALIGNMENT)
    if memory.size < max(end, _ALIGNMENT):
        raise Unreadable("the file is shorter than its batch")
    return memory
