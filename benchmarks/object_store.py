"""Shards from a store with a distance: open_shards() against the same store's bulk rate, and the disk cache
against local files.

    python -m benchmarks.object_store [--part all|cache] [--rounds 5] [--shards 12] [--shard-mib 64] [--out
    FILE.jsonl]

The store is a server on loopback (tests/python/fault_proxy.py) in a process of its own, which answers after
50 ms, gives each connection 40 MB/s and all together 150 MB/s, and fails one request in a hundred (reset,
truncated or 503, drawn by the request's number). Both sides know nothing of that.

- `bulk_N`: N threads that read 8 MB ranges of all shards with the PyPI package obstore, which retries by
  itself. The best N is kept.
- `open_shards`: millrace.stores.open_shards with its own choices, read in pieces of 1 MiB.
- `local_files`, `cached_same` (the process that filled the cache), `cached_new` (another process of the same
  run), `cached_asked` (the store is asked at every opening whether the shard is the same, fresh_seconds=0),
  each as bytes in pieces of 1 MiB and, with "_samples", as samples of _core.ShardReader, eight epochs in a
  row, timed from the first bytes on: where the store is asked, the first round trip is in `first_s`.

`--part cache` leaves out the first two. Every side first proves that it gives the shards' bytes. Rounds
alternate. Each repeat is one line of JSON.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import random
import statistics
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import probes
from benchmarks.compare import factors, kept_epochs, told
from benchmarks.harness import ROOT, choose_cpus, quiet_rounds, run_facts
from benchmarks.runs import options, rounds_told, stored

if TYPE_CHECKING:
    from millrace.stores import DiskCache

sys.path.append(str(ROOT / "tests" / "python"))

LATENCY, RATE, CONNECTION_RATE, ERRORS = 0.050, 150e6, 40e6, 0.01
PIECE = 1 << 20
BULK = 8_000_000
MEMORY = 256 << 20


def make_shard(number: int, mib: int) -> bytes:
    """A tar of about `mib` MiB: samples of 110 kB of random bytes and a label."""
    draws, out = random.Random(number), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for sample in range(mib * (1 << 20) // 112_000):
            for name, data in (("jpg", draws.randbytes(110_000)), ("cls", b"7")):
                info = tarfile.TarInfo(f"{number:03}/{sample:05}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def serve(folder: str, pipe) -> None:
    """The store's process: objects are the folder's files."""
    from fault_proxy import FaultProxy

    objects = {f"/{path.name}": path.read_bytes() for path in Path(folder).glob("*.tar")}
    with FaultProxy(objects, LATENCY, RATE, CONNECTION_RATE) as store:
        store.faults = lambda request: (
            random.Random(request.number).choice(["reset", "truncate", 503])
            if request.method == "GET" and random.Random(request.number ^ 99).random() < ERRORS
            else None
        )
        pipe.send(store.url(""))
        pipe.recv()


def read(source, take: Callable[[bytes], object]) -> int:
    for at in range(0, source.size, PIECE):
        take(source.read_at(at, min(PIECE, source.size - at)))
    return source.size


def nothing(_: bytes) -> None:
    return None


def read_shards(urls: list[str], take: Callable[[bytes], object] = nothing, **settings) -> dict:
    """All bytes of all shards in order: what was received, and seconds to the first piece."""
    from millrace import stores

    begun, first, size = time.perf_counter(), None, 0
    with stores.open_shards(urls, memory=MEMORY, **settings) as shards:
        for _, source in shards:
            source.read_at(0, 65536)
            first = first or time.perf_counter() - begun
            size += read(source, take)
        return {"bytes": size, "first_s": first, "stats": shards.stats()}


def read_samples(urls: list[str], **settings) -> dict:
    from millrace import stores
    from millrace._core import ShardReader

    begun, first, size, samples = time.perf_counter(), None, 0, 0
    with stores.open_shards(urls, memory=MEMORY, **settings) as shards:
        for _, source in shards:
            source.read_at(0, 65536)
            first = first or time.perf_counter() - begun
            for sample in ShardReader(source):
                size += len(sample["jpg"])
                samples += 1
    return {"bytes": size, "first_s": first, "samples": samples}


def read_bulk(
    base: str, sizes: dict[str, int], threads: int, take: Callable[[int, bytes], object] | None = None
) -> dict:
    """8 MB ranges of all shards by `threads` threads."""
    import obstore

    store = obstore.store.HTTPStore.from_url(base, client_options={"allow_http": True})
    ranges = [(name, at, min(at + BULK, size)) for name, size in sizes.items() for at in range(0, size, BULK)]

    def one(number: int) -> int:
        name, start, end = ranges[number]
        while True:
            try:
                data = obstore.get_range(store, name, start=start, end=end)
                break
            except obstore.exceptions.GenericError:  # a body that broke: obstore retries answers only
                continue
        if take:
            take(number, bytes(data))
        return len(data)

    with ThreadPoolExecutor(threads) as pool:
        return {"bytes": sum(pool.map(one, range(len(ranges))))}


def verify(
    sizes: dict[str, int],
    expected: int,
    base: str,
    urls: list[str],
    local: list[str],
    cache: DiskCache,
    part: str,
) -> None:
    """Every side gives the bytes of the shards, in order. AssertionError names the one that does not."""

    def checksum_of(run: Callable[[Callable[[bytes], None]], object]) -> int:
        crc = 0

        def take(data: bytes) -> None:
            nonlocal crc
            crc = zlib.crc32(data, crc)

        run(take)
        return crc

    if part == "all":
        parts: dict[int, bytes] = {}
        read_bulk(base, sizes, 16, parts.__setitem__)
        assert zlib.crc32(b"".join(parts[i] for i in range(len(parts)))) == expected, "bulk"
        assert checksum_of(lambda take: read_shards(urls, take)) == expected, "open_shards"
    for name, run in (
        ("cache, filling", lambda take: read_shards(urls, take, cache=cache)),
        ("cache, filled", lambda take: read_shards(urls, take, cache=cache)),
        ("local files", lambda take: read_shards(local, take)),
    ):
        assert checksum_of(run) == expected, name


def in_new_process(function: str, urls: list[str], settings: dict) -> dict:
    """The same in a fresh process, timed inside it."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(timed, (function, urls, settings))


def timed(function: str, urls: list[str], settings: dict) -> dict:
    from millrace import _core, stores  # noqa: F401  imports are not timed

    begun, cpu = time.perf_counter(), time.process_time()
    result = globals()[function](urls, **settings)
    return {**result, "seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - cpu}


def measure(rounds: int, shards: int, mib: int, cpus: list[int], part: str) -> Iterator[dict]:
    from millrace.stores import DiskCache

    with tempfile.TemporaryDirectory() as folder:
        names = [f"shard-{i:03}.tar" for i in range(shards)]
        data = Path(folder, "data")
        data.mkdir()
        expected = 0
        for number, name in enumerate(names):
            shard = make_shard(number, mib)
            (data / name).write_bytes(shard)
            expected = zlib.crc32(shard, expected)
        sizes = {name: (data / name).stat().st_size for name in names}
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=serve, args=(str(data), theirs), daemon=True
        )
        server.start()
        base = ours.recv()
        try:
            yield from measured(
                base, sizes, expected, str(data), DiskCache(Path(folder, "cache")), rounds, cpus, part
            )
        finally:
            ours.send(None)
            server.join(10)


def measured(
    base: str,
    sizes: dict[str, int],
    expected: int,
    data: str,
    cache: DiskCache,
    rounds: int,
    cpus: list[int],
    part: str,
) -> Iterator[dict]:
    from millrace.stores import DiskCache

    urls, local = [base + name for name in sizes], [os.path.join(data, name) for name in sizes]
    common = {
        "scenario": "object_store",
        "cpus": len(cpus),
        **run_facts(("torch", "obstore")),
        "data": {"shards": len(sizes), "bytes": sum(sizes.values())},
        "store": {
            "latency_s": LATENCY,
            "bytes_per_s": RATE,
            "connection_bytes_per_s": CONNECTION_RATE,
            "errors": ERRORS,
        },
        "memory": MEMORY,
    }
    say = lambda what: print(f"object_store  {what}", file=sys.stderr, flush=True)  # noqa: E731
    say("checking")
    verify(sizes, expected, base, urls, local, cache, part)
    sides: dict[str, tuple[str, Callable[[], dict]]] = {}
    if part == "all":
        say("choosing the bulk readers' threads")
        found = {}
        for threads in (4, 8, 16, 32):
            begun = time.perf_counter()
            found[threads] = read_bulk(base, sizes, threads)["bytes"] / (time.perf_counter() - begun)
        best = max(found, key=found.get)
        yield {**common, "loader": "bulk", "kind": "check", "bytes_per_s_by_threads": found}
        sides |= {
            f"bulk_{best}": ("store", lambda: read_bulk(base, sizes, best)),
            "open_shards": ("store", lambda: read_shards(urls)),
        }
    asking = DiskCache(cache.folder, fresh_seconds=0)
    for group, function, ending in (("bytes", read_shards, ""), ("samples", read_samples, "_samples")):
        sides |= {
            f"local_files{ending}": (group, partial(function, local * 8)),
            f"cached_same{ending}": (group, partial(function, urls * 8, cache=cache)),
            f"cached_new{ending}": (
                group,
                partial(in_new_process, function.__name__, urls * 8, {"cache": cache}),
            ),
            f"cached_asked{ending}": (group, partial(function, urls * 8, cache=asking)),
        }

    def one_round(repeat: int) -> list[dict]:
        say(f"round {repeat}")
        records = []
        for name in list(sides)[:: -1 if repeat % 2 else 1]:
            group, run = sides[name]
            timer, begun, cpu = probes.Epoch(cpus), time.perf_counter(), time.process_time()
            result = run()
            own = {
                "seconds": time.perf_counter() - begun,
                "cpu_seconds": time.process_time() - cpu,
            }  # without the store's
            times = {**timer.stop(), **own, **result}
            records.append(
                {
                    **common,
                    "loader": name,
                    "group": group,
                    "kind": "epoch",
                    "repeat": repeat,
                    **times,
                    "bytes_per_s": (
                        times["bytes"] / (times["seconds"] - (0 if group == "store" else times["first_s"]))
                    ),
                }
            )
        return records

    # The server's CPU time, and that of a process of its own, look like somebody else's.
    yield from quiet_rounds(rounds, one_round, lambda r: "new" not in r["loader"] and r["group"] != "store")


def table(records: list[dict]) -> str:
    def bytes_per_cpu_s(record: dict) -> float:
        return record["bytes"] / record["cpu_seconds"]

    names = dict.fromkeys(r["loader"] for r in records if r["kind"] == "epoch")
    bulk = next((name for name in names if name.startswith("bulk_")), "")
    lines = [
        "| side | MB/s | min – max | CPU s per GB | share of | by CPU seconds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in names:
        epochs = kept_epochs(records, name)
        rates = [r["bytes_per_s"] / 1e6 for r in epochs]
        base = {"store": bulk, "bytes": "local_files", "samples": "local_files_samples"}[epochs[0]["group"]]
        share, by_cpu = (
            (
                told([100 * ratio for ratio in factors(records, base, name, value)], ".1f", "%")
                if name != base
                else ""
            )
            for value in (itemgetter("bytes_per_s"), bytes_per_cpu_s)
        )
        share = f"{base}: {share}" if share else ""
        cpu = 1e9 / statistics.median(map(bytes_per_cpu_s, epochs))
        lines.append(
            f"| {name} | **{statistics.median(rates):,.0f}** | {min(rates):,.0f} – {max(rates):,.0f} |"
            f" {cpu:.3f} | {share} | {by_cpu} |"
        )
    if not bulk:
        return "\n".join(lines)
    store = kept_epochs(records, "open_shards")
    lines.append(
        f"\nFirst bytes after {statistics.median(r['first_s'] for r in store) / LATENCY:.2f} round trips; at"
        f" most {max(r['stats']['ahead_bytes_peak'] for r in store) / 1e6:.0f} MB of {MEMORY / 1e6:.0f} MB in"
        f" memory or on their way; {statistics.median(r['stats']['requests'] for r in store):.0f} requests,"
        f" {statistics.median(r['stats']['retries'] for r in store):.0f} retries,"
        f" {statistics.median(r['stats']['hedges'] for r in store):.0f} second requests."
    )
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, "object_store", 5)
    parser.add_argument(
        "--part",
        choices=["all", "cache"],
        default="all",
        help="cache: only the disk cache against local files",
    )
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--shard-mib", type=int, default=64)
    arguments = parser.parse_args()
    cpus = choose_cpus(min(2, len(os.sched_getaffinity(0))))
    records = stored(
        measure(arguments.rounds, arguments.shards, arguments.shard_mib, cpus, arguments.part), arguments.out
    )
    print(f"**object_store**, {len(cpus)} CPUs, {rounds_told(records)}\n\n{table(records)}\n")


if __name__ == "__main__":
    main()
