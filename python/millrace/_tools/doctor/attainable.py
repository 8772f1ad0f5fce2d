"""What each resource allows: samples a second of one rank, for data of a stated kind."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .photos import USUAL_BYTES

KINDS = ("jpeg224", "tokens", "rows")
_ROW_BYTES, _LENGTH = 4096, 1024


@dataclass(frozen=True)
class Need:
    """What a model's data are. sample_bytes: of one as it is stored; batch_bytes: of one in a batch; rate:
    samples a second that one rank's
    model takes, None when nobody said; length: tokens of a row.
    """

    kind: str
    sample_bytes: int
    batch_bytes: int
    rate: float | None = None
    length: int = _LENGTH
    stated: bool = False  # sample_bytes is the user's


def need_of(
    kind: str = "jpeg224",
    sample_bytes: int | None = None,
    rate: float | None = None,
    step_ms: float | None = None,
    batch_size: int | None = None,
    length: int | None = None,
) -> Need:
    """ValueError for an unknown kind, for numbers that are not positive and finite, and for a step time
    without its batch size.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is unknown; use one of {', '.join(KINDS)}")
    if length is not None and kind != "tokens":
        raise ValueError(f"length= is of kind tokens, not of {kind}")
    given = {
        "sample_bytes": sample_bytes,
        "model_needs": rate,
        "step_ms": step_ms,
        "batch_size": batch_size,
        "length": length,
    }
    for name, value in given.items():
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name}={value:g} should be more than 0, and finite")
    if (step_ms is None) != (batch_size is None):
        raise ValueError(
            "step_ms= and batch_size= belong together: they say how many samples a second the model takes"
        )
    if step_ms is not None and batch_size is not None:
        if rate is not None:
            raise ValueError("model_needs= is what step_ms= and batch_size= say, too; give one of them")
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
    comes from, or why there is
    none; counts: whether every sample has to pass here.
    """

    name: str
    rate: float | None
    how: str
    counts: bool = True


def resources(need: Need, found: dict[str, Any]) -> list[Resource]:
    """The tightest that counts first, then the others, then what was not measured. `found`: what examine()
    measured.
    """
    ranks, rows = found["machine"]["cpu"]["ranks"], []
    share = f", shared by {ranks} ranks" if ranks > 1 else ""
    disk, store, cache = found.get("disk") or {}, found.get("store") or {}, found.get("memory_copy") or {}
    remote = bool(store) and not found.get("path")
    fits = (
        found.get("path") and disk.get("complete") and 0 < disk.get("bytes", 0) < 0.5 * found["memory_left"]
    )
    if "random" in disk:
        as_stored = min(need.sample_bytes, disk["random_bytes"]) if disk["as_files"] else disk["random_bytes"]
        by_reads = disk["random"] * min(1.0, as_stored / need.sample_bytes)
        sequential = disk["sequential"] / need.sample_bytes
        # Shards are read from front to back, rows and windows anywhere; what lies in many small files is read
        # file by file.
        random_reads = disk["as_files"] or found["access"] == "random"
        how = (
            f"{count_text(disk['random'])} random reads of {size_text(disk['random_bytes'])} a second by 16"
            " threads"
            if random_reads
            else f"{size_text(disk['sequential'])}/s from front to back"
        )
        first = "; the first epoch only, then it is in memory" if fits else ""
        rows.append(
            Resource(
                f"disk ({found['disk_place']})",
                (by_reads if random_reads else sequential) / ranks,
                how + share + first,
                counts=not remote and not fits and not found["disk_is_memory"],
            )
        )
        rows.append(
            Resource(
                "page cache",
                disk["cached"] / need.sample_bytes,
                f"{size_text(disk['cached'])}/s by {found['millrace_threads']['threads']} threads",
                counts=bool(fits),
            )
        )
    elif disk.get("error"):
        rows.append(Resource(f"disk ({found['disk_place']})", None, disk["error"], counts=False))
    if store.get("error"):
        rows.append(Resource("store", None, store["error"], counts=False))
    elif store:
        rows.append(
            Resource(
                "store", store["many"] / need.sample_bytes / ranks, f"{size_text(store['many'])}/s{share}"
            )
        )
    made = found.get("batches") or {}
    if "all" in made:
        what = {
            "jpeg224": "decoding, cropping, resizing",
            "tokens": "gathering rows",
            "rows": "gathering rows",
        }[need.kind]
        rows.append(
            Resource(
                "CPU",
                max(made["one"], made["all"]),
                f"{what}: {count_text(made['one'])} by one thread, "
                f"{count_text(made['all'])} by {made['threads']}",
            )
        )
    elif made.get("error"):
        rows.append(Resource("CPU", None, made["error"], counts=False))
    if cache:
        rows.append(
            Resource(
                "memory",
                cache["all"] / need.batch_bytes,
                f"{size_text(cache['all'])}/s copied; {size_text(need.batch_bytes)} a sample in a batch",
            )
        )
    for gpu in found.get("gpus") or []:
        name = f"link to GPU {gpu['index']}"
        if "pinned" in gpu:
            rows.append(
                Resource(
                    name,
                    gpu["pinned"] / need.batch_bytes,
                    f"{size_text(gpu['pinned'])}/s from page-locked memory",
                )
            )
        else:
            rows.append(Resource(name, None, gpu.get("error", "not measured"), counts=False))
    return sorted(rows, key=lambda row: (row.rate is None, not row.counts, row.rate or 0))


def tightest(rows: list[Resource]) -> Resource | None:
    return next((row for row in rows if row.counts and row.rate is not None), None)


def to_dict(rows: list[Resource]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


def size_text(size: float) -> str:
    """1.23 GB: three digits, powers of ten."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            return f"{size:.3g} {unit}"
        size /= 1000
    return ""


def count_text(rate: float) -> str:
    """1,234; 12.3; 0.123."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.3g}"
