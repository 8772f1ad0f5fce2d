"""Large files of local shards are read by a second thread too, one for all shards of an epoch."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from pathlib import Path

import millrace
import pytest
from millrace import _core
from millrace.datasets import WebDataset
from test_shard_reader import write
from waiting import wait_until

pytestmark = pytest.mark.skipif(
    _core.cpu_budget()["threads"] < 2, reason="with one CPU nothing is read ahead"
)

SIZES = (100_000, 40_000, 1_500_000, 10, 33_000)


def make_shard(path, seed: int, samples: int = 40):
    rng = random.Random(seed)
    return write(path, [(f"{seed}-{i:03}.bin", rng.randbytes(SIZES[i % len(SIZES)])) for i in range(samples)])


def contents(seed: int, samples: int = 40):
    rng = random.Random(seed)
    return [rng.randbytes(SIZES[i % len(SIZES)]) for i in range(samples)]


def readers() -> set[str]:
    """Threads that read ahead, those of other tests among them, which may end at any time."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # of one that has ended meanwhile
            if Path(f"/proc/self/task/{task}/comm").read_text().strip() == "millrace-read":
                found.add(task)
    return found


def test_shards_share_one_thread_which_ends_with_the_epoch(tmp_path):
    shards = [make_shard(tmp_path / f"{seed}.tar", seed) for seed in range(4)]
    before, seen, ours = readers(), [], set()
    for number, sample in enumerate(WebDataset(shards)):
        seen.append(sample["bin"])
        ours |= readers() - before
        assert len(ours) == 1, number
    assert seen == [content for seed in range(4) for content in contents(seed)]
    assert wait_until(lambda: not readers() & ours)  # a joined thread is listed for a moment


def test_what_was_begun_ends_before_its_memory(tmp_path):
    shard = make_shard(tmp_path / "0.tar", 0)
    ahead, expected = _core.ReadAhead(), contents(0)
    for stop in range(1, 30):
        reader = _core.ShardReader(shard, read_ahead=ahead)
        assert [next(reader)["bin"] for _ in range(stop)] == expected[:stop]
        del reader  # with files of several megabytes on their way
    assert [sample["bin"] for sample in _core.ShardReader(shard, read_ahead=ahead)] == expected


def test_a_file_that_shrinks_ends_its_shard_and_the_thread_serves_the_next(tmp_path):
    cut, whole = make_shard(tmp_path / "cut.tar", 0), make_shard(tmp_path / "whole.tar", 1)
    ahead, got = _core.ReadAhead(), []
    reader = _core.ShardReader(cut, read_ahead=ahead)
    got.append(next(reader)["bin"])
    os.truncate(cut, 10_000_000)  # of 13.4 million
    with pytest.raises(millrace.CorruptDataError, match=r"cut.tar ends at byte 100\d{5}, .* cut short"):
        got.extend(sample["bin"] for sample in reader)
    assert got == contents(0)[: len(got)] and len(got) > 20
    assert next(reader, "end") == "end"
    assert [sample["bin"] for sample in _core.ShardReader(whole, read_ahead=ahead)] == contents(1)


def test_a_sample_that_is_handed_out_after_an_error_is_whole(tmp_path):
    large = random.Random(0).randbytes(20_000_000)
    shard = write(tmp_path / "twice.tar", [("a.bin", large), ("a.bin", b"again"), ("b.bin", b"next")])
    reader = _core.ShardReader(shard)
    with pytest.raises(ValueError, match="'a.bin' is there twice"):
        next(reader)
    assert [sample["bin"] == content for sample, content in zip(reader, [large, b"next"])] == [True, True]


def test_two_readers_at_once_are_refused_one_thread(tmp_path):
    first, second = make_shard(tmp_path / "0.tar", 0), make_shard(tmp_path / "1.tar", 1)
    ahead = _core.ReadAhead()
    one, two = _core.ShardReader(first, read_ahead=ahead), _core.ShardReader(second, read_ahead=ahead)
    begun = [next(one)["bin"]]
    with pytest.raises(
        ValueError, match="1.tar would be read ahead by a thread that is at work for another shard"
    ):
        next(two)
    assert begun + [sample["bin"] for sample in one] == contents(0)


def test_epochs_in_several_threads(tmp_path):
    shards, results = [make_shard(tmp_path / f"{seed}.tar", seed) for seed in range(2)], {}
    dataset = WebDataset(shards)
    threads = [
        threading.Thread(target=lambda i=i: results.update({i: [s["bin"] for s in dataset]}))
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[i] == contents(0) + contents(1) for i in range(3))


def test_a_forked_child_reads_with_a_thread_of_its_own(tmp_path):
    shard = make_shard(tmp_path / "0.tar", 0)
    ahead = _core.ReadAhead()
    assert next(_core.ShardReader(shard, read_ahead=ahead))["bin"] == contents(0)[0]  # the thread runs
    child = os.fork()
    if child == 0:
        status = 1
        try:
            right = [sample["bin"] for sample in _core.ShardReader(shard, read_ahead=ahead)] == contents(0)
            right = right and [sample["bin"] for sample in WebDataset(shard)] == contents(0)
            del ahead
            status = 0 if right else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
