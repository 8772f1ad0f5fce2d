"""A collate_fn of the script's own behind native decoding: what it draws, resuming and errors."""

import random
import traceback

import millrace
import numpy as np
import pytest
import torch
from loader_data import generator_states
from test_python_collate import WORKERS, closure, dataset, drawing, drawing_mix, root, same, untouched  # noqa: F401
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import default_collate


def test_without_workers_draws_are_torchs(dataset):
    results = []
    for cls in (millrace.DataLoader, TorchLoader):
        each = cls(dataset, 4, collate_fn=drawing, shuffle=True)
        torch.manual_seed(5), random.seed(5), np.random.seed(5)
        results.append((list(each), generator_states()))
    assert same(results[0][0], results[1][0]) and results[0][1] == results[1][1]


def test_workers_have_generators_of_their_own(dataset):
    def run(workers, **options):
        torch.manual_seed(5), random.seed(5), np.random.seed(5)
        return list(
            millrace.DataLoader(
                dataset, 4, collate_fn=drawing, num_workers=workers, shuffle=True, native="require", **options
            )
        )

    def states(collate_fn):
        torch.manual_seed(6), random.seed(6), np.random.seed(6)
        list(millrace.DataLoader(dataset, 4, collate_fn=collate_fn, num_workers=2, shuffle=True))
        return generator_states()

    assert states(drawing) == states(
        default_collate
    )  # the training loop's go on as if nothing had been drawn
    one = run(1)
    assert same(run(2, prefetch_factor=5), one)  # for any number of threads
    assert (
        len({batch[1] for batch in one})
        == len({float(batch[0][0]) for batch in one})
        == len({batch[2] for batch in one})
        == len(one)
    )
    persistent = millrace.DataLoader(
        dataset, 4, collate_fn=drawing, num_workers=2, persistent_workers=True, native="require"
    )
    assert [batch[1] for batch in persistent] != [batch[1] for batch in persistent]


@pytest.mark.parametrize("collate_fn", [drawing, closure(drawing_mix)])
@pytest.mark.parametrize("workers", WORKERS)
def test_resumed_and_replayed_batches(dataset, workers, collate_fn):
    options = {"collate_fn": collate_fn, "num_workers": workers, "shuffle": True, "native": "require"}
    loader = millrace.DataLoader(dataset, 4, **options)
    torch.manual_seed(8), random.seed(8), np.random.seed(8)
    batches, iterator = [], iter(loader)
    for step in range(6):
        if step == 3:
            state = loader.state_dict()
        batches.append(next(iterator))
    for step in (0, 2, 5):
        assert same(loader.replay(step), batches[step])
        assert same(millrace.replay(loader, state, step), batches[step]) or workers == 0
    assert "approximate" not in loader.seen(2)
    if workers:
        resumed = millrace.DataLoader(dataset, 4, **options)
        resumed.load_state_dict(state)
        assert same(list(resumed), batches[3:])


def test_batches_that_wait_in_a_prefetcher_draw_as_those_that_do_not(dataset):
    found = []
    for held in (0, 3):
        torch.manual_seed(9)
        loader = millrace.DataLoader(dataset, 4, collate_fn=drawing, num_workers=2, native="require")
        iterator = iter(loader)
        if held:
            loader._millrace_progress.hold(held)  # as prefetch_to_device= does
        found.append([next(iterator) for _ in range(5)])
    assert same(*found)


def test_replay_of_later_epochs(dataset):
    history = millrace.BatchHistory(hashes=True)
    loader = millrace.DataLoader(
        dataset, 4, True, collate_fn=drawing, num_workers=2, persistent_workers=True, history=history
    )
    epochs = [list(loader), list(loader)]
    for number, batches in enumerate(epochs):
        assert same(loader.replay(4, number), batches[4])


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("form", ["samples", "batch"])
def test_errors_come_at_their_batch_with_the_traceback(dataset, workers, form):
    def fail_of_three(images, labels):
        if 4 in labels.tolist():
            raise ZeroDivisionError("in the fourth")
        return images, labels

    collate_fn = (
        closure(fail_of_three)
        if form == "batch"
        else lambda batch: list(fail_of_three(*default_collate(list(batch))))
    )
    before = generator_states()
    iterator = iter(
        millrace.DataLoader(dataset, 4, num_workers=workers, collate_fn=collate_fn, native="require")
    )
    assert next(iterator)[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(ZeroDivisionError, match="in the fourth") as raised:
        next(iterator)
    assert "fail_of_three" in "".join(traceback.format_exception(raised.value))
    assert next(iterator)[1].tolist() == [8, 9, 10, 11]  # as torch's
    assert generator_states()[1:] == before[1:]


def test_batches_may_be_kept(dataset):
    """Rows are views of slots, which are not used again while a sample lives."""
    batches = list(millrace.DataLoader(dataset, 2, num_workers=2, collate_fn=untouched, native="require"))
    for batch, expected in zip(batches, TorchLoader(dataset, 2, collate_fn=untouched), strict=True):
        assert same(batch, expected)
