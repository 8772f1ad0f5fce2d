"""A bench run from end to end."""

from __future__ import annotations

from ... import _core
from .client import Client
from .options import Options
from .progress import Progress, make_progress
from .result import BenchResult
from .search import Search
from .targets import Target


class Stopped(KeyboardInterrupt):
    """Ctrl-C. `result`: what was measured until then; None: nothing."""

    def __init__(self, result: BenchResult | None) -> None:
        super().__init__()
        self.result = result


def run_bench(target: Target, options: Options, progress: bool) -> BenchResult:
    """What bench() does with arguments that are checked."""
    shown = make_progress(options.budget) if progress else Progress()
    with Client(target) as client:
        search = Search(client, options, _core.cpu_budget()["threads"], shown)
        try:
            search.run()
            best = client.written(search.winner, search.facts) if search.winner else ({}, "")
        except KeyboardInterrupt:
            raise Stopped(
                BenchResult(target.text, options, search, stopped=True) if search.records else None
            ) from None
        finally:
            shown.close()
        return BenchResult(target.text, options, search, *best)
