"""RemoteCore without Ray: members are threads that lose, delay, repeat or falsify batches. Whatever they do,
each batch comes once, in order, with the bytes that its keys determine.
"""

import random
import re
import threading
import types
import warnings
from concurrent.futures import Future

import numpy as np
import pytest
import torch
from millrace._history.hashes import BatchHash
from millrace._loader.engines.epoch_keys import EpochKeys
from millrace._loader.remote.blocks import Landing, as_blocks, from_blocks
from millrace._loader.remote.core import RemoteCore, _first_row
from millrace._loader.remote.courier import Courier
from millrace._loader.remote.maker import Work
from remote_fakes import BATCHES, LENGTH, PLACE, SIZE, FakeMaker, FakeMember, FakePool, batch_of, right
from waiting import wait_until


def lists_of(seed):
    return np.random.default_rng(seed).integers(-LENGTH, LENGTH, (BATCHES, SIZE))


def expected(lists):
    keys = EpochKeys(LENGTH)
    return [batch_of(Work(PLACE, *keys.of(rows))) for rows in lists]


def run(core, lists, ahead=8):
    """All batches of an epoch; `ahead` lists are out at a time."""
    core.start_epoch(*PLACE)
    made, todo = [], list(lists)
    for rows in todo[:ahead]:
        core.submit(rows)
    for rows in [*todo[ahead:], *[None] * min(ahead, len(todo))]:
        made.append(core.next(60.0)[0])
        if rows is not None:
            core.submit(rows)
    assert core.next(1.0) is None
    return made


@pytest.fixture
def cores():
    made = []

    def make(*members, pace_s=0.002, lanes=1, as_needed=False):
        pool = FakePool(*members, as_needed=as_needed)
        core = RemoteCore(FakeMaker(pace_s, lanes), EpochKeys(LENGTH), pool, "system")
        made.append(core)
        if any(member.facts == {"millrace": "1"} for member in members):
            assert wait_until(
                lambda: core.stats()["remote"]["workers"] > 0 or core.stats()["remote"]["expelled"]
            )
        return core

    yield make
    for core in made:
        core.close()
        assert not any(thread.is_alive() for thread in core._threads)
        for member in core._courier._pool.members:
            member.pool.shutdown(cancel_futures=True)


def equal(made, wanted):
    assert len(made) == len(wanted)
    assert all(difference(one, two) is None for one, two in zip(made, wanted))


def difference(one, two):
    return BatchHash.of(one).difference(BatchHash.of(two))


def test_members_make_what_is_made_here(cores):
    members = [FakeMember("a", right), FakeMember("b", right)]
    core, lists = cores(*members, pace_s=0.02), lists_of(1)
    equal(run(core, lists), expected(lists))
    seen = core.stats()["remote"]
    assert seen["nodes"]["node a"]["batches"] + seen["nodes"]["node b"]["batches"] + seen["local"] == BATCHES
    assert seen["nodes"]["node a"]["samples"] == SIZE * seen["nodes"]["node a"]["batches"] > 0
    assert core.stats()["samples"] == BATCHES * SIZE and core.stats()["batches"] == BATCHES
    assert max(member.most for member in members) <= 2


@pytest.mark.parametrize("seed", range(8))
def test_random_faults_change_nothing(cores, seed):
    draws = random.Random(seed)
    deeds = ["right"] * 6 + ["lost", "error", 0.01, 0.05]

    def deed(number):
        return draws.choice(deeds)

    members = [FakeMember(name, deed) for name in "abc"]
    if seed % 2:
        members.append(FakeMember("d", lambda number: "gone" if number == 3 else "right"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core, lists = cores(*members), lists_of(seed)
        for _ in range(2):
            equal(run(core, lists), expected(lists))


def test_what_hangs_is_made_here(cores):
    member = FakeMember("a", lambda number: 1.5)
    core, lists = cores(member, pace_s=0.0), lists_of(3)
    equal(run(core, lists), expected(lists))
    assert core.stats()["remote"]["hedged"] >= 1


ROWS = torch.arange(12.0).reshape(3, 4)
OTHERS = torch.stack([ROWS[0], ROWS[1] + 1, ROWS[2]])


@pytest.mark.parametrize(
    ("mine", "theirs", "row"),
    [
        ((ROWS, ROWS), (ROWS, OTHERS), 1),
        ((tuple(ROWS), [0, 1, 2]), (tuple(OTHERS), [0, 1, 2]), 1),  # of several sizes, each a field
        ([tuple(ROWS), tuple(ROWS)], [tuple(ROWS), tuple(OTHERS)], 1),
        ({"edges": torch.zeros(7)}, {"edges": torch.ones(7)}, 3),  # graphs, concatenated
        ((ROWS[:2], ROWS), (OTHERS[:2], ROWS), 3),
    ],
)
def test_the_sample_that_differs_is_named_where_it_is_known(mine, theirs, row):
    assert _first_row(BatchHash.of(mine), BatchHash.of(theirs), 3) == row


@pytest.mark.parametrize(("deed", "says"), [("wrong", "sample .* has other bytes"), ("error", "file 7")])
def test_a_member_of_other_bytes_or_files_is_expelled(cores, deed, says):
    member = FakeMember("a", lambda number: deed)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        core, lists = cores(member, pace_s=0.01), lists_of(4)
        equal(run(core, lists), expected(lists))
        assert wait_until(lambda: member.expelled)
    assert any("node a" in str(warning.message) for warning in heard)
    assert list(core.stats()["remote"]["expelled"]) == ["a"]
    assert core.stats()["remote"]["nodes"] == {}
    assert re.search(says, member.expelled)


def test_a_member_that_was_expelled_and_started_again_stays_out(cores):
    member = FakeMember("a", lambda number: "wrong" if number == 1 else "lost")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core, lists = cores(member, pace_s=0.03), lists_of(9)
        for _ in range(2):
            equal(run(core, lists), expected(lists))
        assert wait_until(lambda: member.expelled)
        equal(run(core, lists), expected(lists))
        sent = member.sent
        equal(run(core, lists), expected(lists))
    assert core.stats()["remote"]["workers"] == 0
    assert member.sent == sent


def test_a_member_of_another_version_makes_nothing(cores):
    member = FakeMember("a", right, facts={"millrace": "0"})
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        core, lists = cores(member), lists_of(5)
        assert wait_until(lambda: member.expelled)
        equal(run(core, lists), expected(lists))
    assert member.sent == 0 and "millrace '0' there, '1' here" in str(heard[0].message)


def test_alone_when_all_are_gone_with_one_warning(cores):
    member = FakeMember("a", lambda number: "gone")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        core, lists = cores(member, pace_s=0.01), lists_of(6)
        wanted = expected(lists)
        equal(run(core, lists), wanted)
        assert wait_until(lambda: heard)
        equal(run(core, lists), wanted)
    assert [str(warning.message)[:24] for warning in heard] == ["no remote worker answers"]


def test_an_error_stands_in_its_batchs_place(cores):
    core = cores(FakeMember("a", right))
    core.start_epoch(*PLACE)
    for rows in ([1, 2], [3, LENGTH], [4, 5]):
        core.submit(rows)
    assert core.next(60.0)[0][1].tolist() == [1, 2]
    with pytest.raises(IndexError, match=f"no row {LENGTH}"):
        core.next(60.0)
    assert core.next(60.0)[0][1].tolist() == [4, 5]
    with pytest.raises(TypeError, match="list of ints"):
        core.submit([1.5])


def test_an_epoch_that_is_left_answers_nothing_later(cores):
    core, lists = cores(FakeMember("a", lambda number: 0.01)), lists_of(7)
    for _ in range(5):
        core.start_epoch(*PLACE)
        for rows in lists[:9]:
            core.submit(rows)
        core.next(60.0)
    equal(run(core, lists), expected(lists))


def test_late_batches_time_out_and_still_come(cores):
    core = cores(pace_s=0.3)
    core.start_epoch(*PLACE)
    core.submit([1])
    with pytest.raises(TimeoutError) as late:
        core.next(0.05)
    assert late.value.errno is None
    assert core.next(60.0)[0][1].tolist() == [1]


def test_skipping_counts_occurrences_as_submitting_does(cores):
    core, lists = cores(), lists_of(8)
    core.start_epoch(*PLACE)
    core.skip(lists[:5].reshape(-1))
    core.submit(lists[5])
    equal([core.next(60.0)[0]], expected(lists)[5:6])


def test_close_wakes_the_consumer(cores):
    core = cores(pace_s=0.5)
    core.start_epoch(*PLACE)
    core.submit([1])
    answer = Future()
    consumer = threading.Thread(target=lambda: answer.set_result(core.next()))
    consumer.start()
    core.close()
    consumer.join(60)
    assert answer.result(0) is None


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16, torch.float16])
def test_blocks_carry_each_dtype(dtype):
    made = [torch.rand(3, 2, 4).to(dtype), torch.rand(3, 1).to(dtype)], torch.arange(3)
    again = from_blocks(as_blocks(made), Landing(False))
    assert difference(made, again) is None
    again[0][1][2] += 1
    assert "first in row 2" in difference(made, again)


def test_local_lanes_make_batches_side_by_side(cores):
    core, lists = cores(pace_s=0.02, lanes=4), lists_of(11)
    equal(run(core, lists), expected(lists))
    assert core._maker.most == 4
    assert core.stats()["remote"]["local"] == BATCHES


def test_members_that_nobody_waits_for_are_left_alone(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(
        "millrace._loader.remote.courier.time", types.SimpleNamespace(monotonic=lambda: now[0])
    )
    members = [FakeMember(name, right) for name in "abcd"]
    couriers = [Courier(None, FakePool(*members, as_needed=needed), {}, "system") for needed in (True, False)]
    for courier in couriers:
        courier._ready = members

    def working(steps, waited):
        for _ in range(steps):
            now[0] += 0.1
            for courier in couriers:
                courier.delivered(waited)
        return [courier.stats()["working"] for courier in couriers]

    assert working(16, 0.0) == [3, 4]
    assert working(64, 0.0) == [0, 4]
    assert working(16, 0.002) == [0, 4], "2 % is not worth it"
    assert working(16, 0.05) == [1, 4]
    assert working(16, 0.05) == [2, 4]
    assert working(160, 0.05) == [4, 4]
    assert working(16, 0.001) == [4, 4], "between the two nothing changes"


def test_batches_that_nobody_can_repeat_are_taken(cores):
    core, lists = cores(FakeMember("a", lambda number: "wrong"), pace_s=0.01), lists_of(13)
    core._maker.moves = True
    with pytest.warns(RuntimeWarning, match="made twice"):
        run(core, lists)
        assert wait_until(lambda: core.stats()["remote"]["checked"])
    assert core.stats()["remote"]["expelled"] == {}


def test_after_the_pools_end_local_threads_make_the_rest(cores):
    member = FakeMember("a", lambda number: 0.05)
    core, lists = cores(member, pace_s=0.01), lists_of(14)
    core.start_epoch(*PLACE)
    for rows in lists:
        core.submit(rows)
    first = [core.next(60.0)[0] for _ in range(5)]
    core._courier._pool.lives = False
    equal(first + [core.next(60.0)[0] for _ in range(BATCHES - 5)], expected(lists))
    core._threads[-1].join(60)
    assert not core._threads[-1].is_alive() and core.stats()["remote"]["workers"] == 0


class Thorn:
    def __reduce__(self):
        return _stings, ()


def _stings():
    raise RuntimeError("not here")


def test_what_cannot_be_unpickled_here_is_made_here(cores):
    member = FakeMember("a", right)
    member.make = lambda work, deed: {"blocks": as_blocks(Thorn()), "seconds": 0.0}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        core, lists = cores(member, pace_s=0.01), lists_of(15)
        equal(run(core, lists), expected(lists))
        assert wait_until(lambda: member.expelled)
    assert "RuntimeError: not here" in str(heard[0].message)
