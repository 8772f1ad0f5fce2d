"""Readers that share a cache are killed (-9) at random moments: no corrupt read, no hang, no lost space.

MILLRACE_KILLS sets how many; 60 without it. Alone: MILLRACE_KILLS=500 python -m pytest
tests/python/test_disk_cache_kills.py
"""

from __future__ import annotations

import os
import random
import select
import signal
import time
import zlib
from pathlib import Path

import pytest
from fault_proxy import FaultProxy
from millrace import stores
from millrace.stores import DiskCache

pytestmark = pytest.mark.slow

pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")

KILLS = int(os.environ.get("MILLRACE_KILLS", "60"))
MIB = 1 << 20
BOUND = 12 * MIB  # of 20 MiB: entries come and go all the time
READERS = 4


def reader(urls: dict[str, int], folder: Path, seed: int, report: int) -> None:
    """Reads shards in random order for ever; writes "." per right one, "X" and ends at a wrong one."""
    draws = random.Random(seed)
    cache = DiskCache(folder, BOUND)
    order = list(urls) * 1000
    draws.shuffle(order)
    with stores.open_shards(
        order, cache=cache, request_bytes=MIB, memory=8 * MIB, retries=20, stall_timeout=2
    ) as shards:
        for url, source in shards:
            crc = 0
            for at in range(0, source.size, 200_000):
                crc = zlib.crc32(source.read_at(at, min(200_000, source.size - at)), crc)
            os.write(report, b"." if crc == urls[url] else b"X")
            if crc != urls[url]:
                return


def start(urls: dict[str, int], folder: Path, seed: int) -> tuple[int, int]:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            reader(urls, folder, seed, theirs)
        except BaseException as error:  # noqa: B036
            os.write(theirs, f"E {error!r}"[:500].encode())
        os._exit(1)
    os.close(theirs)
    return child, ours


@pytest.mark.slow
@pytest.mark.alone
def test_kills(tmp_path: Path) -> None:
    draws = random.Random(11)
    shards = {f"/s{i}.tar": draws.randbytes(2 * MIB + draws.randrange(2 * MIB)) for i in range(7)}
    faults = random.Random(12)
    with FaultProxy(shards, latency=0.002, bytes_per_second=150 * MIB) as store:
        store.faults = lambda request: (
            faults.choice(["reset", "truncate", 503]) if faults.random() < 0.02 else None
        )
        urls = {store.url(name[1:]): zlib.crc32(data) for name, data in shards.items()}
        running = [start(urls, tmp_path, seed) for seed in range(READERS)]
        reports, begun = [], time.monotonic()
        progress = time.monotonic()
        right = killed = 0
        while killed < KILLS:
            time.sleep(draws.random() * 0.12)
            ready, _, _ = select.select([pipe for _, pipe in running], [], [], 0)
            for pipe in ready:
                said = os.read(pipe, 65536)
                reports.append(said)
                right += said.count(b".")
                progress = time.monotonic()
            assert not [r for r in reports if r.strip(b".")], reports
            assert time.monotonic() - progress < 15, "nobody has read a shard for 15 s"
            child, pipe = running.pop(draws.randrange(len(running)))
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, (
                "a reader ended by itself"
            )
            os.close(pipe)
            killed += 1
            running.append(start(urls, tmp_path, READERS + killed))
        for child, pipe in running:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(pipe)
        assert right > KILLS / 4, f"{right} shards were read in {time.monotonic() - begun:.1f} s"

        # Whatever is there now is right, within the bound, and can all be had back.
        cache = DiskCache(tmp_path, BOUND)
        with stores.open_shards(list(urls), cache=cache) as again:
            for url, source in again:
                assert zlib.crc32(source.read_at(0, source.size)) == urls[url]
        del source
        assert cache.stats()["repaired"] == 0, "a block that counted was not whole"
        deadline = time.monotonic() + 60
        while any(cache.room.in_use(p.stem) for p in tmp_path.glob("*.map")) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert cache.stats()["bytes"] <= BOUND + 200_000
        tiny = DiskCache(tmp_path, MIB)
        tiny.admit("http://none/", 100_000, "1").close()
        left = {p.name for p in tmp_path.iterdir()}
        assert len(left) == 3 and tiny.stats()["bytes"] < MIB, left
        print(
            f"{killed} kills, {right} shards read by those who lived long enough,"
            f" {time.monotonic() - begun:.0f} s"
        )
