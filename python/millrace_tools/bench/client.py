"""The parent's side of a server process: starts it, asks it, ends it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch

from .child import Child
from .configurations import Configuration, arguments
from .server import serve
from .targets import Target

_GRACE_S = 5.0  # that the server has to say that a measurement took too long
_LOAD_S = 1e6  # loading may take as long as it likes
_TAIL_LINES = 12
_MAIN = "import sys; from millrace_tools.bench.server import main; main(sys.argv[1:])"


class LoadFailed(RuntimeError):
    """The dataset cannot be had: what importing or making it raised."""


class Failed(RuntimeError):
    """A measurement failed. `kind`: of the exception; "silent" for one that gave no answer in time, "died"
    for a process that ended.
    """

    def __init__(self, kind: str, text: str, where: str = "") -> None:
        super().__init__(text)
        self.kind, self.where = kind, where


class Client(contextlib.AbstractContextManager["Client"]):
    """Use as a context manager. Each request is measured in a process of its own; see server.py."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._output = tempfile.TemporaryFile()  # what the dataset prints would tear the table
        # All processes have one position in it, which no reader may move under one that still writes.
        flags = fcntl.fcntl(self._output, fcntl.F_GETFL)
        fcntl.fcntl(self._output, fcntl.F_SETFL, flags | os.O_APPEND)
        self._used = False
        self.server: Child | None = None
        self.alone_because = ""

    def __exit__(self, *_: Any) -> None:
        self.close()
        self._output.close()

    def start(self) -> None:
        """Loads the dataset. LoadFailed when that raises."""
        text, self._used = self._target.text, False
        self.server = Child(partial(self._begin, os.getpid()))
        if self._target.live is None:
            with contextlib.suppress(OSError):  # it has ended, as the answer says
                self.server.connection.send((sys.path, self._target))
        kind, what = self.server.answer(_LOAD_S)
        if kind == "done":
            self.alone_because = what
            return
        self.close()
        said = what["error"] + (f" ({what['where']})" if what["where"] else "") + self._last_words(what)
        raise LoadFailed(said if text in said else f"{text}: {said}")

    def _begin(self, parent: int, connection: Connection) -> None:
        """In the new process, which has an object of this one, or else begins anew."""
        for stream in (1, 2):
            os.dup2(self._output.fileno(), stream)
        if self._target.live is not None:
            torch.set_num_threads(1)  # OpenMP's threads did not follow the fork, and would be waited for
            serve(connection, self._target)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.set_inheritable(connection.fileno(), True)
        words = [sys.executable, "-c", _MAIN, str(connection.fileno()), str(parent)]
        os.execv(sys.executable, words)

    def written(self, configuration: Configuration, facts: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """The loader's arguments: the plain values (of an object that is here also the rest), and a line that
        has them all.
        """
        plain, line = self.ask("written", 60.0, configuration, facts)
        live = self._target.live
        if not isinstance(live, type) and (hasattr(live, "__getitem__") or hasattr(live, "dataset")):
            plain = arguments(configuration, self._target.load(), facts)
        return plain, line

    def ask(self, name: str, limit_s: float, *arguments: Any) -> Any:
        """What the server's work of that name gives, in a process of its own (see server.py). Failed where
        that is nothing.
        """
        if self.server is None or (self._used and self.alone_because):
            self.close()
            self.start()
        self._used = True
        assert self.server is not None
        with contextlib.suppress(OSError):  # it has ended, as the answer says
            self.server.connection.send((name, arguments, limit_s))
        kind, what = self.server.answer(limit_s + _GRACE_S)
        if self.server.lost:
            self.close()
        if kind == "done":
            return what
        raise Failed(what["kind"], what["error"] + self._last_words(what), what["where"])

    def close(self) -> None:
        """Ends the server and all it started."""
        server, self.server = self.server, None
        if server is not None:
            server.end(0 if self.alone_because or server.lost else 1.5)

    def _last_words(self, what: dict[str, Any]) -> str:
        """What a process that died has printed."""
        if what["kind"] != "died":
            return ""
        descriptor = self._output.fileno()
        printed = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        lines = printed.decode("utf-8", "replace").strip().splitlines()
        fatal = [number for number, line in enumerate(lines) if line.startswith("Fatal Python error")]
        if fatal:  # faulthandler's: the innermost call comes first
            lines = lines[fatal[-1] :][: _TAIL_LINES // 2]
        shown = "".join(f"\n  {line}" for line in lines[-_TAIL_LINES:])
        return f": its last words are{shown}" if shown else ""
