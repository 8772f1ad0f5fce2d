"""Describes a dataset, and finds samples that fail: reads them one by one, without a loader."""

from __future__ import annotations

import itertools
import random
import statistics
import time
import traceback
from collections.abc import Iterator
from typing import Any

import torch
from millrace._history.hashes import BatchHash
from millrace._loader.plan import make_plan

from .configurations import Configuration, make_loader
from .targets import Source

SURVEY_S = 10.0
_LEAST_PROBED, _MOST_PROBED, _MOST_LISTED = 3, 64, 5


class EmptyDataset(ValueError):
    """It has no samples."""


def probe(source: Source, seconds: float) -> dict[str, Any]:
    """Facts known before measuring: plain values. EmptyDataset if there is nothing to measure; errors of
    making a loader.

    Reads some samples, so that their cost is known: `sample_seconds`, None when none was read. A sample that
    raises is no error here but reported, as "failed", so that the caller asks survey().
    """
    length = source.length
    if length == 0:
        raise EmptyDataset(f"the {type(source.dataset).__name__} is empty")
    loader = make_loader(Configuration("millrace", "native", 1), source, {"native": False})
    facts: dict[str, Any] = {
        "type": type(source.dataset).__name__,
        "iterable": source.is_iterable,
        "length": length,
        "native": make_plan(loader).spec is not None,
        "explain": loader.explain(),
        "batch_size": loader.batch_size,
        "is_loader": source.is_loader,
        "workers": source.workers,
        "prefetch": source.prefetch,
        "pin": bool(source.given.get("pin_memory")),
        "on_error": loader.on_error,
        "native_argument": loader.native,
        "accelerator": bool(torch.accelerator.is_available()),
        "persistent": loader.persistent_workers,
        "failed": False,
    }
    times: list[float] = []
    start = last = time.perf_counter()
    for _, failure in _samples(source):
        now = time.perf_counter()
        times += [now - last] if failure is None else []
        facts["failed"] |= failure is not None
        last = now
        # The first one may open files, read an index, import: it alone says nothing.
        if len(times) >= _MOST_PROBED or (now - start >= seconds and len(times) >= _LEAST_PROBED):
            break
    facts["sample_seconds"] = statistics.median(times) if times else None
    return facts


def divides(source: Source) -> bool:
    """Whether two workers read different samples of a stream. False: both began with the same batch, and not
    all its batches are alike.
    """
    loader = make_loader(Configuration("torch", "process", 2), source, {"native": False})
    hashes = [BatchHash.of(batch).text for batch in itertools.islice(loader, 3)]
    return len(hashes) < 2 or hashes[0] != hashes[1] or hashes[0] in hashes[2:]


def survey(source: Source, seconds: float) -> dict[str, Any]:
    """Read samples for `seconds`, spread over the dataset: {"read", "failed", "errors": [{"index", "error",
    "where"}], "all": bool}.
    """
    read, whole, failures = 0, True, []
    start = time.perf_counter()
    for index, failure in _samples(source):
        read += 1
        if failure is not None:
            failures.append((index, failure))
        if time.perf_counter() - start >= seconds:
            whole = read == source.length
            break
    listed = sorted(failures[:_MOST_LISTED], key=lambda failure: failure[0])
    errors = [{"index": index, **described(failure)} for index, failure in listed]
    return {"read": read, "failed": len(failures), "errors": errors, "all": whole}


def survey_text(found: dict[str, Any], is_stream: bool) -> str:
    """The text for a survey() that met errors."""
    read, failed = found["read"], found["failed"]
    which = "all" if found["all"] else "read so far, spread over the dataset"
    first = f"{failed:,} of {read:,} samples ({which}) raise, {100 * failed / read:.3g} %:"
    if is_stream:
        good = f"{read - failed:,} good ones"
        first = f"the stream raises at sample {found['errors'][0]['index']:,}, behind {good}:"
    lines = [
        f"  index {error['index']}: {error['error']}" + (f" ({error['where']})" if error["where"] else "")
        for error in found["errors"]
    ]
    more = [f"  and {failed - len(lines):,} more"] if failed > len(lines) else []
    return "\n".join([first, *lines, *more])


def _samples(source: Source) -> Iterator[tuple[int, Any]]:
    """(index, None or the error of reading it), in an order of its own; for a stream, in its order, up to its
    first error.
    """
    if source.is_iterable:
        read = itertools.count()
        try:
            for _ in source.dataset:
                yield next(read), None
        except Exception as error:
            yield next(read), error
        return
    length = source.length
    spread = random.Random(0)
    if length is None:  # only the sampler knows the indices
        order: Any = source.given.get("sampler", ())
    elif length <= 1 << 24:
        order = spread.sample(range(length), length)
    else:
        order = (spread.randrange(length) for _ in itertools.count())
    for index in order:
        failure = None
        try:
            source.dataset[index]
        except Exception as error:
            failure = error
        yield index, failure


def described(error: BaseException) -> dict[str, str]:
    """{"error": kind and text, "where": the line of the innermost code that is neither torch's nor ours}; for
    our own errors, only the text.
    """
    own = ("millrace", "millrace_tools")
    places = [
        (frame.f_globals.get("__name__", "").partition(".")[0], frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    if places and places[-1][0] in own:
        return {"error": str(error), "where": ""}
    theirs = [
        f"{file}:{line}"
        for package, file, line in places
        if package not in (*own, "torch", "multiprocessing", "importlib", "runpy")
    ]
    return {"error": f"{type(error).__name__}: {error}", "where": theirs[-1] if theirs else ""}
