"""Loops that end at their time, and calls that are given up at theirs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


def until(seconds: float, work: Callable[[], int], threads: int = 1) -> tuple[int, int, float]:
    """Calls `work()`, which returns bytes, again and again on so many threads: (calls, bytes, seconds). The
    first error ends all, and is raised.
    """
    failed: list[BaseException] = []
    done: list[int] = []  # bytes of each call; append() is atomic
    begin = time.perf_counter()

    def run() -> None:
        try:
            while time.perf_counter() < begin + seconds and not failed:
                done.append(work())
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=run, daemon=True) for _ in range(threads - 1)]
    try:
        for worker in workers:
            worker.start()
        run()
        for worker in workers:
            worker.join()
    except BaseException as interrupt:  # Ctrl-C, or no more threads
        failed.append(interrupt)
        raise
    if failed:
        raise failed[0]
    return len(done), sum(done), max(time.perf_counter() - begin, 1e-9)


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
