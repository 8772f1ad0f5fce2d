"""Tar shards: training from them, reading them raw, packed ones, and their index against files; the sides
taking turns within one run.

    python -m benchmarks.tar_shards [train raw packed indexed] [--images DIR] [--rounds 7] [--out FILE.jsonl]

train    tar → RandomResizedCrop(224) → batches, 2 workers: millrace, the webdataset package with torch, DALI
(harness.py does it) raw      samples of several sizes, not decoded, one process on one CPU, then on all:
         millrace, webdataset, and plain preads as floors (tar_raw.py)
packed   the same photos from plain shards and from those of `millrace pack --jpeg lossless`, one thread
(segment_index.py) indexed  millrace over the index of the shards in a global shuffle, and over the same
photos as files

First the sides prove that they give the same. Each repeat is one line of JSON.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks import compare, harness, tar_raw
from benchmarks.harness import ROOT, Plan, SideProcess, choose_cpus
from benchmarks.runs import options, stored
from benchmarks.scenarios.imagenet import list_samples
from benchmarks.scenarios.tars import make_folder, write_shards
from examples.make_photos import make_photos

PARTS = ("train", "raw", "packed", "indexed")
TRAIN = ("webdataset_torch", "millrace_tar", "dali_tar")
INDEXED = ("millrace", "millrace_indexed")
RAW = {
    "raw_1kB": (1_000, 40_000),
    "raw_10kB": (10_000, 10_000),
    "raw_1MB": (1_000_000, 200),
}  # bytes of a picture, samples
PHOTOS = "raw_photos"
SHARD_BYTES = 64 << 20  # of raw, about
LEAST_SECONDS = 0.5  # a timed turn goes through the shards as often as it takes


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def from_files(part: str, root: Path, workers: int, plan: Plan) -> Iterator[dict]:
    """Of train and indexed: the deterministic crops must be equal before the random ones are timed. Raises
    what harness.measure() does.
    """
    names = list(TRAIN if part == "train" else INDEXED)
    sides = [("tar_val", 1, Plan(0, 0, 0, 0, plan.images_per_worker * workers)), ("tar_train", workers, plan)]
    for scenario, threads, this in sides:
        for record in harness.measure(
            scenario, names, threads, str(root), this, lambda text: say(f"{part}  {text}")
        ):
            if record["kind"] == "left out" and record["loader"].startswith("millrace"):
                raise harness.checks.NotTheSame(f"{record['loader']}: {record['reason']}")
            yield {**record, "scenario": f"{part}_{'check' if scenario == 'tar_val' else 'crops'}"}


# ---------------------------------------------------------------- raw


class RawSide(SideProcess):
    """A tar_raw.py process."""

    def __init__(self, name: str, shards: list[str], cpus: list[int]) -> None:
        self._start(name, [sys.executable, "-m", "benchmarks.tar_raw"])
        self._send({"side": name, "shards": shards, "cpus": cpus})
        self.answer()


def read_back(shards: list[str]) -> None:
    """Has the shards in the page cache as they come from a disk: what was just written lies there in smaller
    pieces.
    """
    for shard in shards:
        file = os.open(shard, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    tar_raw.read_through(shards)


def raw(
    scenario: str, shards: list[str], rounds: int, cpus: list[int], least_s: float = LEAST_SECONDS
) -> Iterator[dict]:
    """One record per turn; the shards are read back before each round. Raises AssertionError when the sides
    read other bytes.
    """
    common = {
        "scenario": scenario,
        "workers": 0,
        "cpus": len(cpus),
        **harness.run_facts(("torch", "webdataset", "numpy")),
    }
    with ExitStack() as stack:
        say(f"{scenario}: checking")
        sides = {name: stack.enter_context(RawSide(name, shards, cpus)) for name in tar_raw.SIDES}
        seen = {name: side.ask("check") for name, side in sides.items()}
        first = seen["pread_members"]
        for name, found in seen.items():
            expected = (
                first if name != "pread_shards" else {"samples": first["samples"], "bytes": 0, "digest": None}
            )
            assert found == expected, f"{name} reads {found}, not {expected}"
        common["data"] = {
            "shards": len(shards),
            "samples": first["samples"],
            "bytes": sum(map(os.path.getsize, shards)),
            "mean_bytes": round(first["bytes"] / first["samples"]),
        }
        passes = {
            name: max(1, round(least_s / side.ask("timed", 1)["seconds"])) for name, side in sides.items()
        }
        yield from turns(
            lambda name: sides[name].ask("timed", passes[name]),
            list(sides),
            rounds,
            common,
            lambda: read_back(shards),
        )


def turns(ask, names: list[str], rounds: int, common: dict, prepare=lambda: None) -> Iterator[dict]:
    """The records of quiet_rounds(); `prepare()` begins each, `ask(name)` is one side's turn."""

    def one_round(repeat: int) -> list[dict]:
        prepare()
        records = []
        for name in names[:: -1 if repeat % 2 else 1]:
            say(f"{common['scenario']}  {name}: round {repeat}")
            times = ask(name)
            count = times["samples"]
            records.append(
                {
                    **common,
                    "loader": name,
                    "kind": "epoch",
                    "repeat": repeat,
                    **times,
                    "images": count,
                    "images_per_s": count / times["seconds"],
                    "cpu_s_per_1000": times["cpu_seconds"] * 1000 / count,
                }
            )
        return records

    return harness.quiet_rounds(rounds, one_round)


def raw_shards(folder: Path, size: int, count: int) -> list[str]:
    """Shards of random bytes instead of pictures."""
    rng = random.Random(size)
    return write_shards(folder, (rng.randbytes(size) for _ in range(count)), max(1, SHARD_BYTES // size))


def photo_shards(folder: Path, root: Path) -> list[str]:
    """The photos of `root` in shards as large as those of random bytes."""
    paths = [Path(path) for path, _ in list_samples(str(root))]
    mean = sum(path.stat().st_size for path in paths) // len(paths)
    return write_shards(folder, (path.read_bytes() for path in paths), max(1, SHARD_BYTES // mean))


def raw_scenarios(root: Path, rounds: int, part: int) -> Iterator[dict]:
    """All sizes; `part` divides data and times."""
    made = {
        name: lambda folder, size=size, count=count: raw_shards(folder, size, max(1, count // part))
        for name, (size, count) in RAW.items()
    }
    for name, make in (made | {PHOTOS: lambda folder: photo_shards(folder, root)}).items():
        with tempfile.TemporaryDirectory() as folder:
            shards = make(Path(folder) / "shards")
            for cpus in sorted({1, len(os.sched_getaffinity(0))}):
                yield from raw(
                    name if cpus == 1 else f"{name}_{cpus}cpus",
                    shards,
                    rounds,
                    choose_cpus(cpus),
                    LEAST_SECONDS / part,
                )


# ---------------------------------------------------------------- packed


def packed(root: Path, rounds: int, cpus: list[int], size: int = 224) -> Iterator[dict]:
    """At least `rounds` pairs. Raises AssertionError when the sides give other pixels."""
    from benchmarks import segment_index

    with tempfile.TemporaryDirectory() as folder:
        say("packed: packing and checking")
        sides = segment_index.packed(root, Path(folder), ("plain", "segments"))
        segment_index.check(sides, size)
        shards, content = sides["plain"]
        data = {"files": len(os.listdir(root)), "mean_bytes": round(content / len(os.listdir(root)))}
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus)
        try:
            for record in segment_index.measure(sides, rounds, cpus, size):
                yield {**record, "scenario": "packed", "workers": 1, "data": data}
        finally:
            os.sched_setaffinity(0, allowed)


# ---------------------------------------------------------------- tables


def ratios(run: list[dict], against: str) -> str:
    """Throughput and CPU seconds of `against` beside each other side's, round by round."""
    lines = [
        "| side | samples/s | MB/s | CPU ms per 1,000 | rate of "
        + against
        + " | its CPU time, this one's over it |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    size = run[0]["data"]["mean_bytes"]
    ours = {r["repeat"]: r for r in compare.kept_epochs(run, against)}
    for name in dict.fromkeys(r["loader"] for r in run):
        epochs = compare.kept_epochs(run, name)
        rate = statistics.median(r["images_per_s"] for r in epochs)
        cpu = statistics.median(r["cpu_s_per_1000"] for r in epochs)
        cells = []
        for field, up in ("images_per_s", True), ("cpu_s_per_1000", False):
            pairs = [(ours[r["repeat"]][field], r[field]) for r in epochs if r["repeat"] in ours]
            values = [
                (a / b if up else b / a) for a, b in pairs if a and b
            ]  # a short turn may take no tick of the clock
            cells.append(
                "{:.3f} × ({:.3f} – {:.3f})".format(statistics.median(values), *compare.interval(values))
                if values and name != against
                else ""
            )
        lines.append(
            f"| {name} | **{rate:,.0f}** | {rate * size / 1e6:,.0f} | {cpu * 1000:,.2f} | {cells[0]} |"
            f" {cells[1]} |"
        )
    return "\n".join(lines)


def report(records: list[dict]) -> str:
    """The tables, of the last run of each scenario."""
    parts = []
    for (scenario, _), run in compare.latest_runs(records).items():
        epochs = [r for r in run if r["kind"] == "epoch"]
        parts += [
            f"{r['loader']} was left out of {scenario}: {r['reason']}" for r in run if r["kind"] == "left out"
        ]
        if not epochs:
            continue
        names = {r["loader"] for r in epochs}
        against = next(
            name for name in ("millrace_tar", "millrace_indexed", "segments", "millrace") if name in names
        )
        calm = len({r["repeat"] for r in epochs if r["quiet"]})
        parts.append(
            f"**{scenario}**, {calm} quiet rounds of {epochs[-1]['repeat'] + 1}, {run[0]['cpus']} CPUs of"
            f" {run[0]['machine']['cpu']}, {run[0]['data']['mean_bytes'] / 1000:,.1f} kB in the"
            f" mean\n\n{ratios(epochs, against)}"
        )
    return "\n\n".join(parts)


def measure(part: str, images: str, cache: Path, arguments: argparse.Namespace) -> Iterator[dict]:
    """The records of one part. `arguments`: those of main()."""
    root = make_folder(images, cache, arguments.images_per_worker * arguments.workers)
    if part in ("train", "indexed"):
        plan = Plan(
            arguments.rounds,
            arguments.first_batches,
            arguments.memory_epochs,
            images_per_worker=arguments.images_per_worker,
        )
        yield from from_files(part, root, arguments.workers, plan)
    elif part == "packed":
        yield from packed(root, arguments.pairs, choose_cpus(1))
    else:
        yield from raw_scenarios(root, arguments.rounds, arguments.raw_part)


def main(words: list[str] | None = None) -> None:
    parser = options(__doc__, "tar_shards", 7)
    parser.add_argument(
        "part", nargs="*", default=list(PARTS), metavar="part", help="default: " + " ".join(PARTS)
    )
    parser.add_argument(
        "--images", help="class folder of JPEGs (default: the demo's photos, made if need be)"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--images-per-worker", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=15, help="of packed")
    parser.add_argument("--first-batches", type=int, default=0)
    parser.add_argument("--memory-epochs", type=int, default=0)
    parser.add_argument(
        "--raw-part", type=int, default=1, help="raw data and times are divided by this, for a trial"
    )
    parser.add_argument(
        "--cache", type=Path, default=ROOT / "demo_data", help="where shards are made and kept"
    )
    arguments = parser.parse_args(words)
    if unknown := set(arguments.part) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    images = arguments.images or str(make_photos(ROOT / "demo_data" / "photos", 3000))
    for part in arguments.part:
        records = stored(measure(part, images, arguments.cache, arguments), arguments.out)
        print(report(records) + "\n", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
