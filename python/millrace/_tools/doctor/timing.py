"""Loops that end at their time, and calls that are given up at theirs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


def until(seconds: float, work: Callable[[], int], threads: int = 1) -> tuple[int, int, float]:
    """Calls `work()`, which returns bytes, again and again on so many threads: (calls, bytes, seconds). The
    first error ends all, and is
    raised.
    """
    if threads == 1:
        return _loop(work, time.perf_counter() + seconds, lambda: False)
    failed: list[BaseException] = []
    counts = [(0, 0, 0.0)] * threads
    end = time.perf_counter() + seconds

    def run(number: int) -> None:
        try:
            counts[number] = _loop(work, end, lambda: bool(failed))
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(threads)]
    begin = time.perf_counter()
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    except BaseException as interrupt:  # Ctrl-C, or no more threads
        failed.append(interrupt)
        raise
    if failed:
        raise failed[0]
    return sum(count[0] for count in counts), sum(count[1] for count in counts), time.perf_counter() - begin


def _loop(work: Callable[[], int], end: float, stopped: Callable[[], bool]) -> tuple[int, int, float]:
    begin = now = time.perf_counter()
    calls = size = 0
    while now < end and not stopped():
        size += work()
        calls += 1
        now = time.perf_counter()
    return calls, size, max(now - begin, 1e-9)


def within(seconds: float, work: Callable[[], Any], what: str) -> Any:
    """`work()` on a thread of its own, or TimeoutError after so many seconds; then the thread is left to
    itself.
    """
    answer: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(work())
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=run, daemon=True, name=f"doctor: {what}")
    worker.start()
    worker.join(seconds)
    if failed:
        raise failed[0]
    if not answer:
        raise TimeoutError(f"{what} gave no answer within {seconds:g} s")
    return answer[0]


def explained(error: BaseException) -> str:
    """An error in one line."""
    text: str | None = getattr(error, "strerror", None)
    name = getattr(error, "filename", None)
    if text:
        return f"{name}: {text}" if name else text
    return " ".join((str(error) or type(error).__name__).split())
