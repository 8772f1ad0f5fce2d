"""on_error="skip" over Python datasets: the native engine's rule, whatever makes the batches."""

import os
import random
import signal
import time

import millrace
import numpy as np
import pytest
import torch
from loader_data import make_folder, pictures
from millrace._loader.engines.backfill import Backfill, Positions, Skipped, failure
from torch.utils.data import BatchSampler, Dataset, IterableDataset, RandomSampler

HOW = [
    (0, "auto"),
    (1, "process"),
    (2, "process"),
    (4, "process"),
    (1, "thread"),
    (2, "thread"),
    (4, "thread"),
]


class Odd(Dataset):
    """Samples are their indices; those in `failing` raise."""

    def __init__(self, length, failing, delay=0.0):
        self.length, self.failing, self.delay = length, set(failing), delay

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.delay * (index % 3))
        if index in self.failing:
            raise KeyError(index) if index % 2 else StopIteration
        return {"index": index, "x": torch.full((3,), float(index))}


def rule(lists, failing, drop_last=False):
    """(batches, indices tried in vain) by the rule as it is written, one hole behind the other."""
    sizes, lists, batches, errors = list(map(len, lists)), [list(rows) for rows in lists], [], []
    for number, rows in enumerate(lists):
        hole = 0
        while hole < len(rows):
            while rows[hole] in failing:
                errors.append(rows[hole])
                behind = next((later for later in reversed(lists[number + 1 :]) if later), None)
                if behind is None and len(rows) - 1 == hole:
                    del rows[hole]
                    break
                rows[hole] = (rows if behind is None else behind).pop()
            hole += 1
        if not rows or (drop_last and len(rows) < sizes[number]):
            break
        batches.append(list(rows))
    return batches, sorted(errors)


def epoch(loader):
    """All batches; an epoch without any is an error that comes once."""
    iterator, batches = iter(loader), []
    try:
        batches += iterator
    except millrace.CorruptDataError as error:
        assert batches == []
        assert "none of this epoch's samples can be had; the last one, dataset[" in str(error)
        assert list(iterator) == []
    else:
        assert batches or loader.drop_last
    return batches


def listed(loader):
    stats = loader.stats()
    assert stats["left_out"] == len(stats["errors"])
    return sorted(error["index"] for error in stats["errors"])


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_the_policy_follows_the_rule_however_much_is_made_ahead(ahead):
    draw = random.Random(ahead)
    for _ in range(2000):
        count, size = draw.randrange(1, 20), draw.randrange(1, 6)
        failing = set(draw.sample(range(count), draw.randrange(count + 1)))
        lists = [list(range(count))[at : at + size] for at in range(0, count, size)]
        positions, made, batches, errors = Positions(lists), [], [], []

        def fetch(rows, failing=failing):
            bad = {row: failure(index, KeyError()) for row, index in enumerate(rows) if index in failing}
            return Skipped(bad) if bad else list(rows)

        def make_ahead(positions=positions, made=made, fetch=fetch):
            while len(made) < ahead:
                number = positions.given
                rows = next(positions, None)
                if rows is None:
                    return
                made.append((number, fetch(rows)))

        make_ahead()
        while made:
            number, value = made.pop(0)
            backfill = Backfill(positions, number)
            while backfill.is_unfinished(value, errors):
                value = fetch(backfill.rows)
            if backfill.rows:
                batches.append(value)
            try:
                backfill.end()
            except millrace.CorruptDataError:
                assert failing == set(range(count))
            make_ahead()
        assert (batches, sorted(error["index"] for error in errors)) == rule(lists, failing), (lists, failing)


@pytest.mark.parametrize("workers, method", HOW)
def test_all_ways_of_working_follow_the_rule(workers, method):
    draw = random.Random(5)
    for round in range(3 if method == "process" else 8):
        count, size, drop_last = draw.randrange(1, 40), draw.randrange(1, 7), round % 3 == 1
        failing = set(draw.sample(range(count), draw.randrange(count + 1) // (1 + round % 3)))
        loader = millrace.DataLoader(
            Odd(count, failing),
            size,
            sampler=(order := draw.sample(range(count), count)),
            drop_last=drop_last,
            num_workers=workers,
            worker_method=method,
            on_error="skip",
        )
        lists = list(BatchSampler(order, size, drop_last))
        batches = [batch["index"].tolist() for batch in epoch(loader)]
        assert (batches, listed(loader)) == rule(lists, failing, drop_last)
        assert loader.stats()["samples"] == sum(map(len, batches))
        assert loader.stats()["batches"] == len(batches)


@pytest.mark.parametrize("workers, method", [(0, "auto"), (2, "process"), (2, "thread")])
def test_the_same_as_the_native_engine(workers, method, tmp_path):
    paths = make_folder(tmp_path, 33)
    draw = random.Random(1)
    for broken in ([1, 6], [32, 31, 5, 4], draw.sample(range(33), 12)):
        for path in broken:
            os.truncate(paths[path], 10)
        seen = []
        for native in ("require", "never"):
            loader = millrace.DataLoader(
                pictures(str(tmp_path)),
                4,
                num_workers=workers,
                worker_method=method,
                on_error="skip",
                native=native,
            )
            seen.append(([labels.tolist() for _, labels in loader], listed(loader)))
        assert seen[0] == seen[1]


@pytest.mark.parametrize("workers, method", [(0, "auto"), (2, "process"), (3, "thread")])
@pytest.mark.parametrize("persistent", [False, True])
def test_every_epoch_of_a_shuffled_loader(workers, method, persistent):
    failing = {3, 17, 18, 40}
    loader = millrace.DataLoader(
        Odd(41, failing), 4, shuffle=True, num_workers=workers, worker_method=method, on_error="skip",
        persistent_workers=persistent and workers > 0, generator=torch.Generator().manual_seed(2),
    )  # fmt: skip
    for _ in range(3):
        seen = [batch["index"].tolist() for batch in loader]
        flat = [index for batch in seen for index in batch]
        assert len(set(flat)) == len(flat) == 37 and set(flat) == set(range(41)) - failing
        assert [len(batch) for batch in seen] == [4] * 9 + [1]


@pytest.mark.parametrize("method", ["process", "thread"])
def test_batches_out_of_order_hold_every_readable_sample_once(method):
    failing = set(range(0, 90, 7))
    loader = millrace.DataLoader(
        Odd(90, failing, delay=0.002), 5, num_workers=3, worker_method=method, on_error="skip", in_order=False
    )
    seen = [batch["index"].tolist() for batch in loader]
    flat = [index for batch in seen for index in batch]
    assert len(set(flat)) == len(flat) and set(flat) <= set(range(90)) - failing
    assert set(flat) == set(range(90)) - failing and set(listed(loader)) == failing


@pytest.mark.parametrize("workers, method", HOW[:3] + HOW[-1:])
def test_nothing_readable_is_an_error(workers, method):
    loader = millrace.DataLoader(
        Odd(7, range(7)), 3, num_workers=workers, worker_method=method, on_error="skip"
    )
    with pytest.raises(
        millrace.CorruptDataError,
        match=r"none of this epoch's samples can be had; the last one, dataset\[\d\], raised",
    ):
        next(iter(loader))
    assert epoch(loader) == [] and listed(loader) == list(range(7))


@pytest.mark.parametrize("workers, method", HOW[:3] + HOW[-1:])
def test_indices_that_come_twice_and_keys_of_other_kinds(workers, method):
    loader = millrace.DataLoader(
        {"a": 1.0, "b": 2.0},
        batch_sampler=[("a", "?"), ["b", "a"], ["b"]],
        num_workers=workers,
        worker_method=method,
        on_error="skip",
    )
    assert [batch.tolist() for batch in loader] == [[1.0, 2.0], [2.0, 1.0]]
    assert [error["index"] for error in loader.stats()["errors"]] == ["?"]


def own_collate(samples):
    return [sample["index"] for sample in samples]


def failing_collate(samples):
    if any(sample["index"] == 5 for sample in samples):
        raise ValueError("not this one")
    return own_collate(samples)


@pytest.mark.parametrize("workers, method", HOW[:3] + HOW[-1:])
def test_collate_functions_see_whole_batches_and_may_fail(workers, method):
    def loader_of(collate):
        return millrace.DataLoader(
            Odd(10, {1}), 3, collate_fn=collate, num_workers=workers, worker_method=method, on_error="skip"
        )

    assert list(loader_of(own_collate)) == [[0, 9, 2], [3, 4, 5], [6, 7, 8]]
    iterator, seen = iter(loader_of(failing_collate)), []
    while True:
        try:
            seen.append(next(iterator))
        except StopIteration:
            break
        except ValueError:
            seen.append("failed")
    assert seen == [[0, 9, 2], "failed", [6, 7, 8]]


class Short(Odd):
    def __getitem__(self, index):
        if index == 2:
            raise MemoryError
        if index == 5:
            raise OSError(24, "Too many open files")
        return index


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("workers, method", HOW[:3] + HOW[-1:])
def test_want_of_memory_and_descriptors_is_no_fault_of_the_sample(workers, method, policy):
    iterator = iter(
        millrace.DataLoader(Short(8, ()), 2, num_workers=workers, worker_method=method, on_error=policy)
    )
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(MemoryError):
        next(iterator)
    with pytest.raises(OSError, match="Too many open files"):
        next(iterator)
    assert [batch.tolist() for batch in iterator] == [[6, 7]]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(4))


def test_what_has_no_other_index_is_refused():
    for loader in (
        millrace.DataLoader(Stream(), on_error="skip"),
        millrace.DataLoader([1, 2], batch_size=None, on_error="skip"),
    ):
        with pytest.raises(
            millrace.UnavailableError, match='on_error="skip" takes another index of a map-style dataset'
        ):
            iter(loader)


class Deadly(Odd):
    """Index 1 fails; what takes its place kills the worker, or keeps it waiting."""

    def __getitem__(self, index):
        if index == self.length - 1:
            if self.delay:
                time.sleep(self.delay)
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return {"index": index} if index != 1 else {}[index]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_worker_that_dies_while_it_mends_is_an_error():
    iterator = iter(millrace.DataLoader(Deadly(64, ()), 4, num_workers=2, on_error="skip", timeout=20))
    with pytest.raises(RuntimeError, match="DataLoader worker|killed by signal"):
        next(iterator)
    for _ in range(40):  # the other worker's batches are to be had, as with torch; then it ends
        try:
            next(iterator)
        except StopIteration:
            break
        except RuntimeError:
            pass
    else:
        raise AssertionError("it goes on for ever")


@pytest.mark.parametrize("method", ["process", "thread"])
def test_a_batch_that_times_out_while_it_is_mended_is_still_to_come(method):
    iterator = iter(
        millrace.DataLoader(
            Deadly(20, (), delay=1.0), 4, num_workers=2, worker_method=method, on_error="skip", timeout=0.3
        )
    )
    with pytest.raises(RuntimeError, match="timed out after 0.3 seconds"):
        next(iterator)
    iterator._timeout = 30
    assert [batch["index"].tolist() for batch in iterator] == [
        [0, 19, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18]
    ]  # fmt: skip


@pytest.mark.parametrize("workers, method", [(0, "auto"), (2, "process")])
def test_the_list_of_errors_ends_but_the_count_goes_on(workers, method):
    count = millrace._loader.engine.MOST_ERRORS + 500
    loader = millrace.DataLoader(
        Odd(count, range(count)), 100, num_workers=workers, worker_method=method, on_error="skip"
    )
    assert epoch(loader) == []
    stats = loader.stats()
    assert len(stats["errors"]) == millrace._loader.engine.MOST_ERRORS and stats["left_out"] == count


def test_a_sampler_is_drained_when_the_epoch_starts():
    drawn = []

    class Sampler(RandomSampler):
        def __iter__(self):
            for index in range(12):
                drawn.append(index)
                yield index

    dataset = Odd(12, ())
    iterator = iter(
        millrace.DataLoader(
            dataset, 2, sampler=Sampler(dataset), num_workers=1, worker_method="thread", on_error="skip"
        )
    )
    assert len(drawn) == 12
    assert np.concatenate([batch["index"] for batch in iterator]).tolist() == list(range(12))
