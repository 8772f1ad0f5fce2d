"""A store that misbehaves: an HTTP server on loopback whose objects are bytes in memory, or another server's,
and whose faults are chosen.

>>> with FaultProxy({"/a.tar": data}) as store:
...     store.faults = lambda request: "reset"          # called once per GET with its Request; the name of a
fault, or None ...     store.url("a.tar"), store.requests, store.bytes_sent

Faults: reset (a TCP reset in the middle of the body), stall (nothing more comes), drip (a byte every now and
then), truncate (the connection ends early), short (Content-Length and body are half of what was asked),
other_size (Content-Range names another size), other_etag, shifted (Content-Range begins elsewhere), slow
(half a second late), whole (ranges are ignored), and any status number; 429 and 503 with Retry-After.
`latency`: seconds before each answer; `bytes_per_second`: of all connections together; `connection_rate`: of
    each.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

PIECE = 256 << 10


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    start: int
    end: int
    number: int  # counted over all requests of the store
    if_match: str | None


class FaultProxy:
    def __init__(
        self,
        objects: dict[str, bytes],
        latency: float = 0.0,
        bytes_per_second: float = 0.0,
        connection_rate: float = 0.0,
    ) -> None:
        self.objects = dict(objects)
        self.etags = {path: f'"{i}"' for i, path in enumerate(self.objects)}
        self.latency, self.bytes_per_second, self.connection_rate = latency, bytes_per_second, connection_rate
        self.faults: Callable[[Request], object] = lambda request: None
        self.requests: list[Request] = []
        self.bytes_sent = 0
        self.connections = 0
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._sockets: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/{name}"

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._sockets):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._thread.join()

    # ------------------------------------------------------------------ HTTP

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                self._sockets.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        pending = b""
        try:
            while True:
                while b"\r\n\r\n" not in pending:
                    got = connection.recv(65536)
                    if not got:
                        return
                    pending += got
                head, _, pending = pending.partition(b"\r\n\r\n")
                if not self._answer(connection, head.decode()):
                    return
        except OSError:
            pass
        finally:
            with self._lock:
                self._sockets.discard(connection)
            connection.close()

    def _answer(self, connection: socket.socket, head: str) -> bool:
        lines = head.split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        data = self.objects.get(path, b"")
        start, end, ranged = 0, len(data), False
        if "range" in headers:
            first, _, last = headers["range"].removeprefix("bytes=").partition("-")
            start, end, ranged = int(first), min(len(data), int(last) + 1 if last else len(data)), True
        with self._lock:
            request = Request(method, path, start, end, len(self.requests), headers.get("if-match"))
            self.requests.append(request)
        fault = self.faults(request)
        self._pause(self.latency + (0.5 if fault == "slow" else 0.0))
        if path not in self.objects:
            fault = 404
        elif request.if_match not in (None, self.etags[path]):
            fault = 412
        elif ranged and start >= len(data):
            fault = 416
        if isinstance(fault, int):
            body = b"ExpiredToken" if fault == 400 else b"no"
            after = "Retry-After: 1\r\n" if fault in (429, 503) else ""
            answer = f"HTTP/1.1 {fault} No\r\n{after}Content-Length: {len(body)}\r\n\r\n".encode()
            connection.sendall(answer if method == "HEAD" else answer + body)
            return True
        if fault == "whole":
            start, end, ranged = 0, len(data), False
        if fault == "short":
            end = start + (end - start) // 2
        answer = ["HTTP/1.1 206 Partial" if ranged else "HTTP/1.1 200 OK", f"Content-Length: {end - start}"]
        if ranged:
            total = len(data) + (1 if fault == "other_size" else 0)
            shift = 10 if fault == "shifted" else 0
            answer.append(f"Content-Range: bytes {start + shift}-{end - 1 + shift}/{total}")
        answer.append(f"ETag: {self.etags[path] if fault != 'other_etag' else chr(34) + 'other' + chr(34)}")
        connection.sendall(("\r\n".join(answer) + "\r\n\r\n").encode())
        return method == "HEAD" or self._send(connection, memoryview(data)[start:end], fault)

    def _send(self, connection: socket.socket, body: memoryview, fault: object) -> bool:
        begun = time.monotonic()
        breaks = {"reset", "stall", "drip", "truncate"}
        for at in range(0, len(body), PIECE):
            piece = body[at : at + PIECE]
            if fault in breaks and at + len(piece) > len(body) // 2:
                piece = piece[: max(0, len(body) // 2 - at)]
            self._bandwidth(len(piece))
            if self.connection_rate > 0:
                self._pause(begun + at / self.connection_rate - time.monotonic())
            with self._lock:  # first: whoever has the piece may look at the count at once
                self.bytes_sent += len(piece)
            connection.sendall(piece)
            if fault in breaks and at + PIECE > len(body) // 2:
                break
        else:
            return True
        if fault == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif fault in ("stall", "drip"):
            for i in range(len(body) // 2, min(len(body), len(body) // 2 + 600)):
                self._pause(0.1)
                if fault == "drip":
                    connection.sendall(body[i : i + 1])
                if self._closing.is_set():
                    break
        return False

    def _bandwidth(self, count: int) -> None:
        if self.bytes_per_second <= 0:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - 0.02) + count / self.bytes_per_second
            wait = self._free_at - now
        self._pause(wait)

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self._closing.wait(seconds)
