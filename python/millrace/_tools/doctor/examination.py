"""examine(): everything that the doctor looks at, in one dict."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from millrace import _core

from ...stores.locations import locate
from . import batches, copies, disk, network, photos
from .attainable import Need, resources, tightest
from .findings import findings
from .machine import file_system, machine
from .software import software
from .system_files import SystemFiles
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
    """Times disk, store, CPUs, memory and GPU links, and compares them with `need`: about 12 s, 4 with
    `quick`.

    Args:
        path: a file, or the folder of a dataset, whose files are read; else a file of our own in `tmp`, or
            the folder for temporary files.
        url: an object of a store, at least some MB of it. root: where /proc, /sys, /dev/shm are looked for.
        say: called with what comes next.

    Returns JSON types: machine, software, disk, store, batches, memory_copy, gpus (measurements; rates per
    second, bytes), need, attainable (a list, the tightest that counts first), tightest, findings (a list, the
    first to fix first), and ok: nothing is broken, and the need is met. FileNotFoundError for a path that is
    not there. What cannot be timed says why, in "error".
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
    }
    before = found["machine"]["cpu"]["throttled_seconds"]
    found["millrace_threads"] = _core.cpu_budget()
    threads = found["millrace_threads"]["threads"]

    if path is not None or url is None:
        say("the disk")
        need = _time_disk(found, need, path, tmp, seconds, rng, files, quick, threads)
    else:
        found |= {
            "disk": None,
            "disk_place": "",
            "disk_is_memory": False,
            "file_system": None,
            "access": "sequential",
        }
    if url is not None:
        say("the store")
        found["store"] = network.time_store(url, 1.0 if quick else 2.0, store_options)
    say("batches")
    need = _time_batches(found, need, threads, 2 * seconds, rng)
    say("memory")
    try:
        found["memory_copy"] = copies.time_memory(threads, seconds / 2, copies.memory_for_buffers())
    except (MemoryError, RuntimeError, OSError) as error:
        found["memory_error"] = explained(error)
    found["no_gpu"] = copies.why_no_gpu(found["machine"]["gpus"])
    if not found["no_gpu"]:
        say("GPUs")
        found["gpus"] = copies.time_gpus(seconds / 2, copies.memory_for_buffers())
    throttled = (machine(files)["cpu"]["throttled_seconds"] or 0) - (before or 0)
    found["machine"]["cpu"]["throttled_now"] = throttled if throttled > 0.05 else None

    rows = resources(need, found)
    slowest = tightest(rows)
    listed = findings(need, found, rows)
    found.pop("listing", None)
    return {
        **found,
        "need": asdict(need),
        "attainable": [asdict(row) for row in rows],
        "tightest": None if slowest is None else asdict(slowest),
        "findings": [asdict(finding) for finding in listed],
        "ok": not any(finding.level == "broken" for finding in listed),
    }


def _time_disk(
    found: dict[str, Any],
    need: Need,
    path: str | None,
    tmp: str | None,
    seconds: float,
    rng: random.Random,
    files: SystemFiles,
    quick: bool,
    threads: int,
) -> Need:
    """Fills in disk, disk_place, disk_is_memory, file_system, access, listing; the need, with the files' size
    when nobody said one.
    """
    if path is None:
        place = tmp or tempfile.gettempdir()
        most = (64 << 20) if quick else (256 << 20)
        if file_system(files, place)["kind"] in _MEMORY_KINDS:
            most = min(most, copies.memory_for_buffers())
        work = partial(disk.time_own_file, place, need.sample_bytes, seconds, rng, threads, most)
    else:
        place = path
        work = partial(_listed_and_timed, place, need, seconds, rng, threads)
    try:
        measured = within(10 * seconds + _PATIENCE, work, f"the file system of {place}")
    except OSError as error:
        measured = {"error": explained(error)}
    if path is not None:
        found["listing"] = measured.pop("listing", None)
        if measured.get("as_files") and not need.stated and "random_bytes" in measured:
            size = measured["random_bytes"]
            need = replace(
                need, sample_bytes=size, batch_bytes=size if need.kind == "rows" else need.batch_bytes
            )
    system = file_system(files, place)
    found |= {
        "disk": measured,
        "disk_place": place,
        "file_system": system,
        "disk_is_memory": system["kind"] in _MEMORY_KINDS,
        # Shards are read from front to back; windows of tokens and rows of arrays anywhere, and so is what
        # has a file of its own.
        "access": "sequential"
        if need.kind == "jpeg224" and path is not None and not measured.get("as_files")
        else "random",
    }
    return need


def _listed_and_timed(
    path: str, need: Need, seconds: float, rng: random.Random, threads: int
) -> dict[str, Any]:
    listing = disk.find_files(path)
    result: dict[str, Any] = {"listing": listing, "unlisted": listing.errors[:20]}
    try:
        return {**result, **disk.time_files(listing, need.sample_bytes, seconds, rng, threads)}
    except OSError as error:
        return {**result, "error": explained(error)}


def _time_batches(
    found: dict[str, Any], need: Need, threads: int, seconds: float, rng: random.Random
) -> Need:
    """Fills in batches; the need, with the size of the photos that were found when nobody
    said one.
    """
    try:
        if need.kind == "jpeg224":
            listing = found.get("listing")
            own = photos.own_photos(listing.files, rng) if listing else photos.Photos([], True)
            used = own if own.data else photos.made_photos(need.sample_bytes)
            if own.data and not need.stated:
                need = replace(need, sample_bytes=round(own.mean_bytes))
            found["batches"] = {**batches.time_pictures(used, threads, seconds), "damaged": own.damaged}
        elif need.kind == "tokens":
            found["batches"] = batches.time_tokens(need.length, threads, seconds, copies.memory_for_buffers())
        else:
            found["batches"] = batches.time_rows(
                need.sample_bytes, threads, seconds, copies.memory_for_buffers()
            )
    except (OSError, RuntimeError, ValueError, MemoryError) as error:
        found["batches"] = {"error": explained(error)}
    return need
