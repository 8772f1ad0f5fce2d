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

    def repeat() -> None:
        while time.perf_counter() < begin + seconds and not failed:
            done.append(work())

    try:
        for worker in [_started(repeat, failed) for _ in range(threads)]:
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
    _started(lambda: answer.append(work()), failed).join(seconds)
    if failed:
        raise failed[0]
    if not answer:
        raise TimeoutError(f"{what} gave no answer within {seconds:g} s")
    return answer[0]


def _started(work: Callable[[], None], failed: list[BaseException]) -> threading.Thread:
    """Starts a thread that runs `work`; its error goes to `failed`. The process does not wait for it."""

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True, name="doctor")
    thread.start()
    return thread


def explained(error: BaseException) -> str:
    """An error in one line."""
    if text := getattr(error, "strerror", None):
        return f"{name}: {text}" if (name := getattr(error, "filename", None)) else text
    return " ".join((str(error) or type(error).__name__).split())
