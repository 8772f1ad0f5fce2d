"""Reports of real loaders: every engine, running and ended; parts of next() in torch's profiler."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import millrace
import pytest
import torch
from millrace import DataLoader, Report, prometheus, serve_metrics
from millrace_tools.report.summary import Summary
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import TensorDataset

pytestmark = pytest.mark.slow


class Slow(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.001)
        return torch.full((4,), float(index))


ENGINES: dict[str, Callable[[], DataLoader]] = {
    "native threads": lambda: DataLoader(
        TensorDataset(torch.arange(96.0).reshape(48, 2)), batch_size=4, num_workers=2
    ),
    "native inline": lambda: DataLoader(TensorDataset(torch.arange(96.0).reshape(48, 2)), batch_size=4),
    "processes": lambda: DataLoader(Slow(), batch_size=4, num_workers=2),
    "threads": lambda: DataLoader(Slow(), batch_size=4, num_workers=2, worker_method="thread"),
    "inline": lambda: DataLoader(Slow(), batch_size=4),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_report_of_every_engine(engine: str, tmp_path) -> None:
    loader = ENGINES[engine]()
    for _ in loader:
        time.sleep(0.001)
    report = loader.report()
    assert isinstance(report, Report) and report.summary.batches == 12 and not report.summary.running
    assert sum(report.summary.consumer.values()) == pytest.approx(report.summary.wall, rel=0.02, abs=1e-3)
    assert "12 batches, 48 samples" in str(report)
    assert len(report.profile["steps"]["enter"]) >= 12
    trace = json.loads(report.save_trace(tmp_path / "trace.json").read_text())
    assert sum(event["name"] == "step" for event in trace["traceEvents"]) >= 12
    assert report.save(tmp_path / "report.html").stat().st_size > 10_000
    assert "millrace_batches_total 12" in prometheus(loader)


def test_before_the_first_iterator_and_without_a_step() -> None:
    loader = ENGINES["native threads"]()
    assert "0 batches, 0 samples" in str(loader.report())
    iterator = iter(loader)
    assert loader.report().summary.running and "0 batches, 0 samples" in str(loader.report())
    next(iterator)
    assert "running for" in str(loader.report()) and loader.report().summary.batches == 1


def test_advice_stands_at_the_top(monkeypatch) -> None:
    monkeypatch.setattr(DataLoader, "advice", lambda self: "do this\n  and that", raising=False)
    loader = ENGINES["inline"]()
    list(loader)
    assert str(loader.report()).splitlines()[1:3] == ["do this", "  and that"]


def test_numbers_are_read_by_another_thread_while_the_loop_runs() -> None:
    loader = ENGINES["processes"]()
    failures: list[BaseException] = []
    over = threading.Event()

    def watch() -> None:
        try:
            while not over.is_set():
                assert "millrace_wall_seconds_total" in prometheus(loader)
                Summary(loader.profile(steps=True) or {})
        except BaseException as failure:
            failures.append(failure)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with serve_metrics(loader):
            for _ in range(3):
                assert sum(len(batch) for batch in loader) == 48
    finally:
        over.set()
        watcher.join()
    assert not failures


def ranges(work: Callable[[], Any]) -> dict[str, int]:
    """{name: how often} of millrace's and torch's ranges in a profile of `work`."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        work()
    return {
        event.key: event.count
        for event in profiler.key_averages()
        if "millrace" in event.key or "DataLoader" in event.key
    }


@pytest.mark.parametrize(
    ("engine", "part"),
    [
        ("native threads", "wait"),
        ("native inline", "make"),
        ("processes", "wait"),
        ("threads", "wait"),
        ("inline", "make"),
    ],
)
def test_torchs_profiler_shows_the_parts_of_next(engine: str, part: str) -> None:
    loader = ENGINES[engine]()
    found = ranges(lambda: list(loader))
    assert found["millrace: draw"] >= 12
    assert found[f"millrace: {part}"] >= (12 if engine != "processes" else 1)
    assert sum(count for name, count in found.items() if name.startswith("enumerate(DataLoader)#")) in (
        12,
        13,
    )


def test_parts_lie_inside_torchs_own_range() -> None:
    loader = ENGINES["native inline"]()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        list(loader)
    events = [event for event in profiler.events() if event.name.startswith("millrace: ")]
    assert events
    for event in events:
        parent = event.cpu_parent
        while parent is not None and not parent.name.startswith("enumerate(DataLoader)"):
            parent = parent.cpu_parent
        assert parent is not None, event.name


def test_pinning_is_a_range(monkeypatch) -> None:
    monkeypatch.setattr("torch.utils.data._utils.pin_memory.pin_memory", lambda batch, device=None: batch)
    loader = ENGINES["inline"]()
    iterator = iter(loader)
    iterator._pin_memory = True
    assert ranges(lambda: list(iterator))["millrace: copy"] == 12


def test_no_range_is_made_while_nobody_records(monkeypatch) -> None:
    def refused(_name: str) -> None:
        raise AssertionError("a range, but nobody records")

    monkeypatch.setattr("millrace._profiling.stages.record_function", refused)
    for engine in ENGINES.values():
        assert len(list(engine())) == 12


def test_the_report_package_is_there_with_millrace() -> None:
    assert millrace.Report is Report
