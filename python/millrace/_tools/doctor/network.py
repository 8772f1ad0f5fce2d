"""How fast objects of a store come: one request at a time, and as many as millrace.stores finds useful."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from ...stores import open_shards, open_source
from ...stores.locations import shown
from .timing import explained, within

_PATIENCE: dict[str, Any] = {"stall_timeout": 3.0, "connect_timeout": 3.0, "retries": 2}
_MOST_BYTES, _PIECE, _LOOKS = 1 << 30, 1 << 20, 8


def time_store(url: str, seconds: float, store_options: dict[str, Any] | None = None) -> dict[str, Any]:
    """latency_seconds: median of eight small reads at places of their own; one, many: bytes a second;
    requests: how many the latter came to have under way; size of the object; or error. About 2.5 times
    `seconds`, ten more where the store does not answer.
    """
    result: dict[str, Any] = {"url": shown(url)}
    limit = 2 * seconds + 10
    try:
        for work in (_latency, partial(_stream, requests=1), _stream):
            result |= within(limit, partial(work, url, seconds, store_options), "the store")
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
