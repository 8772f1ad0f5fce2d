"""`millrace bench`: the user's own dataset, measured over workers, prefetch, pinning and methods; see
bench().
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace import _core

from .client import Client
from .configurations import BUDGET_S, Options
from .measurements import Progress
from .result import BenchResult
from .search import Search
from .targets import Target

__all__ = ["BenchResult", "Stopped", "bench", "run_bench"]


class Stopped(KeyboardInterrupt):
    """Ctrl-C. `result`: what was measured until then; None: nothing."""

    def __init__(self, result: BenchResult | None) -> None:
        super().__init__()
        self.result = result


def bench(
    dataset: Any,
    *,
    batch_size: int | None = None,
    collate_fn: None | str | Callable[[list], Any] = None,
    shuffle: bool = False,
    workers: Sequence[int] | None = None,
    prefetch: Sequence[int] | None = None,
    pin: Sequence[bool] | None = None,
    methods: Sequence[str] | None = None,
    step_seconds: float = 0.0,
    step_on: str = "gpu",
    steps: int | None = None,
    seconds: float | None = None,
    repeats: int = 5,
    budget: float = BUDGET_S,
    with_torch: bool = True,
    on_error: str = "raise",
    progress: bool = False,
) -> BenchResult:
    """Find the arguments with which a DataLoader is fastest over `dataset`, and the rate of torch's loader in
    the same run.

    KeyboardInterrupt ends all processes.

    Args:
        dataset: a dataset, a function that makes one, a DataLoader of torch or millrace: its arguments are
            taken over; or the name of one of them, "module:name" or "script.py:name", which is then loaded in
            a process of its own. An object is forked from this process, as worker processes are, so nothing
            of it changes here.
        batch_size: default: the loader's, else 64.
        collate_fn: default: the loader's.
        shuffle: each epoch in random order.
        workers, prefetch, pin, methods: the values to try; methods of "native", "process", "thread". Default:
            values that fit the CPUs.
        step_seconds: time of the training loop between two batches.
        step_on: where a step is: on a "gpu" (the loop sleeps) or the "cpu" (busy).
        steps, seconds: how long each point is measured; default: as the budget allows, up to 3 s.
        repeats: of the final.
        budget: seconds that all measurements together take, about.
        with_torch: whether torch's loader is measured, too.
        on_error: "skip", "replace": as the loader's; then torch's, which cannot, is not measured.
        progress: say on stderr which point is measured.

    Raises:
        ValueError: if an argument is impossible.
        LoadFailed, DatasetFails, NothingMeasured: if there is no result. They are RuntimeErrors of
            `millrace_tools.bench`. DatasetFails tells which samples raise, and their share.
    """
    options = Options(
        workers, prefetch, pin, methods, step_seconds, step_on, steps, seconds, repeats, budget, with_torch
    )
    live = None if isinstance(dataset, str) else dataset
    text = dataset if isinstance(dataset, str) else type(dataset).__name__
    target = Target(text, live, collate_fn, batch_size, shuffle, on_error)
    return run_bench(target, options, progress)


def run_bench(target: Target, options: Options, progress: bool) -> BenchResult:
    """What bench() does with arguments that are checked."""
    shown = Progress(options.budget, quiet=not progress)
    with Client(target) as client:
        search = Search(client, options, _core.cpu_budget()["threads"], shown)
        try:
            search.run()
            best = client.written(search.winner, search.facts) if search.winner else ({}, "")
        except KeyboardInterrupt:
            stopped = BenchResult(target.text, options, search, stopped=True) if search.records else None
            raise Stopped(stopped) from None
        finally:
            shown.close()
        return BenchResult(target.text, options, search, *best)
