"""The parent's side of a server process: starts it, asks it, ends it."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from multiprocessing.connection import Connection
from typing import Any

import torch

from .configurations import Configuration, arguments
from .measure import Task
from .server import end_with_parent, serve
from .targets import Target

_GRACE_S = 5.0  # that the server has to say that a measurement took too long
_TAIL_LINES = 12


class LoadFailed(RuntimeError):
    """The dataset cannot be had: what importing or making it raised."""


class Failed(RuntimeError):
    """A measurement failed. `kind`: of the exception; "silent" for one that gave no answer in time, "died"
    for a process that ended.
    """

    def __init__(self, kind: str, text: str, where: str = "") -> None:
        super().__init__(text)
        self.kind, self.where = kind, where


class Client:
    """Use as a context manager. Each request is measured in a process of its own; see server.py."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._process: Any = None
        self._connection: Connection | None = None
        self._output = tempfile.TemporaryFile()  # what the dataset prints would tear the table
        self._used = False
        self.alone_because = ""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
        self._output.close()

    def start(self) -> None:
        """Loads the dataset. LoadFailed when that raises."""
        ours, theirs = socket.socketpair()
        if self._target.live is None:
            words = [
                sys.executable,
                "-c",
                "import sys; from millrace._tools.bench.server import main; main(sys.argv[1:])",
            ]
            words += [str(theirs.fileno()), str(os.getpid())]
            self._process = subprocess.Popen(
                words,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                start_new_session=True,
            )
        else:
            self._process = _Fork(self._target, ours, theirs, self._output.fileno())
        theirs.close()
        self._connection = Connection(ours.detach())
        self._used = False
        try:
            if self._target.live is None:
                self._connection.send((sys.path, self._target))
            kind, what = self._connection.recv()
        except (EOFError, OSError):
            raise LoadFailed(
                f"the process that loads {self._target.text} ended ({self._ending()}){self._tail()}"
            ) from None
        if kind == "raised":
            self.close()
            said = what["error"] + (f" ({what['where']})" if what["where"] else "")
            raise LoadFailed(said if self._target.text in said else f"{self._target.text}: {said}")
        self.alone_because = what

    def probe(self, seconds: float, limit_s: float) -> dict[str, Any]:
        return self._ask("probe", (seconds,), limit_s)

    def divides(self, limit_s: float) -> bool:
        return self._ask("divides", (), limit_s)

    def survey(self, seconds: float) -> dict[str, Any]:
        return self._ask("survey", (seconds,), 2 * seconds + 10)

    def written(self, configuration: Configuration, facts: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """The loader's arguments: the plain values (of an object that is here also the rest), and a line that
        has them all.
        """
        plain, line = self._ask("written", (configuration, facts), 60.0)
        live = self._target.live
        if (
            live is not None
            and not isinstance(live, type)
            and (hasattr(live, "__getitem__") or hasattr(live, "dataset"))
        ):
            plain = arguments(configuration, self._target.load(), facts)
        return plain, line

    def measure(self, configuration: Configuration, task: Task, facts: dict[str, Any]) -> dict[str, Any]:
        """The record of measure.measure(). Failed where there is none."""
        return self._ask("measure", (configuration, task, facts), 1.25 * task.limit_s + 2)

    def _ask(self, name: str, arguments: tuple[Any, ...], limit_s: float) -> Any:
        if self._process is None or (self._used and self.alone_because):
            self.close()
            self.start()
        self._used = True
        assert self._connection is not None
        try:
            self._connection.send((name, arguments, limit_s))
            if not self._connection.poll(limit_s + _GRACE_S):
                self.close()
                raise Failed("silent", f"no batch within {limit_s:.0f} s")
            kind, what = self._connection.recv()
        except (EOFError, OSError):
            raise Failed("died", f"its process ended ({self._ending()}){self._tail()}") from None
        if kind == "done":
            return what
        if kind == "silent":
            raise Failed(kind, f"no batch within {what:.0f} s")
        if kind == "died":
            raise Failed(kind, f"its process ended ({_exit(what)}){self._tail()}")
        raise Failed(what["kind"], what["error"], what["where"])

    def close(self) -> None:
        """Ends the server and all it started."""
        process, self._process = self._process, None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0 if self.alone_because else 1.5)
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _ending(self) -> str:
        process = self._process
        self.alone_because, self._process = "", None
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        return _exit(process.wait())

    def _tail(self) -> str:
        """What it has printed last."""
        self._output.seek(0)
        lines = self._output.read().decode("utf-8", "replace").strip().splitlines()
        fatal = [place for place, line in enumerate(lines) if line.startswith("Fatal Python error")]
        if fatal:  # faulthandler's: the innermost call comes first
            lines = lines[fatal[-1] :][: _TAIL_LINES // 2]
        return (
            ": its last words are\n" + "\n".join("  " + line for line in lines[-_TAIL_LINES:])
            if lines
            else ""
        )


class _Fork:
    """A server that has an object of this process: forked from it. The part of subprocess.Popen's interface
    that is used.
    """

    def __init__(self, target: Target, ours: socket.socket, theirs: socket.socket, output: int) -> None:
        parent = os.getpid()

        def run() -> None:
            end_with_parent(parent)
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            ours.close()
            for stream in (1, 2):
                os.dup2(output, stream)
            faulthandler.enable(2)
            warnings.simplefilter("ignore", UserWarning)
            torch.set_num_threads(1)  # OpenMP's threads did not follow the fork, and would be waited for
            serve(Connection(theirs.detach()), target)
            os._exit(0)

        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # forks with threads: torch's workers are made no other way
            self._process = multiprocessing.get_context("fork").Process(target=run)
            self._process.start()
        self.pid = self._process.pid

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("server", timeout or 0)
        return self._process.exitcode


def _exit(code: int | None) -> str:
    if code is None:
        return "unknown"
    return f"status {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
