"""tune.json: what was chosen for a pipeline on a machine, for the next run to begin with.

{"version": 1, "runs": {fingerprint: {"threads", "slots", "batch_bytes", "rate", "when", "what"}}}. `what`
says in words what the fingerprint is of. A file is replaced as a whole, under a lock beside it, so processes
that write at once lose nothing; one that is not ours is never written to. Whatever is wrong with it costs a
warning and a search, never a run.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Subset

from ... import _core
from ..._common.regular_files import open_regular, write_whole
from .windows import Setting

VERSION = 1
VARIABLE = "MILLRACE_TUNE_FILE"


def tune_path(argument: Any) -> Path | None:
    """Where the loader's choice is kept; None: nowhere."""
    given = argument if argument is not None else os.environ.get(VARIABLE) or None
    return None if given is None else Path(os.fspath(given)).expanduser()


def description(loader: Any, engine: str, native: bool) -> dict[str, Any]:
    """What a choice depends on, as JSON: the dataset's kind, its transform, the batch, the engine, the
    machine.
    """
    dataset, kinds = loader.dataset, []
    while type(dataset) is Subset:
        kinds.append("Subset")
        dataset = dataset.dataset
    kinds.append(f"{type(dataset).__module__}.{type(dataset).__qualname__}")
    batch_sampler = getattr(loader, "batch_sampler", None)
    device = loader._millrace_device
    budget = _core.cpu_budget()
    return {
        "dataset": " of ".join(kinds),
        "transform": _shown(getattr(dataset, "transform", None)),
        "collate_fn": getattr(loader.collate_fn, "__qualname__", type(loader.collate_fn).__qualname__),
        "batch_size": loader.batch_size or getattr(batch_sampler, "batch_size", None),
        "engine": engine,
        "native": native,
        "num_workers": loader.num_workers,
        "pin_memory": bool(loader.pin_memory),
        "device": None if device is None else device.type,
        "machine": {
            "cpu": platform.machine(),
            "node": platform.node(),
            "cpus": round(float(budget["cpus"]), 2),
            "accelerator": torch.accelerator.is_available(),
        },
    }


def _shown(transform: Any) -> str:
    """A transform's repr, which torchvision's say all in; one that has none of its own is named by its
    class.
    """
    shown = repr(transform)
    return type(transform).__qualname__ if " object at 0x" in shown or " at 0x" in shown else shown


def fingerprint(what: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def read_choice(path: Path, what: dict[str, Any]) -> Setting | None:
    """What was good the last time; None: nothing is known."""
    try:
        run = _runs(path).get(fingerprint(what))
    except (OSError, ValueError) as error:
        warnings.warn(f"{path} is not used: {error}", stacklevel=3)
        return None
    if run is None:
        return None
    try:
        threads, slots = int(run["threads"]), int(run["slots"])
        if threads < 1 or slots < 1:
            raise ValueError(f"threads={threads}, slots={slots}")
        return Setting(threads, slots)
    except (KeyError, TypeError, ValueError) as error:
        warnings.warn(
            f"{path}: the entry {fingerprint(what)} is no tuned setting ({error!r}), so it is searched anew",
            stacklevel=2,
        )
        return None


def write_choice(
    path: Path, what: dict[str, Any], setting: Setting, batch_bytes: int | None, rate: float
) -> bool:
    """Puts a choice in. False: the file cannot be written, which has been said."""
    entry = {
        "threads": setting.threads,
        "slots": setting.slots,
        "batch_bytes": batch_bytes,
        "rate": round(rate, 3),
        "when": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "what": what,
    }
    try:
        with _locked(path):
            runs = _runs(path)
            content = {"version": VERSION, "runs": {**runs, fingerprint(what): entry}}
            write_whole(path, json.dumps(content, indent=1) + "\n")
    except (OSError, ValueError) as error:
        warnings.warn(f"the tuned setting is not kept for the next run: {error}", stacklevel=2)
        return False
    return True


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with open_regular(lock, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _runs(path: Path) -> dict[str, Any]:
    """{fingerprint: entry}. ValueError for a file that is not ours."""
    try:
        with open_regular(path) as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    content = json.loads(text) if text.strip() else {"version": VERSION, "runs": {}}
    runs = content.get("runs") if isinstance(content, dict) and content.get("version") == VERSION else None
    if not isinstance(runs, dict):
        raise ValueError(
            f"{path} is not a file of tuned settings of version {VERSION}; name another file, or remove it"
        )
    return {key: run for key, run in runs.items() if isinstance(run, dict)}
