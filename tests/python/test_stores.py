"""millrace.stores against real servers and a bad one: the same bytes under every fault, named errors."""

from __future__ import annotations

import gc
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_proxy import FaultProxy
from millrace import CorruptDataError, UnavailableError, stores
from millrace._core import BlockFile
from open_files import open_files
from python_code import run_code
from waiting import wait_until

pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")

RANDOM = random.Random(1)
MIB = 1 << 20
SHARDS: dict[str, bytes] = {}
QUICK = {"stall_timeout": 0.4, "request_bytes": 2 * MIB}


@pytest.fixture(scope="module", autouse=True)
def shards() -> Iterator[None]:
    """Here while these tests run: until then each process that a test forks would get them, too."""
    SHARDS.update(
        {
            f"/shard-{i}.tar": RANDOM.randbytes(size)
            for i, size in enumerate((5 * MIB + 321, 100, 2 * MIB, 3 * MIB - 1))
        }
    )
    yield
    SHARDS.clear()


def read(source: object, step: int = 300_000) -> bytes:
    return b"".join(source.read_at(at, min(step, source.size - at)) for at in range(0, source.size, step))


def read_all(store: FaultProxy, **settings: object) -> dict[str, bytes]:
    urls = [store.url(name[1:]) for name in SHARDS]
    with stores.open_shards(urls, **{**QUICK, **settings}) as shards:
        got = {url: read(source) for url, source in shards}
        read_all.stats = shards.stats()
    assert list(got) == urls, "every shard once, in order"
    return dict(zip(SHARDS, got.values()))


def store_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "millrace-stores"]


# ---------------------------------------------------------------- a good store


def test_shards_cross_over_with_few_requests() -> None:
    with FaultProxy(SHARDS) as store:
        assert read_all(store, stall_timeout=20.0) == SHARDS
        assert store.bytes_sent == sum(map(len, SHARDS.values())), "nothing twice"
        assert {r.method for r in store.requests} == {"GET"}, "the first range says the size"
        assert (
            len(store.requests)
            == sum(-(-len(data) // (2 * MIB)) for data in SHARDS.values())
            == read_all.stats["requests"]
        )
        assert read_all.stats["bytes"] == store.bytes_sent and read_all.stats["retries"] == 0
        assert any(r.if_match for r in store.requests), "later ranges are of the same version"


def test_memory_stays_in_its_budget() -> None:
    with FaultProxy({"/a": RANDOM.randbytes(24 * MIB), "/b": RANDOM.randbytes(24 * MIB)}) as store:
        with stores.open_shards([store.url("a"), store.url("b")], memory=8 * MIB) as shards:
            for _, source in shards:
                for at in range(0, source.size, MIB):
                    source.read_at(at, MIB)
                    assert shards.stats()["held_bytes"] <= 8 * MIB
            assert shards.stats()["ahead_bytes_peak"] <= 8 * MIB


def test_the_next_shards_are_on_their_way() -> None:
    with (
        FaultProxy(SHARDS) as store,
        stores.open_shards([store.url(n[1:]) for n in SHARDS], **QUICK) as shards,
    ):
        next(shards)
        assert wait_until(lambda: {r.path for r in store.requests} == set(SHARDS)), "while nothing was read"


def test_any_order_within_one_object() -> None:
    data = SHARDS["/shard-0.tar"]
    with FaultProxy(SHARDS) as store:
        source = stores.open_source(store.url("shard-0.tar"), memory=4 * MIB)
        assert source.size == len(data) and source.name == store.url("shard-0.tar")
        for _ in range(50):
            at = RANDOM.randrange(len(data))
            count = RANDOM.randrange(min(MIB, len(data) - at) + 1)
            assert source.read_at(at, count) == data[at : at + count]
        with pytest.raises(CorruptDataError, match="shard-0.tar has"):
            source.read_at(len(data) - 1, 2)


def test_an_empty_object_and_none_at_all() -> None:
    with FaultProxy({"/empty": b"", **SHARDS}) as store:
        assert stores.open_source(store.url("empty")).size == 0
        assert list(stores.open_shards([])) == []


def test_local_files_pass_through(tmp_path: Path) -> None:
    path = tmp_path / "a b.tar"
    path.write_bytes(b"shard")
    for url in (str(path), path, f"file://{path}", path.as_uri()):
        assert stores.open_source(url).read_at(0, 5) == b"shard"
    with (
        FaultProxy(SHARDS) as store,
        stores.open_shards([str(path), store.url("shard-1.tar"), str(tmp_path / "none")]) as shards,
    ):
        assert [(url, read(source)) for url, source in (next(shards), next(shards))] == [
            (str(path), b"shard"),
            (store.url("shard-1.tar"), SHARDS["/shard-1.tar"]),
        ]
        with pytest.raises(FileNotFoundError):
            next(shards)


def test_endless_urls() -> None:
    def urls() -> object:
        while True:
            yield store.url("shard-1.tar")

    with FaultProxy(SHARDS) as store, stores.open_shards(urls()) as shards:
        assert [read(next(shards)[1]) for _ in range(100)] == [SHARDS["/shard-1.tar"]] * 100


# ---------------------------------------------------------------- faults


def every(n: int, fault: object) -> object:
    return lambda request: fault if request.number % n == n - 1 else None


@pytest.mark.parametrize(
    "fault", ["reset", "stall", "drip", "truncate", "short", "slow", "shifted", 500, 503, 429]
)
def test_the_same_bytes_under_every_fault(fault: object) -> None:
    with FaultProxy(SHARDS) as store:
        store.faults = every(3, fault)
        breaks = fault in ("reset", "truncate", "short")
        # With a busy machine's pauses a short timeout would give up transfers that nothing is wrong with.
        assert read_all(store, **({"stall_timeout": 20.0} if breaks else {})) == SHARDS
        if breaks:
            # Transfers go on where they broke: less than a chunk of each is asked for again. The client
            # refuses a short answer as a whole, of which up to 1 MiB has left the server by then.
            again = MIB if fault == "short" else 300_000
            assert store.bytes_sent < sum(map(len, SHARDS.values())) + len(store.requests) * again
        assert fault == "slow" or read_all.stats["retries"] > 0


def test_all_faults_mixed() -> None:
    draws = random.Random(2)
    kinds = ["reset", "stall", "truncate", "short", 500, 503]
    with FaultProxy(SHARDS) as store:
        store.faults = lambda request: draws.choice(kinds) if draws.random() < 0.25 else None
        assert read_all(store, request_bytes=MIB, retries=20) == SHARDS


def test_servers_without_ranges() -> None:
    with FaultProxy(SHARDS) as store:
        store.faults = lambda request: "whole"
        assert read_all(store) == SHARDS
        assert (
            stores.open_source(store.url("shard-0.tar")).read_at(4 * MIB, 10)
            == SHARDS["/shard-0.tar"][4 * MIB : 4 * MIB + 10]
        )


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (404, FileNotFoundError, "no such object"),
        (403, PermissionError, "skip_signature"),
        (401, PermissionError, "credentials"),
        (400, PermissionError, "ExpiredToken"),
        (500, OSError, "500"),
        (503, OSError, "503"),
        (418, OSError, "418"),
    ],
)
def test_errors_are_those_of_files(fault: int, error: type, message: str) -> None:
    with FaultProxy(SHARDS) as store:
        store.faults = lambda request: fault if request.path == "/shard-2.tar" else None
        with stores.open_shards([store.url(n[1:]) for n in SHARDS], retries=2, **QUICK) as shards:
            assert len([next(shards), next(shards)]) == 2
            with pytest.raises(error, match=message) as raised:
                next(shards)
            assert store.url("shard-2.tar") in str(raised.value)
            assert read(next(shards)[1]) == SHARDS["/shard-3.tar"], "and iteration goes on behind it"
        assert fault in (500, 503) or sum(r.path == "/shard-2.tar" for r in store.requests) == 1, (
            "failed at once"
        )


@pytest.mark.parametrize("fault", ["other_size", "other_etag", 403])
def test_errors_in_the_middle_reach_the_reader(fault: object) -> None:
    with FaultProxy(SHARDS) as store:
        store.faults = lambda request: fault if request.start >= 2 * MIB else None
        source = stores.open_source(store.url("shard-0.tar"), retries=2, request_bytes=2 * MIB)
        assert source.read_at(0, MIB) == SHARDS["/shard-0.tar"][:MIB]
        with pytest.raises(
            PermissionError if fault == 403 else CorruptDataError,
            match="renew" if fault == 403 else "changed while",
        ) as e:
            source.read_at(0, source.size)
        assert store.url("shard-0.tar") in str(e.value)


def test_nobody_answers() -> None:
    with pytest.raises(ConnectionRefusedError, match="nobody answers"):
        stores.open_source("http://127.0.0.1:9/a.tar", retries=1)


def test_a_store_that_is_down_is_told_of_before_it_is_given_up() -> None:
    urls = ["http://127.0.0.1:9/a.tar?sig=secret", "http://127.0.0.1:9/b.tar"]
    with pytest.warns(RuntimeWarning) as told, stores.open_shards(urls, retries=3) as shards:
        for _ in urls:
            with pytest.raises(ConnectionRefusedError, match="nobody answers"):
                next(shards)
    [message] = [str(w.message) for w in told]
    assert message.startswith("http://127.0.0.1:9/") and "secret" not in message
    assert "failed 3 times in a row, and is tried 1 times more: nobody answers" in message


def test_a_silent_store_times_out() -> None:
    with FaultProxy(SHARDS, latency=30) as store, pytest.raises(TimeoutError, match="sent nothing"):
        stores.open_source(store.url("shard-0.tar"), stall_timeout=0.1, retries=1)


@pytest.mark.alone
def test_a_slow_request_gets_a_second_one() -> None:
    data = {"/a": RANDOM.randbytes(40 * MIB)}
    with FaultProxy(data) as store:
        store.faults = lambda request: "stall" if request.number == 30 else None
        start = time.monotonic()
        with stores.open_shards([store.url("a")], request_bytes=MIB) as shards:
            _, source = next(shards)
            assert read(source) == data["/a"]
            assert shards.stats()["hedges"] == 1 and shards.stats()["retries"] == 0
        assert time.monotonic() - start < 5, "the stall alone is 20 s"
        assert len(store.requests) == 41


# ---------------------------------------------------------------- ends


def test_threads_end_on_close_and_on_collection() -> None:
    gc.collect()  # what other tests' exceptions keep
    assert wait_until(lambda: not store_threads())
    with FaultProxy(SHARDS) as store:
        shards = stores.open_shards([store.url(n[1:]) for n in SHARDS])
        _, kept = next(shards)
        shards.close()
        assert wait_until(lambda: not store_threads())
        with pytest.raises(UnavailableError, match="closed"):
            next(shards)
        shards = stores.open_shards([store.url(n[1:]) for n in SHARDS])
        next(shards)
        del shards
        source = stores.open_source(store.url("shard-0.tar"))
        del source
        gc.collect()
        assert wait_until(lambda: not store_threads())
        fds = len(open_files())
        for _ in range(5):
            read_all(store)
        # the store, which is in this process, closes its ends of the connections on threads of its own
        assert wait_until(lambda: not store_threads() and len(open_files()) <= fds + 5)
        del kept


def test_close_wakes_a_reader() -> None:
    with FaultProxy(SHARDS) as store:
        store.faults = lambda request: "stall" if request.start else None
        shards = stores.open_shards([store.url("shard-0.tar")], request_bytes=MIB)
        _, source = next(shards)
        threading.Timer(0.1, shards.close).start()
        with pytest.raises(UnavailableError, match="closed while it was read"):
            source.read_at(0, source.size)


@pytest.mark.alone
def test_ctrl_c_ends_a_wait() -> None:
    file = BlockFile("s3://a/b", 10)
    source = file.reader()
    threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        source.read_at(0, 10)
        time.sleep(1)
    assert time.monotonic() - start < 0.9


def test_a_forked_child_opens_its_own() -> None:
    with FaultProxy(SHARDS) as store:
        shards = stores.open_shards([store.url(n[1:]) for n in SHARDS], **QUICK)
        _, source = next(shards)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(60)
                for act in (lambda: next(shards), lambda: source.read_at(0, source.size)):
                    try:
                        act()
                        os._exit(2)
                    except UnavailableError as error:
                        assert "forked" in str(error)
                code = 0 if read_all(store) == SHARDS else 3
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert read(source) == SHARDS["/shard-0.tar"], "and the parent's goes on"
        shards.close()


def test_settings_are_checked() -> None:
    assert pickle.loads(pickle.dumps(stores.Settings(memory=10**8))) == stores.Settings(memory=10**8)
    for bad in ({"memory": 1000}, {"request_bytes": 5}, {"retries": 0}, {"stall_timeout": 0}):
        with pytest.raises(ValueError, match="should be"):
            stores.open_shards([], **bad)
    with pytest.raises(TypeError):
        stores.open_shards([], colour="blue")
    with pytest.raises(ValueError, match="names a store but no object"):
        stores.open_source("s3://bucket")


def test_missing_packages_say_how_to_get_them() -> None:
    code = """
import sys
sys.modules["obstore"] = sys.modules["fsspec"] = None
from millrace import UnavailableError, stores
for url, hint in (("s3://a/b", "pip install 'obstore>=0.6'"), ("hdfs://a/b", "pip install fsspec")):
    try:
        stores.open_source(url)
    except UnavailableError as error:
        assert hint in str(error), error
    else:
        raise SystemExit("no error")
"""
    run_code(code)


def test_fsspec_reads_the_rest() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name, data in SHARDS.items():
        memory.pipe(f"/bucket{name}", data)
    with stores.open_shards([f"memory://bucket{name}" for name in SHARDS], **QUICK) as shards:
        assert [read(source) for _, source in shards] == list(SHARDS.values())
    with pytest.raises(FileNotFoundError):
        stores.open_source("memory://bucket/none")
    with pytest.raises(ValueError, match="nonsense"):
        stores.open_source("nonsense://a/b")
