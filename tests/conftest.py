"""Tests marked `alone` run while no other test does (pytest -n 2), and again when a number that they measured
was too small or too large. And gc.collect() as all tests have it.

Two files and the kernel's locks: a test holds `turns`, shared with the others or, marked `alone`, by itself.
Who waits for it holds `gate`, which everybody passes first, so those that share it cannot keep out for ever
one that does not.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import re
import time
import weakref
from collections.abc import Iterator

import pytest
from _pytest.runner import runtestprotocol

MOST_RUNS = 3  # of a test marked `alone`
AGAIN = (
    "measured again"  # a property of such a test; properties come to the terminal from xdist's workers, too
)


@contextlib.contextmanager
def held(path: str, how: int) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        # closing would leave it to a forked child that has the descriptor, too
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    folder = item.config._tmp_path_factory.getbasetemp().parent  # type: ignore[attr-defined]  # of this run, for all its processes
    with contextlib.ExitStack() as turn:
        with held(str(folder / "gate"), fcntl.LOCK_EX):
            turn.enter_context(
                held(str(folder / "turns"), fcntl.LOCK_EX if is_alone(item) else fcntl.LOCK_SH)
            )
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Imports and what is collected stay until the process ends: up to 900,000 objects, through which the
    garbage collector would go each time that a test calls it, for half a second. It looks at later ones.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


class _Knot:
    """Garbage that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


def patient_collect(generation: int = 2, most_s: float = 10.0) -> int:
    """gc.collect() does nothing while another thread collects, and that thread may be in a finalizer which
    waits for threads of a loader: one that has begun is waited for.
    """
    knot = _Knot()
    alive = weakref.ref(knot)
    del knot
    found, until = pythons_collect(generation), time.monotonic() + most_s
    while generation == 2 and alive() is not None and time.monotonic() < until:
        time.sleep(0.001)
        found += pythons_collect(generation)
    return found


pythons_collect, gc.collect = gc.collect, patient_collect


# How pytest tells of a number that is out of bounds: "assert 0.3 < 0.1", "assert (2.0 * 0.9) <= 1.5".
OUT_OF_BOUNDS = re.compile(r"^(?:AssertionError: )?assert [^\n]*\d[^\n]* [<>]=? [^\n]*\d", re.MULTILINE)
QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")


def measured_too_much(report: pytest.TestReport) -> bool:
    """A failed test may be run again only for that: a signal, a hang, a wrong value or an error never is."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.when != "call" or crash is None:
        return False
    return OUT_OF_BOUNDS.search(QUOTED.sub("", crash.message)) is not None


class Again:
    """Other programs slow a machine down, too, which is no fault of what is tested: a test marked `alone` may
    fail twice. Only its body may: fixtures claim nothing about time.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not is_alone(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for _ in range(MOST_RUNS - 1):
            failed = [report for report in reports if report.failed]
            if len(failed) != 1 or not measured_too_much(failed[0]):
                break
            item.user_properties.append((AGAIN, failed[0].longrepr.reprcrash.message.split("\n")[0]))
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Again())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = {
        report.nodeid: [why for name, why in report.user_properties if name == AGAIN]
        for reports in terminalreporter.stats.values()
        for report in reports
        if hasattr(report, "user_properties")
    }
    for test, reasons in found.items():
        for why in reasons:
            terminalreporter.write_line(f"{AGAIN}: {test} - {why}", yellow=True)
