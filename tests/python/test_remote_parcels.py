"""Parcels: a trainer reads what the actor wrote for that ticket, in whatever order tasks are worked on."""

import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest
from millrace._loader.remote import parcels
from millrace._loader.remote.parcels import NEVER, Address, Inbox, Outbox, Tickets, Unreadable, this_machine
from open_files import open_files

pytestmark = pytest.mark.skipif(this_machine() is None, reason="this system has no such files")
HERE = parcels.this_process()


def arrays_of(ticket, sizes=(100, 0, 3, 70_000)):
    return [np.full(size, ticket % 251, np.uint8) for size in sizes]


def same(got, ticket, sizes=(100, 0, 3, 70_000)):
    return [array.tolist() for array in got] == [array.tolist() for array in arrays_of(ticket, sizes)]


def address(ticket, waiting=(), of=HERE, least=1):
    return Address(of, ticket, tuple(waiting), least)


def program():
    """Another process, and what it is as a trainer."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    return child, (child.pid, parcels._started(child.pid), b"another ")


def slots(outbox):
    return len(outbox._slots)


def test_what_is_written_is_read():
    outbox, inbox = Outbox(), Inbox()
    for ticket in range(1, 30):
        parcel = outbox.put(address(ticket), arrays_of(ticket))
        assert same(inbox.arrays(parcel), ticket)
    assert slots(outbox) == 1


def test_slots_that_are_waited_for_stay():
    outbox, inbox, waiting = Outbox(), Inbox(), {}
    for ticket in range(1, 6):
        waiting[ticket] = outbox.put(address(ticket, waiting), arrays_of(ticket))
    assert slots(outbox) == 5
    for ticket, parcel in waiting.items():
        assert same(inbox.arrays(parcel), ticket)
    outbox.put(address(6, [2, 4]), arrays_of(6))
    assert slots(outbox) == 5
    assert same(inbox.arrays(waiting[2]), 2) and same(inbox.arrays(waiting[4]), 4)


def test_an_earlier_task_that_is_worked_on_later_frees_nothing_of_a_later_one():
    outbox, inbox = Outbox(), Inbox()
    later = outbox.put(address(2, [1]), arrays_of(2))
    first = outbox.put(address(1), arrays_of(1))
    assert same(inbox.arrays(later), 2) and same(inbox.arrays(first), 1)


def test_a_slot_that_is_being_written_has_no_other_writer(monkeypatch):
    outbox, entered, go_on = Outbox(), threading.Event(), threading.Event()
    copy = parcels._core.copy_field

    def slow(source, target):
        if source.size == 100 and source[0] == 1:
            entered.set()
            go_on.wait(10)
        copy(source, target)

    monkeypatch.setattr(parcels._core, "copy_field", slow)
    writer = threading.Thread(target=outbox.put, args=(address(1), arrays_of(1)))
    writer.start()
    entered.wait(10)
    parcel = outbox.put(address(3), arrays_of(3))  # 1 is lost, and its actor still works on it
    go_on.set()
    writer.join()
    assert slots(outbox) == 2 and same(Inbox().arrays(parcel), 3)


def test_trainers_have_slots_of_their_own():
    outbox, inbox, (child, theirs) = Outbox(), Inbox(), program()
    mine = outbox.put(address(1), arrays_of(1))
    others = outbox.put(address(5, of=theirs), arrays_of(5))
    assert same(inbox.arrays(mine), 1) and same(inbox.arrays(others), 5)
    child.communicate()


def test_tickets_of_a_process_are_one_row():
    """So the next task of any of its loaders frees what another has left behind."""
    tickets, outbox = Tickets(), Outbox()
    for _ in range(40):  # loaders, each of which leaves its last batch where it is
        first, second = tickets.take(HERE, 1), tickets.take(HERE, 1)
        assert first.ticket in second.waiting
        for taken in (first, second):
            assert outbox.put(taken, arrays_of(taken.ticket)) is not None
            tickets.ended(taken.ticket)
    assert slots(outbox) == 2
    assert (
        outbox.put(tickets.take(HERE, NEVER), arrays_of(1)) is None
    )  # of one that opens no parcels any more
    assert all(slot.owner is None for slot in outbox._slots)


def test_slots_of_trainers_that_have_ended_are_used_again(monkeypatch):
    monkeypatch.setattr(parcels, "_MOST_SLOTS", 3)
    outbox, (child, theirs) = Outbox(), program()
    for ticket in (1, 2, 3):
        assert outbox.put(address(ticket, range(ticket), of=theirs), arrays_of(ticket)) is not None
    assert outbox.put(address(1), arrays_of(1)) is None  # through Ray's store, then
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # has ended, though nobody has asked for it
    parcel = outbox.put(address(2), arrays_of(2))
    assert same(Inbox().arrays(parcel), 2) and slots(outbox) == 3
    child.wait()


def test_a_trainer_of_which_nothing_is_known_keeps_its_slots(monkeypatch):
    monkeypatch.setattr(parcels, "_MOST_SLOTS", 3)
    outbox, inbox, (child, theirs) = Outbox(), Inbox(), program()
    waiting = {
        ticket: outbox.put(address(ticket, range(ticket), of=theirs), arrays_of(ticket))
        for ticket in (1, 2, 3)
    }

    def refused(pid):
        raise OSError("too many open files")

    monkeypatch.setattr(parcels, "_started", refused)
    for ticket in (1, 2, 3, 4):
        assert outbox.put(address(ticket), arrays_of(ticket)) is None
    assert all(same(inbox.arrays(parcel), ticket) for ticket, parcel in waiting.items())
    child.communicate()


def test_a_trainer_that_cannot_be_seen_gets_no_parcels():
    child, (pid, started, image) = program()
    for unseen in ((pid, started + 1, image), (2**22 + 1, started, image)):
        assert Outbox().put(address(1, of=unseen), arrays_of(1)) is None
    child.communicate()


def test_batches_of_nearly_one_size_share_slots():
    outbox, chance = Outbox(), random.Random(1)
    for ticket in range(1, 500):
        sizes = (max(1, int(chance.gauss(200_000, 15_000))),)
        assert outbox.put(address(ticket), arrays_of(ticket, sizes)) is not None
    assert slots(outbox) == 1


def test_batches_of_other_sizes_get_slots_that_fit(monkeypatch):
    monkeypatch.setattr(parcels, "_MOST_SLOTS", 3)
    outbox, inbox = Outbox(), Inbox()
    before = open_files("millrace-parcel")
    for ticket in range(1, 200):
        sizes = (random.Random(ticket).choice([1, 1000, 10_000, 200_000, 3_000_000]),)
        parcel = outbox.put(address(ticket), arrays_of(ticket, sizes))
        assert same(inbox.arrays(parcel), ticket, sizes)
        assert slots(outbox) <= 3
    assert len(open_files("millrace-parcel") - before) <= 3 * 3  # of a slot, and of each mapping


def test_what_is_copied_while_it_changes_is_not_confirmed():
    outbox, inbox = Outbox(), Inbox()
    parcel = outbox.put(address(1), arrays_of(1))
    inbox.arrays(parcel)
    inbox.confirm(parcel)
    outbox.put(address(2), arrays_of(2))
    with pytest.raises(Unreadable):
        inbox.confirm(parcel)


def test_what_cannot_be_opened_says_so():
    outbox, inbox = Outbox(), Inbox()
    parcel = outbox.put(address(1), arrays_of(1))
    with pytest.raises(Unreadable):
        inbox.arrays(parcel._replace(stamp=b"x" * 16))
    for wrong in ({"slot": b"x" * 16}, {"descriptor": 9999}, {"pid": 2**22 + 1}, {"descriptor": 0}):
        with pytest.raises(Unreadable):
            Inbox().arrays(parcel._replace(**wrong))
    with pytest.raises(Unreadable):
        Inbox().arrays(parcel._replace(places=[(64, 10**9)]))
    outbox.put(address(2), arrays_of(2))
    with pytest.raises(Unreadable):
        inbox.arrays(parcel)  # its slot has been given away


_ACTOR = """
import os, sys, numpy as np
from millrace._loader.remote import parcels
trainer = os.getppid(), parcels._started(os.getppid()), b"a program"
parcel = parcels.Outbox().put(parcels.Address(trainer, 1, (), 1), [np.arange(200_000).astype(np.uint8)])
print(repr(tuple(parcel)), flush=True)
input()
"""


def test_another_processs_parcel_outlives_it_once_it_was_opened():
    actor = subprocess.Popen(
        [sys.executable, "-c", _ACTOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    parcel = parcels.Parcel(*eval(actor.stdout.readline()))
    inbox = Inbox()
    (array,) = inbox.arrays(parcel)
    assert not array.flags.writeable
    actor.communicate("\n")
    assert (array == np.arange(200_000).astype(np.uint8)).all() and (inbox.arrays(parcel)[0] == array).all()
    with pytest.raises(Unreadable):
        Inbox().arrays(parcel)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_tasks_answers_and_losses(seed):
    """Threads of an actor work in any order; some answers are lost, and their tasks done all the same."""
    chance, outbox, inbox = random.Random(seed), Outbox(), Inbox()
    lock, waiting, tickets, read = threading.Lock(), {}, iter(range(1, 10**6)), [0]

    def lane():
        for _ in range(150):
            with lock:
                ticket = next(tickets)
                to = address(ticket, [*waiting])
                waiting[ticket] = None
                lost, size = chance.random() < 0.2, (chance.choice([5000, 9000, 20_000]),)
                if lost:
                    del waiting[ticket]
            parcel = outbox.put(to, arrays_of(ticket, size))
            if not lost and parcel is not None:
                with lock:
                    assert same(inbox.arrays(parcel), ticket, size)
                    read[0] += 1
                    del waiting[ticket]
            elif not lost:
                with lock:
                    del waiting[ticket]

    failures = []

    def guarded():
        try:
            lane()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and read[0] > 300
