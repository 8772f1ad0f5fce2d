"""Tests in several processes (pytest -n 2): those marked `alone` run while no other test does.

Two files and the kernel's locks: a test holds `turns`, shared with the others or, marked `alone`, by itself.
Who waits for it holds `gate`, which everybody passes first, so those that share it cannot keep out for ever
one that does not.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def held(path: str, how: int) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        fcntl.flock(
            fd, fcntl.LOCK_UN
        )  # closing would leave it to a forked child that has the descriptor, too
        os.close(fd)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    folder = item.config._tmp_path_factory.getbasetemp().parent  # type: ignore[attr-defined]  # of this run, for all its processes
    alone = item.get_closest_marker("alone") is not None
    with contextlib.ExitStack() as turn:
        with held(str(folder / "gate"), fcntl.LOCK_EX):
            turn.enter_context(held(str(folder / "turns"), fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        return (yield)
