"""The process that loads a dataset once, and from which each measurement's own process is forked.

    parent ──commands──▶ server: imports, loads ──fork──▶ child: one measurement, then its end, with all its
           workers ◀──answers──

So each configuration begins with the same memory, generators and caches, and leavings of the last one
(threads, fork handlers, pools) are gone. If loading leaves things that do not survive a fork (threads, open
files with a position that forks would share, CUDA), the server measures itself, and the parent starts another
for the next configuration.

How it ends: when the parent closes the connection, or dies, the server ends its child's process group and
goes. Server and child also end some time after the process that started them; see child.py.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import stat
import sys
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from ..system_files import SystemFiles
from .child import Child, end_with_parent
from .configurations import written
from .measure import measure
from .survey import described, divides, probe, survey
from .targets import Source, Target

WORK: dict[str, Callable[..., Any]] = {
    "probe": probe,
    "divides": divides,
    "survey": survey,
    "written": written,
}
# threads that begin anew in a forked child: that of pyarrow's allocator
_FORKS_BY_ITSELF = ("jemalloc_bg_thd",)
_FILES = SystemFiles()
_PATIENCE_S = 2.0  # for a child that has answered to close its loader


def serve(connection: Connection, target: Target) -> NoReturn:
    """Answers ("done", why measurements are not forked or ""), then each command until the connection
    closes.

    Commands: (name, arguments, limit in seconds); names are "measure" and those of WORK. Answers: those of
    Child.answer().
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    faulthandler.disable()  # enabled twice it installs nothing, and others, as Ray, take its handlers away
    faulthandler.enable(2)
    # torch's advice about numbers of workers, which are tried on purpose
    warnings.simplefilter("ignore", UserWarning)
    before = inventory()
    if target.live is None:
        sys.argv = [target.text.rpartition(":")[0]]  # a script that reads its command line finds no arguments
    try:
        source = target.load()
    except (Exception, SystemExit) as error:
        connection.send(_raised(error))
    else:
        why = "" if target.live is not None else in_the_way(before)
        connection.send(("done", why))
        with contextlib.suppress(EOFError, OSError):  # the parent needs nothing more
            while True:
                name, arguments, limit_s = connection.recv()
                if why:
                    _work(connection, name, source, arguments, os.getpid())
                else:
                    connection.send(_forked(connection, name, source, arguments, limit_s))
    connection.close()
    os._exit(0)  # its threads and atexit handlers are nobody's any more


def _raised(error: BaseException) -> tuple[str, Any]:
    said = described(error)
    if isinstance(error, SystemExit):
        said["error"] = (
            f"it ends the process: SystemExit({error.code!r}). Name something that only makes the dataset or"
            " the loader"
        )
    return "raised", {"kind": type(error).__name__, **said}


def _work(connection: Connection, name: str, source: Source, arguments: Any, root: int) -> None:
    def done(what: Any) -> None:
        connection.send(("done", what))

    try:
        if name == "measure":
            configuration, task, facts = arguments
            measure(source, configuration, task, facts, root, done)
        else:
            done(WORK[name](source, *arguments))
    except Exception as error:
        connection.send(_raised(error))


def _forked(
    parent: Connection, name: str, source: Source, arguments: tuple[Any, ...], limit_s: float
) -> tuple[str, Any]:
    root = os.getpid()
    child = Child(lambda connection: _work(connection, name, source, arguments, root), parent)
    try:
        return child.answer(limit_s, parent)
    finally:
        child.end(0 if child.lost else _PATIENCE_S)


def inventory() -> tuple[int, set[tuple[int, int, int]]]:
    """What this process has that a fork does not carry over, or shares: threads, and open files."""
    return len(_threads()), _open_files()


def in_the_way(before: tuple[int, set[tuple[int, int, int]]]) -> str:
    """What has come since the inventory `before`, in words; "": nothing."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "loading it has initialised CUDA"
    started, opened = len(_threads()) - before[0], _open_files() - before[1]
    if started > 0:
        return f"loading it has started {started} threads"
    lines = _FILES.text("/proc/self/maps").splitlines()
    mapped = {int(fields[4]) for line in lines if len(fields := line.split()) > 5}
    # An open file that is mapped, as numpy's, is read by its address.
    opened = {file for file in opened if file[2] not in mapped}
    return f"loading it has opened {len(opened)} files or connections" if opened else ""


def _threads() -> list[str]:
    """Names of those that do not begin anew in a fork by themselves."""
    names = [_FILES.text(f"/proc/self/task/{thread}/comm") for thread in _FILES.names("/proc/self/task")]
    return [name for name in names if name and name not in _FORKS_BY_ITSELF]  # "": it has ended


def _open_files() -> set[tuple[int, int, int]]:
    """(descriptor, device, inode) of regular files and sockets."""
    files = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one of this listing
            about = os.fstat(int(name))
            if stat.S_ISREG(about.st_mode) or stat.S_ISSOCK(about.st_mode):
                files.add((int(name), about.st_dev, about.st_ino))
    return files


def main(arguments: list[str]) -> None:
    """Of a process that begins anew: the number of its end of the connection, and the parent's."""
    import torch  # noqa: F401  # before the inventory: its own threads are no dataset's

    end_with_parent(int(arguments[1]))
    connection = Connection(int(arguments[0]))
    path, target = connection.recv()
    sys.path.extend(entry for entry in path if entry not in sys.path)
    serve(connection, target)
