"""RemoteCore under makers, datasets and filters that raise anywhere: no hang, no batch lost."""

import gc
import time
import warnings
import weakref

import numpy as np
import pytest
import torch
from millrace._loader.engines.core import NotInTime
from millrace._loader.engines.epoch_keys import EpochKeys
from millrace._loader.remote.actor import BatchMaker
from millrace._loader.remote.blocks import as_blocks
from millrace._loader.remote.core import RemoteCore
from millrace._loader.remote.maker import RowsAlone
from remote_fakes import LENGTH, PLACE, FakeMaker, FakeMember, FakePool, right

LISTS = np.arange(40).reshape(10, 4)


def core_of(maker, *members):
    return RemoteCore(maker, EpochKeys(LENGTH), FakePool(*members), "system")


def whole(core):
    core.start_epoch(*PLACE)
    for rows in LISTS:
        core.submit(rows)
    made = []
    for _ in LISTS:
        try:
            made.append(core.next(60.0)[0])
        except BaseException as error:
            made.append(error)
    return made


class Concatenated(FakeMaker):
    """A batch has more rows than samples; which differ behind the samples'."""

    rows_to_check = None

    def make(self, work):
        super().make(work)
        return torch.arange(100) + work.rows[0]


def falsified(work, deed):
    made = torch.arange(100) + work.rows[0]
    made[57] += 1
    return {"blocks": as_blocks(made), "seconds": 0.0}


@pytest.mark.parametrize("filter", ["always", "error"])
def test_batches_with_other_rows_than_samples_are_compared(filter, capsys):
    member = FakeMember("a", right)
    member.make = falsified
    with warnings.catch_warnings(record=filter == "always"):
        warnings.simplefilter(filter)
        core = core_of(Concatenated(0.02), member)
        made = [batch for _ in range(3) for batch in whole(core)]
        core.close()
    assert all(torch.equal(batch, torch.arange(100) + 4 * (n % 10)) for n, batch in enumerate(made))
    assert "a batch (" in member.expelled and "row 57" in member.expelled
    if filter == "error":
        assert "row 57" in capsys.readouterr().err


def test_what_cannot_be_compared_is_made_here():
    class Odd(FakeMaker):
        rows_to_check = 2

        def first(self, made, count):
            raise ZeroDivisionError("no rows")

    member = FakeMember("a", right)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = core_of(Odd(0.02), member)
        made = [batch for _ in range(3) for batch in whole(core)]
        core.close()
    assert all(batch[1].tolist() == LISTS[n % 10].tolist() for n, batch in enumerate(made))
    assert "cannot be compared" in member.expelled


@pytest.mark.parametrize("error", [SystemExit("ends"), KeyboardInterrupt(), TimeoutError("of a socket")])
def test_whatever_a_maker_raises_stands_in_its_batchs_place(error):
    class Raising(FakeMaker):
        def make(self, work):
            if work.rows[0] == 8:
                raise error
            return super().make(work)

    core = core_of(Raising())
    made = whole(core)
    core.close()
    assert made[2] is error and not isinstance(error, NotInTime)
    assert [batch[1].tolist() for batch in made[:2] + made[3:]] == np.delete(LISTS, 2, 0).tolist()


def test_a_delivered_batch_is_the_consumers_alone():
    core = core_of(FakeMaker())
    gc.disable()
    try:
        made = whole(core)
        refs = [weakref.ref(batch[0]) for batch in made]
        del made
        assert not any(ref() is not None for ref in refs)
    finally:
        gc.enable()
        core.close()


class CountingMaker(FakeMaker):
    closed = 0

    def close(self):
        CountingMaker.closed += 1


def test_an_actor_lets_old_recipes_go(monkeypatch):
    worker = BatchMaker(1)
    monkeypatch.setattr(worker, "_made", lambda recipe: CountingMaker())
    for key in "abcdef":
        assert worker.hello(key, b"", "")["facts"] == {"millrace": "1"}
    assert list(worker._benches) == list("cdef") and CountingMaker.closed == 2
    with pytest.raises(KeyError):
        worker.make("a", (PLACE, LISTS[0], None))
    assert "blocks" in worker.make("c", (PLACE, LISTS[0], None))
    worker.hello("g", b"", "")
    assert list(worker._benches) == list("efcg"), "those used last stay"


def test_an_actor_that_works_is_not_idle(monkeypatch):
    ended = []
    monkeypatch.setattr(BatchMaker, "end", lambda self: ended.append(1))
    worker = BatchMaker(1, idle_s=0.2)
    monkeypatch.setattr(worker, "_made", lambda recipe: FakeMaker(pace_s=1.0))
    worker.hello("a", b"", "")
    worker.make("a", (PLACE, LISTS[0], None))
    assert not ended
    for _ in range(100):
        if ended:
            break
        time.sleep(0.1)
    assert ended


def test_keys_of_whole_batches_are_their_rows():
    keys = RowsAlone()
    rows, occurrences = keys.of([1, 1])
    assert rows == [1, 1] and occurrences is None
