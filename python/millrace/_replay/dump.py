"""What a loader and all its workers are doing at this moment, as a dict of JSON's types and as text; the
text's first lines answer "why does nothing come". Also warnings of samples that take too long.

Any thread may ask, also while the training loop hangs in next(): nothing here waits for the consumer, so
values that are read while the consumer runs may be a moment old.

BatchHistory(stuck_after=seconds) warns: one daemon thread in a process looks at all loaders that asked for
it, four times in the shortest of their times; it ends when none of them is left.
Warnings go to the logger "millrace", once for each sample.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from types import CodeType
from typing import Any

from .. import _core
from .._common.regular_files import write_whole
from .._history.recorder import LOADERS

_logger = logging.getLogger("millrace")
_LEAST_S, _MOST_S = 0.05, 10.0
_lock = threading.Lock()
_thread: threading.Thread | None = None


def watch() -> None:
    """Some loader wants to be looked at: its history has `stuck_after`."""
    global _thread
    with _lock:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_run, name="millrace-watch", daemon=True)
            _thread.start()


def _after_fork() -> None:
    global _lock, _thread
    _lock, _thread = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)


def _run() -> None:
    warned: set[Any] = set()
    while (pause := _look(warned)) is not None:
        time.sleep(pause)


def _look(warned: set[Any]) -> float | None:
    """How long to wait before the next look; None: nobody is to be looked at any more."""
    global _thread
    found = []
    for loader in known_loaders():
        if not getattr(loader.history, "stuck_after", None):
            continue
        found.append(loader.history.stuck_after)
        for worker in snapshot_of(loader, stacks=False).get("workers", ()):
            _judge(loader, worker, loader.history.stuck_after, warned)
    with _lock:
        if not found:
            _thread = None
            return None
    return min(_MOST_S, max(_LEAST_S, min(found) / 4))


def _judge(loader: Any, worker: dict[str, Any], most: float, warned: set[Any]) -> None:
    taken = worker.get("sample_seconds", worker.get("seconds", 0.0))
    what = worker.get("index", worker.get("task"))
    key = id(loader), worker["name"], what, round(time.monotonic() - taken, 1)
    if worker.get("doing", "idle") == "idle" or taken <= most or key in warned:
        return
    warned.add(key)
    samples = f"samples {worker.get('indices', '')}".rstrip()
    which = f"index {worker['index']}" if "index" in worker else samples
    which += f" ({worker['path']})" if worker.get("path") else ""
    _logger.warning(
        "%s of %s works on %s for %.1f s (%s); loader.dump_state() says what everybody does", worker["name"],
        type(loader.dataset).__name__, which, taken, worker["doing"],
    )  # fmt: skip


_MOST_INDICES = 64  # of one index list


def known_loaders() -> list[Any]:
    """Those that dump_on_signal() speaks of, in the order in which they were first used."""
    with contextlib.suppress(RuntimeError):  # one went meanwhile
        return list(LOADERS.values())
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
        "step": progress.yielded,
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
        result |= {} if iterator._engine is None else _told(iterator._engine.snapshot(stacks))
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
    return result


def _told(found: dict[str, Any]) -> dict[str, Any]:
    """An engine's snapshot in JSON's types, with what the system says of its processes."""
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
    rows = rows.tolist() if hasattr(rows, "tolist") else rows
    if not isinstance(rows, (list, tuple)):
        return _plain(rows)
    more = [f"... {len(rows)} in all"] if len(rows) > _MOST_INDICES else []
    return [*map(_plain, rows[:_MOST_INDICES]), *more]


def _plain(index: Any) -> Any:
    return index if isinstance(index, (int, str, type(None))) else repr(index)


def _system_state(pid: int) -> str:
    """ "S (sleeping) in do_wait", as far as the system says it."""
    state, where = "", ""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        state = next((line.split(":", 1)[1].strip() for line in file if line.startswith("State:")), "")
    with contextlib.suppress(OSError), open(f"/proc/{pid}/wchan") as file:
        where = file.read().strip()
    return state + (f" in {where}" if where not in ("", "0") else "")


def _transfers() -> list[dict[str, Any]]:
    """The running reads from stores; nothing is imported to find them."""
    engine = getattr(sys.modules.get("millrace.stores.engine"), "_engine", None)
    result = []
    for owner in [] if engine is None else list(engine._owners):
        with contextlib.suppress(Exception):
            from .._common.signed_urls import unsigned  # an engine with transfers has imported it

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

    if hasattr(file, "write"):
        file.write(as_text(moment))
    else:
        written(moment, os.fspath(file))
    return moment


_FACTS = {
    "task": " task {}",
    "index": " index {}",
    "path": " ({})",
    "indices": " of samples {}",
    "samples": " of {} samples",
}


def as_text(moment: dict[str, Any]) -> str:
    """Lines of plain text."""
    lines = [f"millrace: state of process {moment['pid']}"]
    for number, loader in enumerate(moment["loaders"]):
        lines += _loader(number, loader)
    for transfer in moment["transfers"]:
        lines.append("  transfer " + ", ".join(f"{key} {value}" for key, value in transfer.items()))
    for thread in moment["python_threads"]:
        lines += [f"Python thread {thread['name']} (most recent call first)", *thread["stack"]]
    return "\n".join(lines) + "\n"


def written(moment: dict[str, Any], path: str) -> None:
    """As JSON where the name ends in .json, else as text; appears whole or not at all."""
    text = json.dumps(moment, indent=1, default=repr) + "\n" if path.endswith(".json") else as_text(moment)
    write_whole(path, text)


def _loader(number: int, loader: dict[str, Any]) -> list[str]:
    head = f"loader {number}: {loader['dataset']}, engine {loader['engine']}, {loader['num_workers']} workers"
    head += f", iterator {loader['iterator']}"
    if "step" in loader:
        head += f", epoch {loader['epoch']}, {loader['step']} batches handed out"
    if "seconds_since_last_batch" in loader:
        head += f", the last one {loader['seconds_since_last_batch']:.1f} s ago"
    lines = [head]
    if "error" in loader:
        lines.append(f"  not all could be found out: {loader['error']}")
    if "indices" in loader:
        lines.append(f"  in the training process: samples {loader['indices']}")
    if "queue" in loader:
        lines.append("  queue: " + ", ".join(f"{key} {value}" for key, value in loader["queue"].items()))
    if loader.get("on_their_way_to_the_device"):
        lines.append(
            f"  {loader['on_their_way_to_the_device']} batches on their way to the device, or there and not"
            " handed out"
        )
    for worker in loader.get("workers", ()):
        lines += _worker(worker)
    return lines


def _worker(worker: dict[str, Any]) -> list[str]:
    if worker.get("alive") is False:
        code = f", exit code {worker['exitcode']}" if "exitcode" in worker else ""
        return [f"  {worker['name']}: dead{code}"]
    line = f"  {worker['name']}: {worker['doing']}"
    for key, form in _FACTS.items():
        if worker.get(key) not in (None, ""):
            line += form.format(worker[key])
    if worker.get("doing") != "idle":
        line += f", for {worker.get('sample_seconds', worker.get('seconds', 0.0)):.1f} s"
    if worker.get("waiting_tasks"):
        line += f", {worker['waiting_tasks']} more waiting"
    if worker.get("system"):
        line += f" [{worker['system']}]"
    lines = [line]
    if "stack" in worker:
        nothing = ["no Python stack: it did not answer, or is still starting"]
        lines += [f"    {call}" for call in worker["stack"] or nothing]
    return lines
