"""A loader's numbers for metrics collectors: Prometheus's text, scalars for TensorBoard; and a web server for
Prometheus to ask: one thread, on this machine's own address only.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .summary import Summary, ordered


def scalars(summary: Summary) -> dict[str, float]:
    """{name: number} for curves over epochs. Times are shares, so epochs of any length can be compared."""
    wall, whole = summary.wall or 1.0, summary.worker_seconds or sum(summary.stages_wall.values()) or 1.0
    found = {
        "samples_per_second": summary.samples_per_second,
        "bytes_per_second": summary.bytes_per_second,
        "lost_share": summary.lost_share,
        "first_wait_seconds": summary.first_wait,
    }
    found |= {f"loop/{part}": s / wall for part, s in summary.consumer.items()}
    found |= {f"stages/{stage}": s / whole for stage, s in summary.stages_wall.items()}
    if summary.worker_seconds:
        found["stages/idle"] = summary.idle / whole
    return found


def prometheus(loader: Any, labels: Mapping[str, str] | None = None) -> str:
    """The numbers of `loader`'s latest iterator in Prometheus's text exposition format (version 0.0.4), for a
    collector of yours.

    Counters begin at 0 with each iterator, as Prometheus expects of a process that begins anew. May be called
    from any thread.

    Args:
        labels: put on each of the numbers, to tell loaders apart.
    """
    summary = Summary(loader.profile() or {})
    stages = (
        ("wall", ordered({**summary.stages_wall, "idle": summary.idle}, ())),
        ("cpu", summary.stages_cpu),
    )
    families: list[tuple[str, str, str, Mapping[tuple[tuple[str, str], ...], float]]] = [
        ("samples_total", "counter", "Samples handed out.", {(): summary.samples}),
        ("batches_total", "counter", "Batches handed out.", {(): summary.batches}),
        (
            "bytes_total",
            "counter",
            "Bytes that were read or made, as stats() counts them.",
            {(): summary.bytes},
        ),
        (
            "wall_seconds_total",
            "counter",
            "Seconds since the iterator was made, up to its end.",
            {(): summary.wall},
        ),
        (
            "loop_seconds_total",
            "counter",
            "The training loop's time: step is its own code, all else the loader's.",
            {(("part", part),): s for part, s in summary.consumer.items()},
        ),
        (
            "lost_seconds_total",
            "counter",
            "The training loop's time in the loader, by what it is put down to.",
            {(("to", part),): s for part, s in summary.blame.items()},
        ),
        (
            "stage_seconds_total",
            "counter",
            "Seconds of each stage, summed over workers.",
            {
                (("clock", clock), ("stage", stage)): s
                for clock, seconds in stages
                for stage, s in seconds.items()
            },
        ),
        (
            "overflow_batches_total",
            "counter",
            "Batches that found all slots taken.",
            {(): summary.queue.get("overflow_slots") or 0},
        ),
        ("slots", "gauge", "Slots for batches.", {(): summary.queue.get("slots") or 0}),
        ("workers", "gauge", "Threads or processes that make batches.", {(): len(summary.workers)}),
        ("epoch", "gauge", "The epoch of the iterator.", {(): summary.epoch}),
        ("running", "gauge", "1 while the iterator is at work.", {(): int(summary.running)}),
    ]
    lines = []
    for name, kind, text, values in families:
        if values:
            lines += [f"# HELP millrace_{name} {text}", f"# TYPE millrace_{name} {kind}"]
        for own, value in values.items():
            pairs = [*(labels or {}).items(), *own]
            shown = ",".join(f'{key}="{_escaped(str(label))}"' for key, label in pairs)
            lines.append(f"millrace_{name}{{{shown}}} {value!r}" if shown else f"millrace_{name} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class MetricsServer(AbstractContextManager["MetricsServer"]):
    """A server that answers GET /metrics on 127.0.0.1:`port` until close(), the end of its `with` block or of
    the process.

    Holds the loader while it serves. Its threads are daemons, and answer while the training loop is in code
    that releases the GIL, or between two of its instructions.

    Attributes:
        url: the address it answers at.
    """

    def __init__(self, loader: Any, port: int = 0, labels: Mapping[str, str] | None = None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "only /metrics is here")
                    return
                body = prometheus(loader, labels).encode(errors="backslashreplace")
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass  # a line for each request has no place among those of a training run

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot serve metrics on port {port}: {error.strerror}; port 0 takes one that is free",
            ) from error
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/metrics"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="millrace metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the server; may be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __exit__(self, *error: Any) -> None:
        self.close()


def serve_metrics(loader: Any, port: int = 0, labels: Mapping[str, str] | None = None) -> MetricsServer:
    """Serve prometheus(loader, labels) at http://127.0.0.1:PORT/metrics, to this machine alone.

    Args:
        port: 0: a free one.
        labels: see `prometheus`.

    Returns:
        A MetricsServer: `url`, `port`, close(), or a `with` block. It holds the loader meanwhile.

    Raises:
        OSError: if the port is taken.
    """
    return MetricsServer(loader, port, labels)
