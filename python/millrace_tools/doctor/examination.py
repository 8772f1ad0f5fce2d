"""examine(): everything that the doctor looks at, in one dict."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from millrace import _core
from millrace.stores.settings import locate

from ..system_files import SystemFiles
from . import batches, copies, disk
from .attainable import Need, resources, tightest
from .findings import findings
from .machine import file_system, machine, software
from .timing import explained, within

_MEMORY_KINDS = ("tmpfs", "ramfs", "devtmpfs")
_PATIENCE = 20.0  # seconds, for a file system that does not answer
Say = Callable[[str], None]


def examine(
    need: Need,
    *,
    path: str | None = None,
    url: str | None = None,
    quick: bool = False,
    tmp: str | None = None,
    root: str = "/",
    store_options: dict[str, Any] | None = None,
    say: Say = lambda what: None,
) -> dict[str, Any]:
    """Time disk, store, CPUs, memory and GPU links, and compare them with `need`: about 12 s, 4 with `quick`.

    Args:
        need: see `need_of`.
        path: a file, or the folder of a dataset: its files are read. None: a file of our own in `tmp`.
        url: an object of a store, at least some MB of it.
        tmp: a folder; None: the folder for temporary files.
        root: where /proc, /sys, /dev/shm are looked for.
        store_options: for the store of `url`: credentials, endpoint, region, ...
        say: called with a text about the next step.

    Returns:
        A dict in JSON types. An item that cannot be timed says why, in "error".
        machine, software: the computer and its programs.
        disk, store, batches, memory_copy, gpus: measurements; rates per second, bytes.
        need, attainable, tightest: the need, a list of resources, the tightest that counts first, and that
            one.
        findings: a list, the first to fix first.
        ok: nothing is broken, and the need is met.

    Raises:
        FileNotFoundError: if a path is not there.
    """
    if path is not None:
        location = locate(path)
        path = os.path.expanduser(location.local or path)
        os.stat(path)
    files, rng = SystemFiles(root), random.Random(0)
    seconds = 0.2 if quick else 0.6
    say("the machine")
    found: dict[str, Any] = {
        "path": path,
        "machine": machine(files),
        "software": software(files),
        "memory_left": _core.memory_budget()[0],
        "millrace_threads": _core.cpu_budget(),
        "disk": None,
        "disk_place": "",
        "disk_is_memory": False,
        "file_system": None,
        "access": "sequential",
    }
    threads, buffers = found["millrace_threads"]["threads"], copies.memory_for_buffers()
    listing = disk.Found([], True, [])
    if path is not None or url is None:
        say("the disk")
        place = path or tmp or tempfile.gettempdir()
        system = file_system(files, place)
        in_memory = system["kind"] in _MEMORY_KINDS
        found |= {"disk_place": place, "file_system": system, "disk_is_memory": in_memory}
        how = (need.sample_bytes, seconds, rng, threads)
        if path is None:
            most = min((64 if quick else 256) << 20, buffers if in_memory else 1 << 40)
            found["disk"] = _measured(partial(disk.time_own_file, place, *how, most), place, seconds)
        else:
            listed = _measured(lambda: {"listing": disk.find_files(path)}, place, seconds)
            listing = listed.pop("listing", listing)
            found["disk"] = listed or {
                "unlisted": listing.errors[:20],
                **_measured(partial(disk.time_files, listing, *how), place, seconds),
            }
        # Shards are read from front to back; windows of tokens and rows of arrays anywhere, and so is what
        # has a file of its own.
        as_files = found["disk"].get("as_files")
        if need.kind != "jpeg224" or path is None or as_files:
            found["access"] = "random"
        if path is not None and as_files and "random_bytes" in found["disk"]:
            need = need.of_size(found["disk"]["random_bytes"])
    if url is not None:
        say("the store")
        found["store"] = copies.time_store(url, 1.0 if quick else 2.0, store_options)
    say("batches")
    try:
        if need.kind == "jpeg224":
            own = batches.own_photos(listing.files, rng)
            need = need.of_size(round(own.mean_bytes)) if own.data else need
            used = own if own.data else batches.made_photos(need.sample_bytes)
            made = {**batches.time_pictures(used, threads, 2 * seconds), "damaged": own.damaged}
        elif need.kind == "tokens":
            made = batches.time_tokens(need.length, threads, 2 * seconds, buffers)
        else:
            made = batches.time_rows(need.sample_bytes, threads, 2 * seconds, buffers)
    except (OSError, RuntimeError, ValueError, MemoryError) as error:
        made = {"error": explained(error)}
    found["batches"] = made
    say("memory")
    try:
        found["memory_copy"] = copies.time_memory(threads, seconds / 2, buffers)
    except (MemoryError, RuntimeError, OSError) as error:
        found["memory_error"] = explained(error)
    found["no_gpu"] = copies.why_no_gpu(found["machine"]["gpus"])
    if not found["no_gpu"]:
        say("GPUs")
        found["gpus"] = copies.time_gpus(seconds / 2, buffers)
    cpu = found["machine"]["cpu"]
    throttled = (machine(files)["cpu"]["throttled_seconds"] or 0) - (cpu["throttled_seconds"] or 0)
    cpu["throttled_now"] = throttled if throttled > 0.05 else None

    rows = resources(need, found)
    slowest = tightest(rows)
    listed_findings = findings(need, found, rows)
    return {
        **found,
        "need": asdict(need),
        "attainable": [asdict(row) for row in rows],
        "tightest": None if slowest is None else asdict(slowest),
        "findings": [asdict(finding) for finding in listed_findings],
        "ok": not any(finding.level == "broken" for finding in listed_findings),
    }


def _measured(work: Callable[[], dict[str, Any]], place: str, seconds: float) -> dict[str, Any]:
    """What it returns, or {"error": why}, also where the file system does not answer."""
    try:
        return within(10 * seconds + _PATIENCE, work, f"the file system of {place}")
    except OSError as error:
        return {"error": explained(error)}
