"""Bytes that are written once, then shared by every process that is forked or spawned from this one."""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from collections.abc import Callable
from multiprocessing import context, reduction
from typing import Any, BinaryIO

# Python's fcntl has no names for these before 3.13; they are part of Linux's interface.
_ADD_SEALS = getattr(fcntl, "F_ADD_SEALS", 1033)
_NO_CHANGES = 0x1 | 0x2 | 0x4 | 0x8  # to the seals, no shrinking, growing, writing


def is_spawning() -> bool:
    """Whether pickling now is for a process that is being started: such a process can get descriptors."""
    return context.get_spawning_popen() is not None


def for_child(descriptor: int) -> Any:
    """A picklable holder of `descriptor` for a process that is being started. In that process, `detach()` of
    the holder returns a duplicate.
    """
    if not is_spawning():
        raise RuntimeError(
            f"descriptor {descriptor} can be handed only to a process that is being started; do not pickle"
            " what holds it"
        )
    return reduction.DupFd(descriptor)


class SharedBytes:
    """An unnamed file in memory, sealed against changes and mapped for reading: `memory` is the mapping.

    `fill` gets the empty file and writes it. One descriptor is held, by the mapping, and goes with it. Forked
    processes have the mapping; those started by spawn or forkserver get the descriptor, and map the same
    pages; any other pickle holds a copy. Where the system has no memfd, it is a file without a name in the
    temporary folder, and spawned processes get copies.
    """

    def __init__(self, fill: Callable[[BinaryIO], Any]) -> None:
        sealable = hasattr(os, "memfd_create")
        file: BinaryIO
        if sealable:
            file = open(os.memfd_create("millrace-frozen", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "wb")
        else:
            file = tempfile.TemporaryFile()  # type: ignore[assignment]
        with file:
            fill(file)
            if file.tell() == 0:
                file.write(b"\0")  # nothing cannot be mapped
            file.flush()
            if sealable:
                fcntl.fcntl(file.fileno(), _ADD_SEALS, _NO_CHANGES)
            # The file's pages are in memory. Mapped now, they count for this process from the start, and not
            # for the first worker that reads them.
            self._map(file.fileno(), getattr(mmap, "MAP_POPULATE", 0))

    def _map(self, descriptor: int, flags: int = 0) -> None:
        # Private, because kernels before 6.7 refuse shared mappings of sealed files, even for reading.
        # Unwritten pages are shared.
        self.memory = mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE | flags, prot=mmap.PROT_READ)
        status = os.fstat(descriptor)
        self._identity = status.st_dev, status.st_ino

    def _descriptor(self) -> int | None:
        """The mapping's own descriptor, which mmap does not tell; None if it cannot be found."""
        try:
            held = [int(name) for name in os.listdir("/proc/self/fd")]
        except OSError:
            return None
        for descriptor in held:
            try:
                status = os.fstat(descriptor)
            except OSError:  # that of the listing itself
                continue
            if (status.st_dev, status.st_ino) == self._identity:
                return descriptor
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        if is_spawning() and (descriptor := self._descriptor()) is not None:
            return _of_descriptor, (for_child(descriptor),)
        return _of_bytes, (self.memory[:],)


def _of_bytes(data: bytes) -> SharedBytes:
    return SharedBytes(lambda file: file.write(data))


def _of_descriptor(carried: Any) -> SharedBytes:
    made = SharedBytes.__new__(SharedBytes)
    descriptor = carried.detach()
    try:
        made._map(descriptor)
    finally:
        os.close(descriptor)
    return made
