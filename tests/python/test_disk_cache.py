"""DiskCache: never a wrong byte, never more than its bound, never in the way; the kills are in
test_disk_cache_kills.py.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_proxy import FaultProxy
from millrace import stores
from millrace.stores import DiskCache
from millrace.stores.disk_cache import _stem
from open_files import open_files
from waiting import wait_until

pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")

RANDOM = random.Random(3)
MIB = 1 << 20
SHARDS: dict[str, bytes] = {}


@pytest.fixture(scope="module", autouse=True)
def shards() -> Iterator[None]:
    """Here while these tests run: until then each process that a test forks would get them, too."""
    SHARDS.update({f"/s{i}.tar": RANDOM.randbytes(3 * MIB + 1000 * i) for i in range(3)})
    yield
    SHARDS.clear()


@pytest.fixture
def store() -> Iterator[FaultProxy]:
    with FaultProxy(SHARDS) as store:
        yield store


def read(source: object) -> bytes:
    return b"".join(source.read_at(at, min(MIB, source.size - at)) for at in range(0, source.size, MIB))


def epoch(store: FaultProxy, cache: DiskCache, names: object = SHARDS, **settings: object) -> None:
    with stores.open_shards(
        [store.url(n[1:]) for n in names], cache=cache, request_bytes=MIB, **settings
    ) as shards:
        for name, (_, source) in zip(names, shards):
            assert read(source) == store.objects[name]


def closed(cache: DiskCache) -> bool:
    """Waits until the entries that were read are not in use any more."""
    deadline = time.monotonic() + 60
    stems = [p.stem for p in cache.folder.glob("*.map")]
    while any(cache.room.in_use(stem) for stem in stems) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(cache.room.in_use(stem) for stem in stems)


def gets(store: FaultProxy) -> int:
    return sum(r.method == "GET" for r in store.requests)


def test_the_second_epoch_asks_for_nothing(store: FaultProxy, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    epoch(store, cache)
    assert store.bytes_sent == sum(map(len, SHARDS.values())) and cache.stats()["hit_rate"] == 0
    before = len(store.requests)
    again = DiskCache(tmp_path / "cache")
    epoch(store, again)
    assert {r.method for r in store.requests[before:]} == {"HEAD"}, "only: is it still the same version?"
    assert again.stats()["hit_rate"] == 1 and again.stats()["entries"] == 3
    source = stores.open_source(store.url("s1.tar"), cache=str(tmp_path / "cache"))
    assert source.read_at(2 * MIB, 1000) == SHARDS["/s1.tar"][2 * MIB : 2 * MIB + 1000]
    assert gets(store) == before


def test_what_was_verified_is_known_to_other_processes(store: FaultProxy, tmp_path: Path) -> None:
    epoch(store, DiskCache(tmp_path))
    assert closed(DiskCache(tmp_path))

    def reads(verified: int, repaired: int) -> None:
        cache = DiskCache(tmp_path)
        epoch(store, cache)
        assert closed(cache)
        assert (cache.stats()["verified"], cache.stats()["repaired"]) == (verified, repaired)

    assert status(in_child(lambda: reads(0, 0))) == 0
    data = max(tmp_path.glob("*.data"), key=lambda path: path.stat().st_size)
    times = data.stat()
    with open(data, "r+b") as file:
        file.seek(2 * MIB)
        file.write(b"\0wrong\0")
    os.utime(data, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert status(in_child(lambda: reads(4, 1))) == 0, "a time that was put back hides nothing"
    assert status(in_child(lambda: reads(0, 0))) == 0


def test_a_changed_object_is_never_stale_when_the_store_is_always_asked(
    store: FaultProxy, tmp_path: Path
) -> None:
    cache = DiskCache(tmp_path, fresh_seconds=0)
    epoch(store, cache)
    assert closed(cache)
    store.objects["/s0.tar"], store.etags["/s0.tar"] = SHARDS["/s1.tar"][: len(SHARDS["/s0.tar"])], '"new"'
    epoch(store, cache)
    assert cache.stats()["entries"] == 3, "the old version went"


def test_damaged_blocks_are_fetched_again(store: FaultProxy, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    epoch(store, cache, ["/s0.tar"])
    [data] = tmp_path.glob("*.data")
    with open(data, "r+b") as file:
        file.seek(MIB + 5)
        file.write(b"\0wrong\0")
    sent = store.bytes_sent
    os.utime(data, (1, 1))  # the file's time tells: this process does not rely on having written it
    again = DiskCache(tmp_path)
    epoch(store, again, ["/s0.tar"])
    assert again.stats()["repaired"] == 1 and store.bytes_sent - sent == MIB
    epoch(store, DiskCache(tmp_path), ["/s0.tar"])
    assert store.bytes_sent - sent == MIB, "repaired for everyone"


@pytest.mark.parametrize("harm", ["header", "short map", "no data", "short data"])
def test_a_damaged_entry_is_made_anew(store: FaultProxy, tmp_path: Path, harm: str) -> None:
    cache = DiskCache(tmp_path)
    epoch(store, cache, ["/s0.tar"])
    assert closed(cache)
    [data], [table] = tmp_path.glob("*.data"), tmp_path.glob("*.map")
    if harm == "header":
        table.write_bytes(b"?" * table.stat().st_size)
    elif harm == "no data":
        data.unlink()
    else:
        os.truncate(table if harm == "short map" else data, 4100)
    epoch(store, cache, ["/s0.tar"])
    assert store.bytes_sent == 2 * len(SHARDS["/s0.tar"])
    epoch(store, cache, ["/s0.tar"])
    assert store.bytes_sent == 2 * len(SHARDS["/s0.tar"])


def test_what_came_before_an_end_stays(store: FaultProxy, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    with stores.open_shards([store.url("s0.tar")], cache=cache, request_bytes=MIB) as shards:
        _, source = next(shards)
        source.read_at(0, MIB)
        store.faults = lambda request: "stall"
    del source
    before, store.faults = len(store.requests), lambda request: None
    epoch(store, cache, ["/s0.tar"])
    assert all(r.start >= MIB for r in store.requests[before:] if r.method == "GET")


def test_least_recently_used_goes_first(store: FaultProxy, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=7 * MIB)
    for name in ("/s0.tar", "/s1.tar", "/s0.tar", "/s2.tar", "/s0.tar"):
        epoch(store, cache, [name])
        assert closed(cache)
        assert cache.stats()["bytes"] <= 7 * MIB + 100_000
        time.sleep(0.02)  # the order is that of file times
    assert cache.stats()["evicted"] == 1 and store.bytes_sent == sum(map(len, SHARDS.values())), (
        "s1 went, s0 came once"
    )


def test_an_entry_in_use_stays(store: FaultProxy, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=4 * MIB)
    held = stores.open_source(store.url("s0.tar"), cache=cache)
    assert read(held) == SHARDS["/s0.tar"]
    epoch(store, cache, ["/s1.tar"])
    assert cache.stats()["bypassed"] == 1 and cache.stats()["entries"] == 1
    sent = store.bytes_sent
    assert read(held) == SHARDS["/s0.tar"] and store.bytes_sent == sent
    del held
    assert closed(cache)
    epoch(store, cache, ["/s1.tar"])
    assert cache.stats()["evicted"] == 1


def test_each_process_trims_to_its_own_bound(store: FaultProxy, tmp_path: Path) -> None:
    large, small = DiskCache(tmp_path, 100 * MIB), DiskCache(tmp_path, 4 * MIB)
    epoch(store, large)
    assert closed(large) and large.stats()["entries"] == 3
    epoch(store, small, ["/s0.tar"])
    assert small.stats()["evicted"] == 0 and small.stats()["hit_rate"] == 1, "what is there is read"
    store.objects["/new.tar"], store.etags["/new.tar"] = SHARDS["/s0.tar"], '"n"'
    epoch(store, small, ["/new.tar"])
    assert closed(small)
    assert small.stats()["entries"] == 1 and small.stats()["evicted"] == 3
    epoch(store, large)
    assert large.stats()["entries"] == 4


def test_leftovers_are_found(store: FaultProxy, tmp_path: Path) -> None:
    (tmp_path / "dead-1.data").write_bytes(bytes(MIB))
    (tmp_path / "dead-2.map.tmp").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("not ours")
    epoch(store, DiskCache(tmp_path), ["/s0.tar"])
    assert not list(tmp_path.glob("dead-*")) and (tmp_path / "notes.txt").exists()


def test_an_unusable_folder_costs_one_warning(store: FaultProxy, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "cache")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        epoch(store, cache)
        epoch(store, cache)
    assert len([w for w in caught if "disk cache" in str(w.message)]) == 1
    assert cache.stats()["hits"] == cache.stats()["entries"] == 0 and cache.stats()["hit_rate"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
@pytest.mark.parametrize("options", ["size=4m", "size=4m,ro"])
def test_a_full_or_read_only_disk_costs_one_warning(store: FaultProxy, tmp_path: Path, options: str) -> None:
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", tmp_path], capture_output=True
        ).returncode
        != 0
    ):
        pytest.skip("this machine does not let us mount")
    try:
        cache = DiskCache(tmp_path, max_bytes=100 * MIB)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            epoch(store, cache)
            epoch(store, cache)
        assert len([w for w in caught if "disk cache" in str(w.message)]) == 1
        if "ro" not in options:
            # The disk has room for one and a bit: what is there is right, and the default bound would not
            # have filled it.
            assert cache.stats()["entries"] >= 1
            (tmp_path / f"{_stem(store.url('s0.tar'))}.map").unlink(
                missing_ok=True
            )  # else nothing need be fetched, and nothing trimmed
            roomy = DiskCache(tmp_path)
            epoch(store, roomy, ["/s0.tar"])
            assert roomy.stats()["bytes"] <= 3.7 * MIB
        assert wait_until(lambda: not open_files(str(tmp_path)))
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def in_child(body: object) -> int:
    """The pid of a forked child that does this and ends."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            body()
            code = 0
        finally:
            os._exit(code)
    return child


def status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.alone  # how much is on its way at once depends on when the processes run
def test_processes_share_one_download(tmp_path: Path) -> None:
    data = {"/s.tar": RANDOM.randbytes(12 * MIB)}
    with FaultProxy(data, bytes_per_second=40 * MIB) as store:

        def body() -> None:
            epoch(store, DiskCache(tmp_path), ["/s.tar"])

        children = [in_child(body) for _ in range(4)]
        assert [status(child) for child in children] == [0] * 4
        # Nothing twice, but what was on its way when a process found that another one has it: part of each
        # first range.
        assert store.bytes_sent <= 12 * MIB + 3 * 1.5 * MIB


@pytest.mark.alone
def test_a_killed_downloader_holds_nobody_up(tmp_path: Path) -> None:
    data = {"/s.tar": RANDOM.randbytes(4 * MIB)}
    with FaultProxy(data) as store:
        store.faults = lambda request: "stall" if request.method == "GET" and request.start >= MIB else None
        first = in_child(lambda: epoch(store, DiskCache(tmp_path), ["/s.tar"]))
        while len(store.requests) < 4:
            time.sleep(0.01)
        store.faults = lambda request: None
        second = in_child(lambda: epoch(store, DiskCache(tmp_path), ["/s.tar"]))
        time.sleep(0.3)
        assert os.waitpid(second, os.WNOHANG)[0] == 0, "waits for what the first one fetches"
        os.kill(first, signal.SIGKILL)
        start = time.monotonic()
        assert status(second) == 0 and time.monotonic() - start < 3
        os.waitpid(first, 0)


def test_a_forked_child_keeps_no_entry(store: FaultProxy, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    held = stores.open_source(store.url("s0.tar"), cache=cache)
    child = in_child(lambda: time.sleep(20))
    assert not closed_now(cache)
    del held
    assert closed(cache), "although the child lives"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def closed_now(cache: DiskCache) -> bool:
    return not any(cache.room.in_use(p.stem) for p in cache.folder.glob("*.map"))


def test_plain_values() -> None:
    cache = pickle.loads(pickle.dumps(DiskCache("/x/y", 5)))
    assert (str(cache.folder), cache.max_bytes) == ("/x/y", 5)
    assert (
        DiskCache("/x", -1).max_bytes is None
        and DiskCache.of("/x").folder == Path("/x")
        and DiskCache.of(None) is None
    )
    with pytest.raises(ValueError, match="max_bytes=0"):
        DiskCache("/x", 0)
    with pytest.raises(ValueError, match="fresh_seconds=-1"):
        DiskCache("/x", fresh_seconds=-1)
