"""Reports on what a loader did: plain lines, a page, a trace, metrics, all made of the ledger in `loader.stats()`.

    print(loader.report())                        # millrace.report.Report
    loader.report().save("report.html")
    millrace.report.prometheus(loader)
"""

from __future__ import annotations

from typing import Any

from .metrics import prometheus
from .report import Report
from .serving import MetricsServer, serve_metrics

__all__ = ["MetricsServer", "Report", "prometheus", "report_of", "serve_metrics"]


def ledger_of(loader: Any, steps: bool) -> dict[str, Any]:
    """The ledger of a loader's latest iterator; {} before the first. A loader's own, or that of what it is wrapped in."""
    return loader.stats(steps=steps).get("ledger") or {}


def report_of(loader: Any) -> Report:
    """What `loader.report()` returns."""
    advice = getattr(loader, "advice", None)
    return Report(ledger_of(loader, steps=True), (str(advice()) or None) if callable(advice) else None)
