"""Reports on what a loader did: plain lines, a page, a trace, metrics, all made of the profile in
`loader.stats()`.

print(loader.report())                        # millrace._tools.report.Report
loader.report().save("report.html")
millrace._tools.report.prometheus(loader)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .metrics import prometheus
from .report import Report
from .summary import profile_of

__all__ = ["Report", "prometheus", "report_of", "serve_metrics"]


def report_of(loader: Any) -> Report:
    """What `loader.report()` returns."""
    advice = getattr(loader, "advice", None)
    return Report(profile_of(loader, steps=True), (str(advice()) or None) if callable(advice) else None)


def serve_metrics(loader: Any, port: int = 0, labels: Mapping[str, str] | None = None) -> Any:
    """Serves prometheus(loader, labels) at http://127.0.0.1:PORT/metrics, to this machine alone; port 0: a
    free one.

    Returns a serving.MetricsServer: `url`, `port`, close(), or a `with` block. It holds the loader meanwhile.
    OSError: the port is taken.
    """
    from .serving import MetricsServer  # a web server is no part of `import millrace`

    return MetricsServer(loader, port, labels)
