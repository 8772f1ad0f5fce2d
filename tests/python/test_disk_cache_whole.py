"""Entries that are whole: read without a request while they are fresh, verified, kept while in use, fetched
again where damaged.
"""

from __future__ import annotations

import io
import os
import pickle
import random
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import millrace
import pytest
from fault_proxy import FaultProxy
from millrace import stores
from millrace.datasets import WebDataset
from millrace.stores import DiskCache
from millrace.stores.cache_entry import ASKED_AT, find_whole, note_asked
from millrace.stores.disk_cache import _stem
from millrace.stores.transfer import ALIGNED_BYTES, Transfer

pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")

RANDOM = random.Random(4)
MIB = 1 << 20
SHARDS: dict[str, bytes] = {}


@pytest.fixture(scope="module", autouse=True)
def shards() -> Iterator[None]:
    """Here while these tests run: until then each process that a test forks would get them, too."""
    SHARDS.update({f"/s{i:02}.tar": RANDOM.randbytes(MIB + 300_000 + i) for i in range(12)})
    yield
    SHARDS.clear()


@pytest.fixture
def store() -> Iterator[FaultProxy]:
    with FaultProxy(SHARDS) as store:
        yield store


def read(source: object) -> bytes:
    return b"".join(
        source.read_at(at, min(200_000, source.size - at)) for at in range(0, source.size, 200_000)
    )


def epoch(store: FaultProxy, cache: DiskCache, names: object = SHARDS) -> None:
    with stores.open_shards([store.url(n[1:]) for n in names], cache=cache) as shards:
        for name, (_, source) in zip(names, shards):
            assert read(source) == store.objects[name]


def filled(store: FaultProxy, folder: Path, **settings: object) -> DiskCache:
    cache = DiskCache(folder, **settings)
    epoch(store, cache)
    deadline = time.monotonic() + 60
    while any(cache.room.in_use(p.stem) for p in folder.glob("*.map")) and time.monotonic() < deadline:
        time.sleep(0.01)
    return cache


def asked(store: FaultProxy, cache: DiskCache) -> list[str]:
    """The requests of an epoch."""
    before = len(store.requests)
    epoch(store, cache)
    return [r.method for r in store.requests[before:]]


def in_child(body: object) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_run_asks_once(store: FaultProxy, tmp_path: Path) -> None:
    cache = filled(store, tmp_path)
    assert asked(store, cache) == [], "who filled it has asked"
    assert asked(store, pickle.loads(pickle.dumps(cache))) == [], "a copy in a worker is of the same run"
    before = len(store.requests)
    assert in_child(lambda: epoch(store, cache)) and len(store.requests) == before
    again = DiskCache(tmp_path)
    assert asked(store, again) == ["HEAD"] * len(SHARDS), "another run asks itself"
    assert asked(store, again) == asked(store, cache) == []
    assert again.stats()["hit_rate"] == 1 and again.stats()["hits"] == 4 * len(SHARDS)


def test_what_is_fresh_needs_no_store(store: FaultProxy, tmp_path: Path) -> None:
    cache = filled(store, tmp_path)
    store.faults = lambda request: 404
    epoch(store, cache)
    source = stores.open_source(store.url("s03.tar"), cache=cache)
    assert source.is_here and source.read_at(MIB, 1000) == SHARDS["/s03.tar"][MIB : MIB + 1000]


def test_freshness_ends(store: FaultProxy, tmp_path: Path) -> None:
    cache = filled(store, tmp_path, fresh_seconds=0.5)
    time.sleep(0.6)
    assert set(asked(store, cache)) == {"HEAD"}
    table = tmp_path / f"{_stem(store.url('s05.tar'))}.map"
    cache = filled(store, tmp_path)
    with open(table, "r+b") as file:
        note_asked(file.fileno(), time.time_ns() + 10**12)
        assert asked(store, cache) == ["HEAD"], "a time to come says nothing"
        os.pwrite(file.fileno(), b"\1", ASKED_AT + 3)
        assert asked(store, cache) == ["HEAD"], "a torn one neither"
    assert asked(store, cache) == []


def test_a_run_sees_one_version_and_the_next_one_the_new(store: FaultProxy, tmp_path: Path) -> None:
    cache = filled(store, tmp_path)
    old, new = SHARDS["/s00.tar"], SHARDS["/s01.tar"]
    store.objects["/s00.tar"], store.etags["/s00.tar"] = new, '"new"'
    assert stores.open_source(store.url("s00.tar"), cache=cache).read_at(0, len(old)) == old
    assert stores.open_source(store.url("s00.tar"), cache=DiskCache(tmp_path)).read_at(0, len(new)) == new
    assert stores.open_source(store.url("s00.tar"), cache=cache).read_at(0, len(new)) == new, (
        "and who asks tells everybody"
    )
    store.objects["/s00.tar"] = old


def damage(store: FaultProxy, folder: Path, name: str, at: int) -> None:
    with open(folder / f"{_stem(store.url(name))}.data", "r+b") as file:
        file.seek(at)
        file.write(b"\0wrong\0")


@pytest.mark.parametrize("opened", ["stream", "source"])
def test_a_damaged_block_is_fetched_by_itself(store: FaultProxy, tmp_path: Path, opened: str) -> None:
    cache = filled(store, tmp_path)
    damage(store, tmp_path, "s02.tar", MIB + 5)
    sent = store.bytes_sent
    if opened == "stream":
        epoch(store, cache)
    else:
        assert read(stores.open_source(store.url("s02.tar"), cache=cache)) == SHARDS["/s02.tar"]
    assert store.bytes_sent - sent == len(SHARDS["/s02.tar"]) - MIB and cache.stats()["repaired"] == 1
    filled(store, tmp_path)
    assert store.bytes_sent - sent == len(SHARDS["/s02.tar"]) - MIB, "repaired for everyone"


def test_a_damaged_block_of_a_changed_object_is_an_error(store: FaultProxy, tmp_path: Path) -> None:
    cache = filled(store, tmp_path)
    damage(store, tmp_path, "s02.tar", MIB + 5)
    store.objects["/s02.tar"], store.etags["/s02.tar"] = SHARDS["/s02.tar"][::-1], '"new"'
    source = stores.open_source(store.url("s02.tar"), cache=cache)
    assert source.read_at(0, MIB) == SHARDS["/s02.tar"][:MIB]
    with pytest.raises(millrace.CorruptDataError, match="s02.tar changed"):
        source.read_at(MIB, 100)
    store.objects["/s02.tar"] = SHARDS["/s02.tar"]


def test_an_entry_in_use_stays_and_then_goes(store: FaultProxy, tmp_path: Path) -> None:
    cache = filled(store, tmp_path)
    held = stores.open_source(store.url("s04.tar"), cache=cache)
    small = DiskCache(tmp_path, 2 * MIB)
    store.objects["/new.tar"], store.etags["/new.tar"] = SHARDS["/s00.tar"], '"n"'
    epoch(store, small, ["/new.tar"])
    assert (
        small.stats()["entries"] == 1
        and small.stats()["evicted"] == len(SHARDS) - 1
        and small.stats()["bypassed"] == 1
    )
    assert read(held) == SHARDS["/s04.tar"]
    del held
    epoch(store, small, ["/new.tar"])
    assert small.stats()["entries"] == 1 and small.stats()["evicted"] == len(SHARDS)


def test_an_entry_that_goes_before_its_turn_is_fetched(store: FaultProxy, tmp_path: Path) -> None:
    cache = filled(store, tmp_path)
    with stores.open_shards([store.url(n[1:]) for n in SHARDS], cache=cache) as shards:
        for number, (name, (_, source)) in enumerate(zip(SHARDS, shards)):
            if number == 0:
                for gone in ("s01.tar", "s10.tar", "s11.tar"):
                    for kind in ("map", "data"):
                        os.unlink(tmp_path / f"{_stem(store.url(gone))}.{kind}")
                sent = store.bytes_sent
            assert read(source) == SHARDS[name]
    assert store.bytes_sent - sent == len(SHARDS["/s10.tar"]) + len(SHARDS["/s11.tar"]), (
        "s01 was open already"
    )


def test_what_is_not_whole_is_no_whole_entry(store: FaultProxy, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    entry = cache.admit("http://h/a", 3 * MIB, '"1"', time.time_ns())
    assert (
        entry is not None
        and cache.find_whole("http://h/a") is None
        and cache.find_whole("http://h/b") is None
    )
    file = millrace._core.BlockFile(
        "a", 3 * MIB, cache_fd=entry.data_fd, map_fd=entry.map_fd, map_offset=entry.map_offset
    )
    for at in range(0, 3 * MIB, MIB):
        assert cache.find_whole("http://h/a") is None
        file.write(at, bytes(MIB))
    assert cache.find_whole("http://h/a").size == 3 * MIB
    table = tmp_path / f"{_stem('http://h/a')}.map"
    for raw in (table.read_bytes()[:4104], b"", b"?" * 8192):
        table.write_bytes(raw)
        assert find_whole(str(table.with_suffix(""))) is None


def test_later_epochs_of_a_web_dataset_ask_nothing(tmp_path: Path) -> None:
    shards = {}
    for number in range(3):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for sample in range(4):
                info = tarfile.TarInfo(f"{number}{sample}.cls")
                info.size = 1
                tar.addfile(info, io.BytesIO(b"%d" % sample))
        shards[f"/w{number}.tar"] = out.getvalue()
    with FaultProxy(shards) as store:
        urls = [store.url(name[1:]) for name in shards]
        dataset = WebDataset(urls, cache_dir=str(tmp_path)).decode().to_tuple("cls")
        first = list(dataset)
        before = len(store.requests)
        assert len(first) == 12 and list(dataset) == list(pickle.loads(pickle.dumps(dataset))) == first
        indexed = dataset.indexed()
        assert len(indexed) == 12 and indexed[3] == first[3] and len(store.requests) == before
        assert len(list(WebDataset(urls, cache_dir=str(tmp_path)).decode().to_tuple("cls"))) == 12
        assert [r.method for r in store.requests[before:]] == ["HEAD"] * 3


@pytest.mark.parametrize("opened", ["stream", "source"])
def test_what_is_whole_is_read_without_a_network(store: FaultProxy, tmp_path: Path, opened: str) -> None:
    filled(store, tmp_path)
    urls = {store.url(name[1:]): data for name, data in SHARDS.items()}
    store.faults = lambda request: 500
    cache = DiskCache(tmp_path)
    before = len(store.requests)
    with pytest.warns(RuntimeWarning, match="cannot be reached .* may have changed") as warned:
        if opened == "stream":
            with stores.open_shards(urls, cache=cache, memory=64 * MIB) as shards:
                assert all(read(source) == urls[url] for url, source in shards)
        else:
            assert all(read(stores.open_source(url, cache=cache)) == data for url, data in urls.items())
    assert len(warned) == 1
    asked_in_vain = len(store.requests) - before
    assert asked_in_vain <= 4 * len(SHARDS), "four times for each that was asked for at once"
    assert read(stores.open_source(next(iter(urls)), cache=cache)) == SHARDS["/s00.tar"]
    assert len(store.requests) - before == asked_in_vain, "and not again in this hour"


def test_a_store_that_says_no_is_believed(store: FaultProxy, tmp_path: Path) -> None:
    filled(store, tmp_path)
    for status, kind in ((404, FileNotFoundError), (403, PermissionError)):
        store.faults = lambda request, status=status: status
        with pytest.raises(kind):
            stores.open_source(store.url("s01.tar"), cache=DiskCache(tmp_path))


def test_what_is_not_whole_needs_the_network(store: FaultProxy, tmp_path: Path) -> None:
    filled(store, tmp_path)
    os.truncate(tmp_path / f"{_stem(store.url('s01.tar'))}.map", 4096)
    store.faults = lambda request: 500
    with pytest.raises(OSError, match="s01.tar"):
        stores.open_source(store.url("s01.tar"), cache=DiskCache(tmp_path), retries=1)


def test_chunks_of_any_size_are_written_in_aligned_pieces() -> None:
    class Disk:
        def __init__(self) -> None:
            self.data, self.cuts = bytearray(), []

        def write(self, at: int, part: memoryview) -> int:
            assert at == len(self.data)
            self.data += part
            self.cuts.append(len(self.data))
            return len(part)

    data = RANDOM.randbytes(3 * MIB + 77)
    for begin in (0, 5, ALIGNED_BYTES):
        transfer, rest, at = Transfer.__new__(Transfer), bytearray(), begin
        transfer.entry, transfer.file = object(), Disk()
        transfer.file.data += data[:begin]
        while at < len(data):
            chunk = data[at : at + RANDOM.randrange(1, 400_000)]
            transfer._write(at, rest, chunk, len(data))
            at += len(chunk)
            assert len(transfer.file.data) + len(rest) == at and len(rest) < ALIGNED_BYTES
        assert transfer.file.data == data and not rest
        assert all(cut % ALIGNED_BYTES == 0 for cut in transfer.file.cuts[:-1])
