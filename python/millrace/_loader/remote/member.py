"""Member: one actor of a pool, as the courier uses it: tasks to it, and batches from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .courier import Unopened
from .maker import Work
from .parcels import (
    LEAST_BYTES,
    NEVER,
    Inbox,
    Parcel,
    Process,
    Tickets,
    Unreadable,
    this_machine,
    this_process,
)
from .ray_calls import RayCalls

_MOST_UNREADABLE = 2
_tickets = Tickets()


class Member:
    """One actor, as Courier uses it. key: the name of the recipe that it is to work by. credits: how many
    tasks it may have. Any thread: a loader may have two iterators.
    """

    def __init__(self, handle: Any, name: str, key: str, recipe: Any, credits: int, calls: RayCalls) -> None:
        self.handle, self.name, self.key, self._recipe, self._calls = handle, name, key, recipe, calls
        self.credits = credits
        self.node = "that has not answered yet"
        self.expelled: str | None = None
        self.failures = self.until_check = 0
        self._lock = threading.Lock()  # guards what follows
        self._inbox: Inbox | None = None
        self._process: Process | None = None  # this one, while the actor is on its machine
        self._unreadable = 0
        self._sent: dict[Any, int] = {}  # tickets, by ref

    def works_by(self, key: str, recipe: Any) -> None:
        self.key, self._recipe, self.until_check = key, recipe, 0

    def ask(self) -> Any:
        with self._calls:  # recipe in a list: it is fetched once, where it is needed
            return self.handle.hello.remote(self.key, [self._recipe])

    def meet(self, machine: str | None) -> None:
        """It has said where it is: if here, parcels are asked for, unless they could not be opened twice."""
        here, process = machine is not None and machine == this_machine(), this_process()
        with self._lock:
            self._inbox = Inbox() if here and self._unreadable < _MOST_UNREADABLE else None
            self._process = process if here else None

    def send(self, work: Work) -> Any:
        from ray import cloudpickle  # keys may be of classes of the script's own file

        with self._lock, self._calls:
            address = None
            if self._process is not None:
                address = _tickets.take(self._process, NEVER if self._inbox is None else LEAST_BYTES)
            try:
                ref = self.handle.make_of.remote(cloudpickle.dumps((self.key, work, address)))
            except BaseException:
                if address is not None:
                    _tickets.ended(address.ticket)
                raise
            if address is not None:
                self._sent[ref] = address.ticket
        return ref

    def ended(self, ref: Any) -> None:
        """What was answered is copied, or nobody's any more."""
        with self._lock:
            ticket = self._sent.pop(ref, None)
        if ticket is not None:
            _tickets.ended(ticket)

    def opened(self, answer: dict[str, Any]) -> dict[str, Any]:
        """With the arrays of a parcel in "blocks", if it has one. Raises Unopened: once it was raised twice,
        batches go through Ray's store.
        """
        if answer.get("parcel") is None:
            return answer
        skeleton, tensors, _ = answer["blocks"]
        return {**answer, "blocks": (skeleton, tensors, self._read(Inbox.arrays, answer["parcel"]))}

    def confirm(self, answer: dict[str, Any]) -> None:
        """That what was copied is what was answered. Raises Unopened."""
        if answer.get("parcel") is not None:
            self._read(Inbox.confirm, answer["parcel"])
            self._unreadable = 0

    def _read(self, how: Callable[[Inbox, Parcel], Any], parcel: Parcel) -> Any:
        with self._lock:
            if self._inbox is None:
                raise Unopened("parcels are not opened any more")
            try:
                return how(self._inbox, parcel)
            except Unreadable as error:
                self._inbox = None
                self._unreadable += 1
                raise Unopened(str(error)) from None
