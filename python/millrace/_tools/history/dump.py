"""What a loader and all that work for it are doing at this moment, as a dict of JSON's types.

Asked from any thread, also while the training loop hangs in next(): nothing here waits for the consumer, and
what is read without its knowledge may be a moment old.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from types import CodeType
from typing import Any

import numpy as np

from ... import _core
from ..._common.signed_urls import unsigned
from .watch import watch

_MOST_INDICES = 64  # of one index list
# that have been iterated over, by id
_loaders: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def known(loader: Any) -> None:
    """It has an iterator now."""
    _loaders[id(loader)] = loader
    if getattr(loader.history, "stuck_after", None):
        watch(_ask)


def _ask() -> list[tuple[Any, dict[str, Any]]]:
    """For watch(): the loaders that want to be looked at, each with what its workers are doing."""
    wanted = [loader for loader in known_loaders() if getattr(loader.history, "stuck_after", None)]
    return [(loader, snapshot_of(loader, stacks=False)) for loader in wanted]


def known_loaders() -> list[Any]:
    """Those that dump_on_signal() speaks of, in the order in which they were first used."""
    with contextlib.suppress(RuntimeError):  # one went meanwhile
        return list(_loaders.values())
    return known_loaders()


def snapshot_of_process(loaders: list[Any]) -> dict[str, Any]:
    """Of this process and these loaders."""
    return {
        "version": 1,
        "pid": os.getpid(),
        "time": time.time(),
        "loaders": [snapshot_of(loader) for loader in loaders],
        "python_threads": python_threads(),
        "transfers": _transfers(),
    }


def snapshot_of(loader: Any, stacks: bool = True) -> dict[str, Any]:
    """Of one loader: an error in finding it out is part of the answer. `stacks`: of worker processes, whom
    that interrupts.
    """
    result: dict[str, Any] = {"dataset": type(loader.dataset).__qualname__, "num_workers": loader.num_workers}
    run, progress = loader._millrace_run, loader._millrace_progress
    if run is None or progress is None:
        return {**result, "engine": None, "iterator": "none was made yet"}
    iterator = progress.iterator()
    result |= {
        "engine": run.engine,
        "epoch": progress.number,
        "step": progress._yielded,
        "seed": run.seed,
        "finished": progress.finished,
    }
    if progress.log is not None:
        result["seconds_since_last_batch"] = time.monotonic() - progress.log.at
    if progress.held:
        result["on_their_way_to_the_device"] = progress.held
    if iterator is None:
        return {**result, "iterator": "gone"}
    result["iterator"] = "shut down" if getattr(iterator, "_shutdown", False) else "running"
    try:
        result |= _of_iterator(iterator, stacks)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
    return result


def _of_iterator(iterator: Any, stacks: bool) -> dict[str, Any]:
    engine = iterator._engine
    if engine is None:
        return {}
    found = engine.snapshot(stacks)
    for entry in [found, *found.get("workers", ())]:
        if "indices" in entry:
            entry["indices"] = _indices(entry["indices"])
        if "pid" in entry:
            entry["system"] = _system_state(entry["pid"]) if entry["alive"] else ""
        if isinstance(entry.get("stack"), tuple):
            entry["stack"] = _lines(entry["stack"])
    return found


def python_threads() -> list[dict[str, Any]]:
    """All Python threads of this process, the one that asks left out."""
    names = {thread.ident: thread for thread in threading.enumerate()}
    result = []
    for ident, stack in _core.stacks_of_threads().items():
        if ident == threading.get_ident() and threading.current_thread() is not threading.main_thread():
            continue
        thread = names.get(ident)
        name = "unknown" if thread is None else thread.name
        result.append({"name": name, "native_id": getattr(thread, "native_id", None), "stack": _lines(stack)})
    return result


def _lines(stack: tuple[tuple[CodeType, int], ...]) -> list[str]:
    """Innermost call first, as faulthandler has it."""
    return [
        f'  File "{code.co_filename}", line {_line(code, offset)} in {code.co_name}' for code, offset in stack
    ]


def _line(code: CodeType, offset: int) -> int | None:
    return next((line for begin, end, line in code.co_lines() if begin <= offset < end), None)


def _indices(rows: Any) -> Any:
    """An index list, cut off where it is long."""
    if isinstance(rows, np.ndarray) or hasattr(rows, "tolist"):
        rows = rows.tolist()
    if not isinstance(rows, (list, tuple)):
        return rows if isinstance(rows, (int, str, type(None))) else repr(rows)
    short = [
        index if isinstance(index, (int, str, type(None))) else repr(index) for index in rows[:_MOST_INDICES]
    ]
    return short if len(rows) <= _MOST_INDICES else [*short, f"... {len(rows)} in all"]


def _system_state(pid: int) -> str:
    """ "S (sleeping) in do_wait", as far as the system says it."""
    state, where = "", ""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/status") as file:
            state = next((line.split(":", 1)[1].strip() for line in file if line.startswith("State:")), "")
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/wchan") as file:
            where = file.read().strip()
    return state + (f" in {where}" if where not in ("", "0") else "")


def _transfers() -> list[dict[str, Any]]:
    """What is read from stores; nothing is imported for it."""
    engine = getattr(sys.modules.get("millrace.stores.engine"), "_engine", None)
    result = []
    for owner in [] if engine is None else list(engine._owners):
        with contextlib.suppress(Exception):
            for transfer in list(owner.transfers):
                stats = {} if transfer.file is None else transfer.file.stats()
                entry = {"url": unsigned(transfer.location.url), "opened": transfer.file is not None}
                entry |= {"blocks_on_their_way": len(transfer.busy), "consumer_waits": bool(transfer.urgent)}
                result.append(
                    entry | {key: stats[key] for key in ("position", "waited_seconds") if key in stats}
                )
            result.append({"requests_in_flight": owner.in_flight, "queued": len(owner.queue)})
    return result


def dumped(loader: Any, file: Any) -> dict[str, Any]:
    """DataLoader.dump_state()."""
    moment = snapshot_of_process([loader])
    if file is None:
        return moment
    from .dump_text import as_text, written

    if hasattr(file, "write"):
        file.write(as_text(moment))
    else:
        written(moment, os.fspath(file))
    return moment
