"""Room in the disk cache: what is recorded of it is never too little, entries are looked at only when it is
not enough, bounds hold.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from millrace.stores import DiskCache, cache_room
from millrace.stores.cache_room import Room, Usage, folder_lock, read_usage, write_usage

KIB = 1 << 10


class Looks:
    """Counts how often all entries are looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, real = 0, Room._make_room

        def make_room(room: Room, need: int, keep: str) -> object:
            self.count += 1
            return real(room, need, keep)

        monkeypatch.setattr(Room, "_make_room", make_room)


def fill(entry: object, size: int) -> None:
    os.pwrite(entry.data_fd, b"x" * size, 0)


def usage(cache: DiskCache) -> Usage:
    with folder_lock(cache.folder) as fd:
        return read_usage(fd)


def truth(cache: DiskCache) -> tuple[int, int]:
    """(what all entries may come to have, what they have)."""
    used = stored = 0
    for path in cache.folder.glob("*.map"):
        data = path.with_suffix(".data").stat()
        on_disk = data.st_blocks * 512
        used += data.st_size if cache.room.in_use(path.stem) else on_disk
        stored += on_disk
    return used, stored


@pytest.mark.parametrize("seed", range(3))
def test_what_is_recorded_is_never_too_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draws, looks = random.Random(seed), Looks(monkeypatch)
    bound = 600 * KIB
    monkeypatch.setattr(cache_room, "MANY", draws.choice([3, 1000]))
    held: list[object] = []
    admitted = 0
    for step in range(200):
        cache = DiskCache(tmp_path, draws.choice([bound, bound, bound // 2]))
        size = draws.randrange(1, 16) * 4 * KIB
        number = draws.randrange(60)
        entry = cache.admit(f"http://h/{number}", size, str(size))
        if entry is not None:
            admitted += 1
            if draws.random() < 0.8:
                fill(entry, draws.choice([size, size // 2]))
            held.append(entry)
        while len(held) > 4 or (held and draws.random() < 0.4):
            held.pop(draws.randrange(len(held))).close()
        used, stored = truth(cache)
        known = usage(cache)
        assert known is not None and used <= known.used and used - stored <= known.owed
        assert used <= bound
        if step == 100:
            (tmp_path / "lock").write_bytes(draws.choice([b"", b"?" * 52]))
            assert usage(cache) is None
            assert cache.admit("http://h/again", 4 * KIB, "1") is not None
    assert admitted > 100 and looks.count < 200
    for entry in held:
        entry.close()


def test_a_cache_with_room_left_looks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    cache = DiskCache(tmp_path, 1000 * KIB)
    for number in range(100):
        entry = cache.admit(f"http://h/{number}", 8 * KIB, "1")
        fill(entry, 8 * KIB)
        entry.close()
    assert looks.count == 1
    unbounded = DiskCache(tmp_path)
    unbounded.admit("http://h/more", 8 * KIB, "1").close()
    assert looks.count == 1
    monkeypatch.setattr(cache_room, "_boot", lambda: b"another start of the machine".ljust(36))
    unbounded.admit("http://h/yet more", 8 * KIB, "1").close()
    assert looks.count == 2, "what was known before the machine started is not relied on"


def test_a_full_cache_of_many_makes_room_for_some_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_room, "MANY", 100)
    looks, cache = Looks(monkeypatch), DiskCache(tmp_path, 2560 * KIB)
    for number in range(960):
        entry = cache.admit(f"http://h/{number}", 4 * KIB, "1")
        fill(entry, 4 * KIB)
        entry.close()
        time.sleep(0.0002)
    assert looks.count <= 1 + 960 / 10 and cache.stats()["bypassed"] == 0
    assert 630 - 10 <= cache.stats()["entries"] <= 640


def test_a_record_that_cannot_be_written_is_not_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(tmp_path, 1000 * KIB)
    cache.admit("http://h/a", 8 * KIB, "1").close()
    assert usage(cache) == Usage(8 * KIB, 8 * KIB)

    def full(*_: object) -> int:
        raise OSError(28, "no space left")

    with folder_lock(cache.folder) as fd, monkeypatch.context() as patch:
        patch.setattr(cache_room.os, "pwrite", full)
        write_usage(fd, Usage(9, 9))
    assert usage(cache) is None
