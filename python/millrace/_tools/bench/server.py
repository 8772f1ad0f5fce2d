"""The process in which a dataset is loaded once, and from which each measurement's own process is forked.

    parent ──commands──▶ server: imports, loads ──fork──▶ child: one measurement, then its end, with all its
           workers ◀──answers──

So each configuration begins with the same memory, generators and caches, and what the last one left behind
(threads, fork handlers, pools) is gone. Where loading has left behind what does not survive a fork (threads,
open files whose position forks would share, CUDA) the server measures itself, and the parent starts another
for the next configuration.

How it ends: when the parent closes the connection, or dies, the server ends its child's process group and
goes. Server and child also end _GRACE_MS after whoever started them, whatever the dataset's code is doing
then.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import stat
import sys
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from ... import _core
from .configurations import written
from .measure import measure
from .survey import described, divides, probe, survey
from .targets import Source, Target

WORK = {"probe": probe, "divides": divides, "survey": survey, "written": written}
# threads that begin anew in a forked child: that of pyarrow's allocator
_FORKS_BY_ITSELF = ("jemalloc_bg_thd",)
_GRACE_MS = 2000
_PATIENCE_S = 2.0  # for a child that has answered to close its loader


def end_with_parent(parent: int) -> None:
    """First of all in a process of the benchmark: its thread is none of the dataset's."""
    _core.end_with_process(parent, _GRACE_MS)


def serve(connection: Connection, target: Target) -> None:
    """Answers ("ready", why measurements are not forked or ""), then each command until the connection
    closes.

    Commands: (name, arguments, limit in seconds); names are "measure" and those of WORK. Answers: ("done",
    what it returned), ("raised", {"kind", "error", "where"}), ("silent", seconds), ("died", exit code).
    """
    before = _Inventory()
    if target.live is None:
        sys.argv = [target.text.rpartition(":")[0]]  # a script that reads its command line finds no arguments
    try:
        source = target.load()
    except Exception as error:
        connection.send(("raised", {"kind": type(error).__name__, **described(error)}))
        return
    except SystemExit as error:
        connection.send(
            (
                "raised",
                {
                    "kind": "SystemExit",
                    "error": f"it ends the process: SystemExit({error.code!r}). "
                    "Name something that only makes the dataset or the loader",
                    "where": "",
                },
            )
        )
        return
    why = "" if target.live is not None else before.in_the_way()
    connection.send(("ready", why))
    while True:
        try:
            name, arguments, limit_s = connection.recv()
        except (EOFError, OSError):
            return
        if why:
            _work(connection.send, name, source, arguments, os.getpid())
        else:
            connection.send(_forked(connection, name, source, arguments, limit_s))


def _work(
    send: Callable[[Any], None], name: str, source: Source, arguments: tuple[Any, ...], root: int
) -> None:
    try:
        if name == "measure":
            measure(source, *arguments, root, lambda record: send(("done", record)))
        else:
            send(("done", WORK[name](source, *arguments)))
    except Exception as error:
        send(("raised", {"kind": type(error).__name__, **described(error)}))


def _forked(parent: Connection, *work: Any) -> Any:
    *call, limit_s = work
    ours, childs = multiprocessing.Pipe()
    root = os.getpid()

    def run() -> None:
        os.setpgid(0, 0)
        end_with_parent(root)
        parent.close()
        ours.close()
        _work(childs.send, *call, root)  # type: ignore[arg-type]
        childs.close()

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forks with threads, which the interpreter's own may be
        child = multiprocessing.get_context("fork").Process(target=run)
        child.start()
    childs.close()
    try:
        ready = wait([ours, parent], limit_s)
        if ours in ready:
            try:
                return ours.recv()
            except EOFError:
                child.join(_PATIENCE_S)
                return ("died", child.exitcode)
        return ("silent", limit_s)
    finally:
        child.join(0 if parent in ready else _PATIENCE_S if ours in ready else 0)
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except OSError:  # it had no time to make its group, or is gone
            if child.is_alive():
                child.kill()
        child.join()
        ours.close()


class _Inventory:
    """What this process has that a fork does not carry over, or shares: compared before and after loading."""

    def __init__(self) -> None:
        self._threads, self._files = self._of_now()

    @staticmethod
    def _of_now() -> tuple[int, set[tuple[int, int, int]]]:
        files = set()
        for name in os.listdir("/proc/self/fd"):
            try:
                about = os.fstat(int(name))
            except OSError:
                continue
            if stat.S_ISREG(about.st_mode) or stat.S_ISSOCK(about.st_mode):
                files.add((int(name), about.st_dev, about.st_ino))
        return sum(
            _thread_name(thread) not in _FORKS_BY_ITSELF for thread in os.listdir("/proc/self/task")
        ), files

    def in_the_way(self) -> str:
        """What has come since, in words; "": nothing."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            return "loading it has initialised CUDA"
        threads, files = self._of_now()
        if threads > self._threads:
            return f"loading it has started {threads - self._threads} threads"
        opened = files - self._files
        if opened:
            mapped = _mapped_inodes()  # an open file that is mapped, as numpy's, is read by its address
            opened = {file for file in opened if file[2] not in mapped}
        return f"loading it has opened {len(opened)} files or connections" if opened else ""


def _thread_name(thread: str) -> str:
    try:
        with open(f"/proc/self/task/{thread}/comm") as file:
            return file.read().strip()
    except OSError:  # it has ended
        return ""


def _mapped_inodes() -> set[int]:
    with open("/proc/self/maps") as file:
        return {int(fields[4]) for line in file if len(fields := line.split()) > 5}


def main(arguments: list[str]) -> None:
    """Of the process that the parent starts: the number of its end of the connection, and the parent's."""
    import torch  # noqa: F401  # before the inventory: its own threads are no dataset's

    end_with_parent(int(arguments[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    faulthandler.enable()
    warnings.simplefilter(
        "ignore", UserWarning
    )  # torch's advice about numbers of workers, which are tried on purpose
    connection = Connection(int(arguments[0]))
    path, target = connection.recv()
    sys.path.extend(entry for entry in path if entry not in sys.path)
    serve(connection, target)
    connection.close()
    os._exit(0)  # its threads and atexit handlers are nobody's any more


if __name__ == "__main__":
    main(sys.argv[1:])
