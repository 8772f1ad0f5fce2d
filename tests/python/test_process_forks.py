"""Processes that are forked while batches of worker processes are alive: they read what they inherited, for
as long as they live, and
the ring has everything back afterwards. tests/cpp/core/forked_slots_test.cpp has the cases one by one.
"""

import multiprocessing
import os
import subprocess
import time

import millrace
import pytest
import torch
from torch.utils.data import Dataset

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

ROW_BYTES = 24_000
BATCH = 4
WORKING_SET = 4  # batches on their way: prefetch_factor x num_workers + 2


class Rows(Dataset):
    """Each row holds its index everywhere."""

    def __init__(self, length=40_000):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.full((ROW_BYTES // 4,), float(index))


def loader(**kwargs):
    return millrace.DataLoader(Rows(), batch_size=BATCH, num_workers=1, **kwargs)


def holds(batch, number):
    expected = torch.arange(number * BATCH, (number + 1) * BATCH, dtype=torch.float32)
    return bool((batch == expected[:, None]).all())


def slots_back(iterator, number):
    """Batches are taken until nothing is held back: the number of the next one."""
    ring = iterator._engine.ring
    for number in range(number, number + 20):
        assert holds(next(iterator), number)
        if not ring.retired_slots:
            return number + 1
    raise AssertionError(f"{ring.retired_slots} slots are still held back")


def test_a_hundred_short_lived_children():
    data = loader()
    iterator = iter(data)
    ring, most = iterator._engine.ring, 0
    for number in range(100):
        batch = next(iterator)
        child = os.fork()
        if child == 0:
            os._exit(0 if holds(batch, number) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        most = max(most, ring.memory_bytes)
    del batch
    assert most < 4 * WORKING_SET * (BATCH * ROW_BYTES + 8192)
    slots_back(iterator, 100)
    assert data.stats()["overflow_slots"] == 0  # of which each would have been a copy


def _ask(pipe, batch, number):
    while pipe.recv():
        pipe.send(holds(batch, number))


def test_long_lived_children_keep_a_bounded_number_of_slots():
    data, context = loader(), multiprocessing.get_context("fork")
    iterator = iter(data)
    children = []
    for number in range(3 * WORKING_SET):
        batch = next(iterator)
        pipe, childs = context.Pipe()
        child = context.Process(target=_ask, args=(childs, batch, number), daemon=True)
        child.start()
        children.append((child, pipe))
        del batch
    for number in range(3 * WORKING_SET, 60):
        assert holds(next(iterator), number)
    ring = iterator._engine.ring
    assert ring.retired_slots <= 2 * WORKING_SET  # with what was on its way
    assert ring.memory_bytes < 4 * WORKING_SET * (BATCH * ROW_BYTES + 8192)
    assert data.stats()["overflow_slots"] > 0  # copied instead
    for child, pipe in children:
        pipe.send(True)
        assert pipe.poll(20) and pipe.recv()
        pipe.send(False)
        child.join()
    number = slots_back(iterator, 60)
    copied = data.stats()["overflow_slots"]
    for number in range(number, number + 10):
        assert holds(next(iterator), number)
    assert data.stats()["overflow_slots"] <= copied + WORKING_SET  # those that had been answered


def test_torchs_validation_loader_in_every_epoch():
    iterator = iter(loader())
    number = 0
    for _ in range(12):
        for _ in range(5):
            batch = next(iterator)
            number += 1
        assert len(list(torch.utils.data.DataLoader(list(range(4)), num_workers=2))) == 4
        assert holds(batch, number - 1)
    del batch
    slots_back(iterator, number)


def test_a_child_that_executes_a_program_that_lives_long():
    iterator = iter(loader())
    for number in range(10):
        batch = next(iterator)
        # A function to be called in the child means a fork(); without it, it is a vfork().
        with subprocess.Popen(["sleep", "100"], preexec_fn=os.getpid if number % 2 else None) as program:
            del batch
            slots_back_at = time.monotonic() + 60
            while (
                iterator._engine.ring.crowded(1000)
                and iterator._engine.ring.retired_slots
                and time.monotonic() < slots_back_at
            ):
                time.sleep(0.001)
            assert not iterator._engine.ring.retired_slots
            program.kill()
