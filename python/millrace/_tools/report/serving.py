"""A web server for Prometheus to ask: one thread, on this machine's own address only."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .metrics import prometheus


class MetricsServer:
    """Answers GET /metrics on 127.0.0.1:`port` until close(), the end of its `with` block or of the process.
    `url` says where.

    Holds the loader while it serves. Its threads are daemons, and answer while the training loop is in code
    that releases the GIL, or between two of its instructions.
    """

    def __init__(self, loader: Any, port: int = 0, labels: Mapping[str, str] | None = None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "only /metrics is here")
                    return
                body = prometheus(loader, labels).encode()
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
        """Stops; may be called twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def serve_metrics(loader: Any, port: int = 0, labels: Mapping[str, str] | None = None) -> MetricsServer:
    """Serves prometheus(loader, labels) at http://127.0.0.1:PORT/metrics, to this machine alone; port 0: a
    free one.

    Returns a MetricsServer: `url`, `port`, close(), or a `with` block. It holds the loader meanwhile.
    OSError: the port is taken.
    """
    return MetricsServer(loader, port, labels)
