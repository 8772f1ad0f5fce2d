"""How reading from stores ends: exits, forks at a bad moment, Ctrl-C, servers that say too little."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fault_proxy import FaultProxy
from millrace import CorruptDataError, UnavailableError, stores
from millrace.stores import DiskCache
from millrace.stores.cache_room import folder_lock
from millrace.stores.clients import Meta, ObstoreClient
from millrace.stores.failures import classify
from millrace.stores.settings import shown

pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")

MIB = 1 << 20
DATA = random.Random(5).randbytes(12 * MIB)

EXITS = """
import sys
from fault_proxy import FaultProxy
from millrace import stores
store = FaultProxy({f"/s{i}.tar": bytes(30 << 20) for i in range(4)}).__enter__()
shards = stores.open_shards([store.url(f"s{i}.tar") for i in range(4)])
url, source = next(shards)
source.read_at(0, 1 << 20)
sys.exit(3)
"""


def test_a_program_ends_while_requests_are_in_flight() -> None:
    """A thread that came back from native code too late would abort the process."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command, environment = [sys.executable, "-c", EXITS], {**os.environ, "PYTHONPATH": path}
    runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) for _ in range(3)]
    said = [run.communicate(timeout=120)[1].decode() for run in runs]
    assert [run.returncode for run in runs] == [3] * 3, said
    assert said == [""] * 3


class child_forked_now:
    """A process forked here that lives to the end of the block, with all descriptors that were open."""

    def __enter__(self) -> None:
        self.child = os.fork()
        if self.child == 0:
            time.sleep(30)
            os._exit(0)

    def __exit__(self, *exc: object) -> None:
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


@pytest.mark.alone
def test_a_forked_child_holds_no_lock_that_its_parent_gave_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread of the parent may be anywhere in the cache while DataLoader forks its workers."""
    cache = DiskCache(tmp_path, 10 * MIB)
    children = []

    def fork() -> None:
        children.append(child_forked_now())
        children[-1].__enter__()

    try:
        with folder_lock(cache.folder) as locked:
            assert locked
            fork()
        entry = cache.admit("http://h/a", MIB, "1")
        real = os.utime
        monkeypatch.setattr(
            os, "utime", lambda path: (fork(), real(path))
        )  # in the middle of opening an entry
        used = cache.admit("http://h/b", MIB, "1")
        monkeypatch.undo()
        real_flock = stores.disk_cache.fcntl.flock
        assert cache.room.in_use(next(tmp_path.glob("*.map")).stem)
        entry.close()
        used.close()

        def flock(fd: int, kind: int) -> None:
            real_flock(fd, kind)
            fork()

        monkeypatch.setattr(stores.disk_cache.fcntl, "flock", flock)
        stems = [p.stem for p in tmp_path.glob("*.map")]
        assert not cache.room.in_use(stems[0])
        monkeypatch.undo()
        assert not any(cache.room.in_use(stem) for stem in stems), "in use by nobody"
        begun = time.monotonic()
        again = cache.admit("http://h/a", MIB, "1")
        again.close()
        assert time.monotonic() - begun < 5
        assert cache.stats()["bypassed"] == 0
    finally:
        for child in children:
            child.__exit__()


def test_a_cache_can_be_used_in_a_forked_child(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    with cache._lock:  # another thread's, in real life
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if cache.stats()["hits"] == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_admission_that_comes_too_late_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, admitted, begun, closed = DiskCache.admit, [], threading.Event(), threading.Event()

    def admit(self: DiskCache, url: str, *others: object) -> object:
        if url.endswith("b.tar"):
            begun.set()
            closed.wait(60)
        entry = real(self, url, *others)
        admitted.append(url)
        return entry

    monkeypatch.setattr(DiskCache, "admit", admit)
    cache = DiskCache(tmp_path)
    with FaultProxy({"/a.tar": DATA, "/b.tar": DATA}) as store:
        with stores.open_shards([store.url("a.tar"), store.url("b.tar")], cache=cache) as shards:
            assert next(shards)[1].read_at(0, 9) == DATA[:9]
            assert begun.wait(60)
        closed.set()
        deadline = time.monotonic() + 60
        while len(admitted) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(admitted) == 2
        while any(cache.room.in_use(p.stem) for p in tmp_path.glob("*.map")) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(cache.room.in_use(p.stem) for p in tmp_path.glob("*.map"))


def test_ctrl_c_loses_no_shard() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with FaultProxy({"/a.tar": DATA, "/b.tar": DATA}, latency=0.5) as store:
            urls = [store.url("a.tar"), store.url("b.tar")]
            with stores.open_shards(urls) as shards:
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                with pytest.raises(KeyboardInterrupt):
                    next(shards)
                assert [url for url, _ in shards] == urls
    finally:
        signal.signal(signal.SIGALRM, before)


class Panic(BaseException):
    """What a panic of a Rust library is to Python."""


def test_what_no_handler_expects_reaches_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = ObstoreClient.get, []

    async def get(self: ObstoreClient, *arguments: object) -> object:
        calls.append(arguments)
        if len(calls) >= panics_at:
            raise Panic("no luck")
        return await real(self, *arguments)

    monkeypatch.setattr(ObstoreClient, "get", get)
    with FaultProxy({"/a.tar": DATA}) as store:
        for panics_at in (1, 2):
            calls.clear()
            got = []

            def body() -> None:
                try:
                    with stores.open_shards([store.url("a.tar")], memory=8 * MIB) as shards:
                        source = next(shards)[1]
                        for at in range(0, len(DATA), MIB):
                            source.read_at(at, MIB)
                except OSError as error:
                    got.append(str(error))

            thread = threading.Thread(target=body, daemon=True)
            thread.start()
            thread.join(60)
            assert got and "no luck" in got[0]


def test_going_back_where_whole_objects_are_sent() -> None:
    with FaultProxy({"/a.tar": DATA}) as store:
        store.faults = lambda request: "whole"
        with stores.open_shards([store.url("a.tar")], memory=4 * MIB) as shards:
            source = next(shards)[1]
            assert source.read_at(0, 5 * MIB) == DATA[: 5 * MIB]
            time.sleep(0.3)  # until what comes is too far ahead
            got = []
            thread = threading.Thread(target=lambda: got.append(source.read_at(MIB + 5, MIB)), daemon=True)
            thread.start()
            thread.join(60)
            assert got == [DATA[MIB + 5 : 2 * MIB + 5]]
            assert source.read_at(5 * MIB, 7 * MIB) == DATA[5 * MIB :]


class Dripping(FaultProxy):
    def _send(self, connection: socket.socket, body: memoryview, fault: object) -> bool:
        for at in range(len(body)):
            connection.sendall(body[at : at + 1])
            if self._closing.wait(0.02):
                break
        return False


def test_a_server_that_drips_is_given_up() -> None:
    with Dripping({"/a.tar": DATA}) as store, pytest.raises(TimeoutError):
        stores.open_source(store.url("a.tar"), stall_timeout=0.2, retries=5).read_at(0, 100)


def test_an_impossible_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores.clients, "_meta", lambda meta: Meta(1 << 60, "1"))
    with FaultProxy({"/a.tar": DATA}) as store, pytest.raises(CorruptDataError, match="64 TiB"):
        stores.open_source(store.url("a.tar"))


def test_an_object_whose_version_nobody_knows_is_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores.clients, "_meta", lambda meta: Meta(meta["size"], ""))
    with FaultProxy({"/a.tar": DATA}) as store:
        cache = DiskCache(tmp_path)
        with pytest.warns(RuntimeWarning, match="neither an ETag nor a date"):
            assert stores.open_source(store.url("a.tar"), cache=cache).read_at(0, 9) == DATA[:9]
        store.objects["/a.tar"] = DATA[::-1]
        assert stores.open_source(store.url("a.tar"), cache=cache).read_at(0, 9) == DATA[::-1][:9]


def test_reserved_room_is_not_given_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_frsize=1, f_blocks=100 * MIB, f_bavail=20 * MIB)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    cache = DiskCache(tmp_path)
    entry = cache.admit("http://h/a", 6 * MIB, "1")
    assert entry is not None and cache.admit("http://h/b", 6 * MIB, "1") is None
    entry.close()


@pytest.mark.parametrize(
    "url, said",
    [
        ("https://me:secret@host/a.tar?token=secret", "https://host/a.tar?..."),
        ("s3://bucket/me@home.tar", "s3://bucket/me@home.tar"),
        ("/local/a?b", "/local/a?b"),
    ],
)
def test_secrets_stay_out_of_messages_and_files(url: str, said: str, tmp_path: Path) -> None:
    assert shown(url) == said
    for error in (
        OSError(f"error sending request for url ({url}): reset"),
        FileNotFoundError(),
        OSError("status code: 403 " + url),
    ):
        final = classify(error, url)[1]
        assert "secret" not in str(final) and said in str(final)
    DiskCache(tmp_path).admit(url, 100, "1").close()
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.iterdir())


def test_an_objects_name_says_nothing_about_credentials() -> None:
    again, final = classify(
        OSError("http://h/credentials/a.tar: connection reset"), "http://h/credentials/a.tar"
    )
    assert again and not isinstance(final, PermissionError)
    assert isinstance(classify(OSError("no credentials"), "http://h/credentials/a.tar")[1], PermissionError)


def test_what_is_read_behind_the_end_of_a_stream_is_mended_too(tmp_path: Path) -> None:
    with FaultProxy({"/a.tar": DATA}) as store:
        with stores.open_shards([store.url("a.tar")], cache=tmp_path) as shards:
            assert next(shards)[1].read_at(0, len(DATA)) == DATA
        [path] = tmp_path.glob("*.data")
        with open(path, "r+b") as file:
            file.seek(3 * MIB)
            file.write(b"wrong")
        os.utime(path, (1, 1))
        shards = stores.open_shards([store.url("a.tar")], cache=tmp_path)
        source = next(shards)[1]
        assert source.is_here and next(shards, None) is None
        shards.finish()
        shards.close()
        del shards
        got = []
        thread = threading.Thread(target=lambda: got.append(source.read_at(0, len(DATA))), daemon=True)
        thread.start()
        thread.join(60)
        assert got == [DATA]
        del source
        deadline = time.monotonic() + 60
        while stores.engine._engine is not None and time.monotonic() < deadline:
            gc.collect()  # what earlier tests left in cycles keeps the engine, too
            time.sleep(0.02)
        assert stores.engine._engine is None, "nothing is left behind"


def test_a_closed_stream_says_so_to_who_waits() -> None:
    with FaultProxy({"/a.tar": DATA}, latency=1) as store:
        shards = stores.open_shards([store.url("a.tar")])
        threading.Timer(0.2, shards.close).start()
        with pytest.raises(UnavailableError):
            next(shards)
