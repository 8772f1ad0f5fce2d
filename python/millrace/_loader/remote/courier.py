"""Courier: the thread that sends tasks to the members of a pool, and takes their answers.

The courier asks a member for its facts (ask); the member is ready if they equal the facts here. Ready members
have up to `credits` tasks each. A lost member (its node is slow or gone) is asked again until it answers; in
the meantime the core lets others make its tasks. An expelled member, which made other bytes, gets no more.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter, deque
from typing import Any

from .blocks import Blocks, Landing, from_blocks

_POLL_S = 0.02  # how long a member without work may wait for a task
_LONG_POLL_S = 0.25  # how long nobody looks, where all members have as many as they may have
_ASK_AGAIN_S = 0.5
_MOST_FAILURES = 3
_WINDOW = 16  # batches; help="auto" changes how many members work after so many
_WAITS, _IDLES = 0.05, 0.005  # shares of the time that the loop waits, to have more members or fewer


class Lost(Exception):
    """A member did not answer, and may yet do so when it is asked again."""


class Unopened(Lost):
    """Its answer was no batch that can be read here; it may answer in another way."""


class Gone(Exception):
    """A member will not answer any more."""


def warn(text: str) -> None:
    """From threads of ours, which a filter that makes errors of warnings must not end."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:
        print(f"RuntimeWarning: {text}", file=sys.stderr)


class Courier:
    """`pool`: members, lives, wait(refs, seconds), get(ref), cancel(ref), made_again(member), notice(nodes),
    why_nobody(), as_needed, patience_s; a member: ask(), meet(machine), send(work), opened(answer),
    confirm(answer), ended(ref), name, node, credits, until_check, failures, expelled. facts: those of members
    must be the same. What it shares is guarded by the core's lock.
    """

    def __init__(self, core: Any, pool: Any, facts: dict[str, Any], memory: str) -> None:
        self._core, self._pool, self._facts = core, pool, facts
        self._landing = Landing(memory.startswith("page-locked"))
        self._ready: list[Any] = []  # members that told their facts and are not lost
        self._allowed = len(pool.members)  # of them that work
        self._window = [0, 0.0, time.monotonic()]  # batches, seconds waited, since when
        self._nodes: dict[str, dict[str, Any]] = {}
        self._since_none: float | None = None
        self._warned = False

    # ---------------------------------------------------------------- the thread

    def run(self) -> None:
        flights: dict[Any, tuple[Any, Any, float]] = {}  # by ref: (member, task or None, since when)
        try:
            self._carry(flights)
        except Exception:
            if self._pool.lives:
                raise
        finally:  # local threads make the remaining tasks
            if not self._core.closed:
                with self._core.lock:
                    self._ready.clear()
            for ref, (member, task, _) in flights.items():
                member.ended(ref)
                if task is not None:
                    self._core.put_back(task)
                if self._pool.lives:
                    self._pool.cancel(ref)

    def _carry(self, flights: dict[Any, tuple[Any, Any, float]]) -> None:
        pool, core = self._pool, self._core
        ask_at: dict[Any, float] = {member: 0.0 for member in pool.members if not member.expelled}
        while not core.closed and pool.lives:
            now = time.monotonic()
            pool.notice(self._nodes)
            for member in [member for member, when in ask_at.items() if when <= now]:
                del ask_at[member]
                flights[member.ask()] = member, None, now
            free = self._free(flights)
            tasks = deque(core.take(len(free)))
            try:
                for member in free[: len(tasks)]:
                    ref = member.send(tasks[0].work)
                    flights[ref] = member, tasks.popleft(), now
            finally:
                for task in tasks:
                    core.put_back(task)
            self._say_when_alone(bool(flights or ask_at), now)
            if not flights:
                with core.lock:
                    if not core.closed:
                        core.work.wait(_POLL_S)
                continue
            for ref in pool.wait(list(flights), _POLL_S if self._free(flights) else _LONG_POLL_S):
                member, task, began = flights.pop(ref)
                try:
                    answer = member.opened(pool.get(ref))
                    if task is None:
                        self._hello(member, answer)
                    else:
                        self._landed(task, member, answer, time.monotonic() - began)
                except (Lost, Gone) as trouble:
                    self._lost(member)
                    if task is not None:
                        core.put_back(task)
                    asked = member in ask_at or any(m is member and t is None for m, t, _ in flights.values())
                    comes_back = isinstance(trouble, Lost) or pool.made_again(member)
                    if not asked and not member.expelled and (task is not None or comes_back):
                        ask_at[member] = time.monotonic() + _ASK_AGAIN_S
                finally:
                    member.ended(ref)
                    answer = task = None  # they would hold a batch while this thread waits

    def _free(self, flights: dict[Any, Any]) -> list[Any]:
        """Return members that may have a task, each as often as it may; those with the fewest come first."""
        with self._core.lock:
            ready = self._ready[: self._allowed]
        has = Counter(holder for holder, _, _ in flights.values())
        free: list[tuple[int, int, Any]] = []
        for at, member in enumerate(ready):
            free += [(taken, at, member) for taken in range(has[member], member.credits)]
        free.sort(key=lambda slot: slot[:2])
        return [member for _, _, member in free]

    def _lost(self, member: Any) -> None:
        with self._core.lock:
            if member in self._ready:
                self._ready.remove(member)

    def _hello(self, member: Any, answer: dict[str, Any]) -> None:
        member.node = answer["node"]
        if "error" in answer:
            self.expel(member, answer["error"])
            return
        mine = self._facts
        unequal = [
            f"{name} {theirs!r} there, {mine.get(name)!r} here"
            for name, theirs in answer["facts"].items()
            if theirs != mine.get(name)
        ]
        if unequal:
            self.expel(member, "; ".join(unequal))
            return
        member.until_check = 0
        member.meet(answer.get("machine"))
        with self._core.lock:
            if not member.expelled and member not in self._ready:  # while it was asked again
                self._ready.append(member)

    def _landed(self, task: Any, member: Any, answer: dict[str, Any], took: float) -> None:
        core = self._core
        with core.lock:
            core.took.append(took)
        if member.expelled:
            core.put_back(task)
        elif "error" in answer:
            self._failed(task, member, answer["error"])
        else:
            began, blocks = time.thread_time(), Blocks(*answer["blocks"])
            try:
                made = from_blocks(blocks, self._landing)
                member.confirm(answer)
            except Unopened:
                raise
            except Exception as error:  # of what a batch's own types do when they are unpickled
                self._failed(task, member, f"{type(error).__name__}: {error}")
                return
            copy_s, direct = time.thread_time() - began, answer.get("parcel") is not None
            self._book(member, blocks.nbytes, answer["seconds"], took, copy_s, direct)
            member.until_check -= 1
            if member.until_check > 0:
                self.received(task, member, made)
            else:
                core.check(task, member, made)

    def _book(
        self, member: Any, size: int, made_s: float, took_s: float, copy_s: float, direct: bool
    ) -> None:
        with self._core.lock:
            node = self._nodes.setdefault(member.node, dict(_NOTHING))
            node["bytes"] += size
            node["make_seconds"] += made_s
            node["way_seconds"] += max(0.0, took_s - made_s)
            node["copy_cpu_seconds"] += copy_s
            node["in_shared_memory"] += direct

    def received(self, task: Any, member: Any, made: Any) -> None:
        """Answers the task. Any thread."""
        if self._core.answer(task, made):
            with self._core.lock:
                node = self._nodes.setdefault(member.node, dict(_NOTHING))
                node["batches"] += 1
                node["samples"] += len(task.work.rows)

    def _failed(self, task: Any, member: Any, text: str) -> None:
        """The batch is made here: its error is the consumer's, unless only the member has it."""
        member.failures += 1
        if member.failures >= _MOST_FAILURES:
            self.expel(member, f"batches that can be made here fail there: {text}")
        self._core.make_here(task)

    def expel(self, member: Any, why: str) -> None:
        """Any thread."""
        self._lost(member)
        member.expelled = why
        warn(
            f"the remote worker on node {member.node} is not used any more: {why}. Make millrace, its"
            " libraries and the files there the same as here. Its batches are made by the others"
        )

    def _say_when_alone(self, some: bool, now: float) -> None:
        """One warning, when all members have gone or have not answered for a while."""
        if self._ready or not self._pool.members:
            self._since_none = None
            return
        self._since_none = self._since_none or now
        if not self._warned and (not some or now - self._since_none > self._pool.patience_s):
            self._warned = True
            warn(
                "no remote worker answers: batches are made by this machine's threads alone. Remote workers"
                f" are used again as soon as they answer{self._pool.why_nobody()}"
            )

    # ---------------------------------------------------------------- how many help

    def delivered(self, waited: float) -> None:
        """The loop got a batch, for which it waited so long. Under the core's lock.

        Where the pool is to help as needed, members that the loop does not wait for are left alone.
        """
        if not self._pool.as_needed:
            return
        window, now = self._window, time.monotonic()
        window[0] += 1
        window[1] += waited
        if window[0] < _WINDOW:
            return
        share = window[1] / max(now - window[2], 1e-9)
        if share > _WAITS:
            self._allowed = min(len(self._pool.members), max(1, 2 * self._allowed))
        elif share < _IDLES:
            self._allowed = max(0, self._allowed - 1)
        self._window = [0, 0.0, now]

    def stats(self) -> dict[str, Any]:
        """Under the core's lock."""
        return {
            "workers": len(self._ready),
            "working": min(len(self._ready), self._allowed),
            "nodes": {name: dict(node) for name, node in self._nodes.items() if node["batches"]},
            "expelled": {m.name: m.expelled for m in self._pool.members if m.expelled},
        }


_NOTHING = {
    "batches": 0,
    "samples": 0,
    "bytes": 0,
    "make_seconds": 0.0,
    "way_seconds": 0.0,
    "copy_cpu_seconds": 0.0,
    "in_shared_memory": 0,
}
