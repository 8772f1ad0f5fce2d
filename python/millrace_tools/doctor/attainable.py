"""What each resource allows: samples a second of one rank, for data of a stated kind."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..texts import count_text, refuse, size_text
from .batches import USUAL_BYTES

KINDS = ("jpeg224", "tokens", "rows")
_ROW_BYTES, _LENGTH = 4096, 1024


@dataclass(frozen=True)
class Need:
    """What a model's data are. sample_bytes: of one as it is stored; batch_bytes: of one in a batch; rate:
    samples a second that one rank's model takes, None when nobody said; length: tokens of a row.
    """

    kind: str
    sample_bytes: int
    batch_bytes: int
    rate: float | None = None
    length: int = _LENGTH
    stated: bool = False  # sample_bytes is the user's

    def of_size(self, sample_bytes: int) -> Need:
        """With the size that was found, unless the user has said one."""
        if self.stated:
            return self
        in_batch = sample_bytes if self.kind == "rows" else self.batch_bytes
        return replace(self, sample_bytes=sample_bytes, batch_bytes=in_batch)


def need_of(
    kind: str = "jpeg224",
    sample_bytes: int | None = None,
    rate: float | None = None,
    step_ms: float | None = None,
    batch_size: int | None = None,
    length: int | None = None,
) -> Need:
    """Return the need that `examine()` compares a machine with: one rank's samples, and how many of them a
    second.

    Args:
        kind: "jpeg224" (224 x 224 float32 of photos), "tokens" or "rows".
        sample_bytes: of a stored sample; None: the usual size, or the files' own.
        rate: samples a second that the model needs.
        step_ms, batch_size: from these two the rate follows, if `rate` is not given.
        length: tokens of a sample, for kind "tokens".

    Raises:
        ValueError: if the kind is unknown, if a number is not positive and finite, or if there is a step time
            without its batch size.
    """
    given = {
        "sample_bytes": sample_bytes,
        "model_needs": rate,
        "step_ms": step_ms,
        "batch_size": batch_size,
        "length": length,
    }
    said = {name: value for name, value in given.items() if value is not None}
    refuse(
        {
            f"kind={kind!r} is unknown; use one of {', '.join(KINDS)}": kind not in KINDS,
            f"length= is of kind tokens, not of {kind}": length is not None and kind != "tokens",
            **{
                f"{name}={value:g} should be more than 0, and finite": not 0 < value < math.inf
                for name, value in said.items()
            },
            "step_ms= and batch_size= belong together: they say how many samples a second the model takes": (
                (step_ms is None) != (batch_size is None)
            ),
            "model_needs= is what step_ms= and batch_size= say, too; give one of them": (
                step_ms is not None and rate is not None
            ),
        }
    )
    if step_ms is not None and batch_size is not None:
        rate = batch_size / step_ms * 1000
    tokens = length or _LENGTH
    stored = {"jpeg224": USUAL_BYTES, "tokens": 2 * tokens, "rows": _ROW_BYTES}[kind]
    if sample_bytes is not None:
        stored = max(1, int(sample_bytes))
    in_batch = {"jpeg224": 3 * 224 * 224 * 4, "tokens": 16 * tokens, "rows": stored}[kind]
    return Need(kind, stored, in_batch, rate, tokens, sample_bytes is not None)


@dataclass(frozen=True)
class Resource:
    """One line of the result. rate: samples a second, None when it was not measured; how: where the number
    comes from, or why there is none; counts: whether every sample has to pass here.
    """

    name: str
    rate: float | None
    how: str
    counts: bool = True


def resources(need: Need, found: dict[str, Any]) -> list[Resource]:
    """The tightest that counts first, then the others, then what was not measured. `found`: what examine()
    measured.
    """
    ranks = found["machine"]["cpu"]["ranks"]
    share = f", shared by {ranks} ranks" if ranks > 1 else ""
    disk, store, made, copied = (
        found.get(name) or {} for name in ("disk", "store", "batches", "memory_copy")
    )
    gpus = {f"link to GPU {gpu['index']}": gpu for gpu in found.get("gpus") or []}
    failed = {f"disk ({found['disk_place']})": disk, "store": store, "CPU": made, **gpus}
    rows = [
        Resource(name, None, timed["error"], counts=False)
        for name, timed in failed.items()
        if timed.get("error")
    ]
    if "random" in disk:
        rows += _disk(need, found, disk, ranks, share)
    if "many" in store:
        rate = store["many"] / need.sample_bytes / ranks
        rows.append(Resource("store", rate, f"{size_text(store['many'])}/s{share}"))
    if "all" in made:
        what = "decoding, cropping, resizing" if need.kind == "jpeg224" else "gathering rows"
        by_all = f"{count_text(made['all'])} by {made['threads']}"
        how = f"{what}: {count_text(made['one'])} by one thread, {by_all}"
        rows.append(Resource("CPU", max(made["one"], made["all"]), how))
    if copied:
        how = f"{size_text(copied['all'])}/s copied; {size_text(need.batch_bytes)} a sample in a batch"
        rows.append(Resource("memory", copied["all"] / need.batch_bytes, how))
    for name, gpu in gpus.items():
        if "pinned" in gpu:
            how = f"{size_text(gpu['pinned'])}/s from page-locked memory"
            rows.append(Resource(name, gpu["pinned"] / need.batch_bytes, how))
    return sorted(rows, key=lambda row: (row.rate is None, not row.counts, row.rate or 0))


def _disk(need: Need, found: dict[str, Any], disk: dict[str, Any], ranks: int, share: str) -> list[Resource]:
    """The disk, and the page cache, which counts in its place where all files fit into memory."""
    fits = bool(
        found.get("path") and disk.get("complete") and 0 < disk.get("bytes", 0) < 0.5 * found["memory_left"]
    )
    remote = found.get("store") and not found.get("path")
    # Shards are read from front to back, rows and windows anywhere; what lies in many small files is read
    # file by file.
    if disk["as_files"] or found["access"] == "random":
        size = disk["random_bytes"]
        stored = min(need.sample_bytes, size) if disk["as_files"] else size
        rate = disk["random"] * min(1.0, stored / need.sample_bytes)
        how = f"{count_text(disk['random'])} random reads of {size_text(size)} a second by 16 threads"
    else:
        rate = disk["sequential"] / need.sample_bytes
        how = f"{size_text(disk['sequential'])}/s from front to back"
    first = "; the first epoch only, then it is in memory" if fits else ""
    counts = not remote and not fits and not found["disk_is_memory"]
    cached = f"{size_text(disk['cached'])}/s by {found['millrace_threads']['threads']} threads"
    return [
        Resource(f"disk ({found['disk_place']})", rate / ranks, how + share + first, counts),
        Resource("page cache", disk["cached"] / need.sample_bytes, cached, counts=fits),
    ]


def tightest(rows: list[Resource]) -> Resource | None:
    return next((row for row in rows if row.counts and row.rate is not None), None)
