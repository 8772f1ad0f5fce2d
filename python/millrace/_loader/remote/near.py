"""NearMaker makes the local part of a Python dataset's batches: in actors on this machine, a process each."""

from __future__ import annotations

import queue
import time
from typing import Any

from ..engine import closed_error
from .blocks import Blocks, Landing, from_blocks
from .courier import Gone, Lost, Unopened
from .maker import Work
from .python_maker import OfPython

_SLICE_S, _AGAIN_S, _PATIENCE_S = 0.2, 0.2, 120.0
_MOST_DEATHS = 3


class NearMaker(OfPython):
    """As a PythonMaker, but callable from this process. If a batch's process dies, the next one makes it
    again.
    """

    def __init__(self, pool: Any, dataset: Any, workers: int, memory: str) -> None:
        super().__init__(dataset)
        self.lanes, self._pool = workers, pool
        self._closed = False
        self._free: queue.SimpleQueue = queue.SimpleQueue()
        for member in pool.near(workers):
            self._free.put((member, Landing(memory.startswith("page-locked"))))

    def make(self, work: Work) -> Any:
        member, landing = self._free.get()
        try:
            made, answer = self._made(member, landing, work)
            if answer is None:
                return made
        finally:
            self._free.put((member, landing))
        if answer["raised"] is not None:
            answer["raised"].reraise()
        raise RuntimeError(answer["error"])

    def _made(self, member: Any, landing: Landing, work: Work) -> tuple[Any, dict[str, Any] | None]:
        """(the batch, None), or (None, the answer with the reason why there is none)."""
        deaths = 0
        while deaths < _MOST_DEATHS:
            self._begun(member)
            ref = None
            try:
                ref = member.send(work)
                answer = member.opened(self._wait(ref))
                if "error" in answer:
                    return None, answer
                made = from_blocks(Blocks(*answer["blocks"]), landing)
                member.confirm(answer)
                return made, None
            except Unopened:
                member.until_check = 0
            except (Lost, Gone):
                member.until_check, deaths = 0, deaths + 1
            finally:
                member.ended(ref)
        raise RuntimeError(
            f"{_MOST_DEATHS} worker processes in turn ended while they made the batch of samples"
            f" {list(work.rows)[:8]}...: out of memory, or a crash of the dataset's code; Ray's log says more"
        )

    def _begun(self, member: Any) -> None:
        """Wait for the process, which may have to be started again."""
        until = time.monotonic() + _PATIENCE_S
        while not member.until_check:
            try:
                answer = self._wait(member.ask())
            except (Lost, Gone) as trouble:
                if not self._pool.lives or time.monotonic() > until:
                    raise RuntimeError(f"no worker process starts on this machine: {trouble}") from None
                time.sleep(_AGAIN_S)
                continue
            if "error" in answer:
                raise RuntimeError(f"a worker process cannot begin: {answer['error']}")
            if answer["facts"] != self.facts():
                raise RuntimeError(
                    "a worker process on this machine has another dataset than this one:"
                    f" {answer['facts']}, not {self.facts()}"
                )
            member.until_check = 1
            member.meet(answer.get("machine"))

    def _wait(self, ref: Any) -> dict[str, Any]:
        while not self._closed:
            if self._pool.wait([ref], _SLICE_S):
                return self._pool.get(ref)
        self._pool.cancel(ref)
        raise closed_error()

    def close(self) -> None:
        """The processes stay for the loader's next iterator."""
        self._closed = True
