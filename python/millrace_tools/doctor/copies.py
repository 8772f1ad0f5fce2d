"""How fast memory is copied, batches to GPUs, and objects of a store: one request at a time, and as many as
millrace.stores finds useful.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from millrace import _core
from millrace._common import devices
from millrace.stores import open_shards, open_source
from millrace.stores.settings import shown

from .timing import explained, until, within

_PATIENCE: dict[str, Any] = {"stall_timeout": 3.0, "connect_timeout": 3.0, "retries": 2}
_MOST_BYTES, _PIECE, _LOOKS = 1 << 30, 1 << 20, 8


def time_store(url: str, seconds: float, store_options: dict[str, Any] | None = None) -> dict[str, Any]:
    """latency_seconds: median of eight small reads at places of their own; one, many: bytes a second;
    requests: how many the latter came to have under way; size of the object; or error. About 2.5 times
    `seconds`, ten more where the store does not answer.
    """
    result: dict[str, Any] = {"url": shown(url)}
    try:
        for work in (_latency, partial(_stream, requests=1), _stream):
            result |= within(2 * seconds + 10, partial(work, url, seconds, store_options), "the store")
    except Exception as error:
        result["error"] = explained(error)
    return result


def _latency(url: str, seconds: float, options: dict[str, Any] | None) -> dict[str, Any]:
    source = open_source(url, store_options=options, max_requests=1, **_PATIENCE)
    rng, times, end = random.Random(0), [], time.perf_counter() + seconds
    if source.size == 0:
        raise OSError("the object is empty; name one that is as large as your data are")
    for _ in range(_LOOKS):
        begin = time.perf_counter()
        source.read_at(rng.randrange(source.size), 1)
        times.append(time.perf_counter() - begin)
        if time.perf_counter() > end:
            break
    asked = [spent for spent in times if spent > 1e-4]  # the others were here already: the object is small
    return {"latency_seconds": statistics.median(asked or times), "size": source.size}


def _stream(
    url: str, seconds: float, options: dict[str, Any] | None, requests: int | None = None
) -> dict[str, Any]:
    chosen = _PATIENCE if requests is None else {**_PATIENCE, "max_requests": requests}
    begin, received, spent = time.perf_counter(), 0, 0.0
    with open_shards(itertools.repeat(url), store_options=options, memory=64 << 20, **chosen) as shards:
        for source, offset in _pieces(shards):
            received += len(source.read_at(offset, min(_PIECE, source.size - offset)))
            spent = time.perf_counter() - begin
            if spent > seconds or received > _MOST_BYTES:
                break
        limit = shards.stats().get("concurrency", 1)
    return {"one": received / spent} if requests == 1 else {"many": received / spent, "requests": limit}


def _pieces(shards: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, int]]:
    for _, source in shards:
        for offset in range(0, source.size, _PIECE):
            yield source, offset


_BYTES = 64 << 20
_SECONDS_OF_GPUS = 3.0


def time_memory(threads: int, seconds: float, most_bytes: int = _BYTES) -> dict[str, float]:
    """one, all: bytes copied a second, by one thread and by so many; each byte is read once and written
    once.
    """
    size = max(1 << 20, most_bytes // threads)
    free = [(np.ones(size, np.uint8), np.ones(size, np.uint8)) for _ in range(threads)]

    def copy() -> int:
        pair = free.pop()
        np.copyto(*pair)
        free.append(pair)
        return size

    results = {}
    for name, count in (("one", 1), ("all", threads)):
        _, copied, spent = until(seconds, copy, count)
        results[name] = copied / spent
    return results


def why_no_gpu(present: list[dict[str, Any]]) -> str:
    """Why batches cannot be copied to one from here; "" when they can. `present`: what PCI shows
    (machine.gpus).
    """
    if torch.cuda.is_available():
        return ""
    if torch.version.cuda is None and torch.version.hip is None:
        although = ", although the machine has a GPU" if present else ""
        return f"this torch ({torch.__version__}) was built without CUDA{although}"
    try:
        torch.cuda.init()
    except Exception as error:
        return f"torch cannot use CUDA: {explained(error)}"
    return "torch finds no GPU"


def time_gpus(seconds: float, most_bytes: int = _BYTES) -> list[dict[str, Any]]:
    """A dict for each: name, memory, node (NUMA), and bytes a second from page-locked and from ordinary
    memory; or error.
    """
    end = time.monotonic() + max(_SECONDS_OF_GPUS, 2 * seconds)
    found: list[dict[str, Any]] = []
    for index in range(torch.cuda.device_count()):
        if found and time.monotonic() > end:
            break
        found.append(_one_gpu(index, seconds, most_bytes))
    return found


def _one_gpu(index: int, seconds: float, most_bytes: int) -> dict[str, Any]:
    gpu: dict[str, Any] = {"index": index}
    try:
        facts: Any = torch.cuda.get_device_properties(index)
        where: list[Any] = [getattr(facts, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
        gpu |= {
            "name": facts.name,
            "memory": facts.total_memory,
            "node": devices.numa_node(index),
            # not every build of torch tells it
            "address": "" if None in where else "{:04x}:{:02x}:{:02x}.0".format(*where),
        }
        free = torch.cuda.mem_get_info(index)[0]
        size = min(most_bytes, free // 4)
        if size < 1 << 20:
            return {**gpu, "error": f"GPU {index} has {free >> 20} MiB left: other programs hold its memory"}
        target = torch.empty(size, dtype=torch.uint8, device=f"cuda:{index}")
        for name, pinned in (("pinned", True), ("pageable", False)):
            begin = time.perf_counter()
            source = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
            if pinned:
                gpu["pin_bytes_per_second"] = size / (time.perf_counter() - begin)

            def copy(source: torch.Tensor = source) -> int:
                target.copy_(source, non_blocking=True)
                torch.cuda.synchronize(index)
                return size

            copy()
            _, copied, spent = until(seconds, copy)
            gpu[name] = copied / spent
        del target, source
        torch.cuda.empty_cache()
    except Exception as error:  # a device in exclusive mode, out of memory, a driver that is too old
        gpu["error"] = f"GPU {index}: {explained(error)}"
    return gpu


def memory_for_buffers() -> int:
    """Bytes that a measurement may take: an eighth of the free memory, 64 MiB at most."""
    return max(1 << 20, min(_BYTES, _core.memory_budget()[0] // 8))
