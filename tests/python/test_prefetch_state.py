"""DataLoader(device=...): the state is that of the batch the loop has, however many are ahead."""

import json
import random

import millrace
import numpy as np
import process_data
import pytest
import torch
from fake_device import fake  # noqa: F401
from loader_data import advanced, going_on
from thinned import thinned
from torch.utils.data import Dataset, IterableDataset, TensorDataset


class Squares(Dataset):
    def __len__(self):
        return 23

    def __getitem__(self, index):
        return index * index


class Remembering(Squares):
    """A Stateful dataset: it counts what it gave."""

    def __init__(self):
        self.given = 0

    def __getitem__(self, index):
        self.given += 1
        return index * index, self.given

    def state_dict(self):
        return {"given": self.given}

    def load_state_dict(self, state):
        self.given = state["given"]


class Stream(IterableDataset):
    def __init__(self):
        self.at = 0

    def __iter__(self):
        while self.at < 20:
            self.at += 1
            yield self.at
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


DATASETS = {
    "native": lambda: TensorDataset(torch.arange(23), torch.arange(69.0).reshape(23, 3)),
    "python": Squares,
    "stateful": Remembering,
    "stream": Stream,
    "noisy": process_data.Noisy,
}
ARGUMENTS = [{}, {"prefetch_to_device": 4}, {"snapshot_every_n_steps": 3}]


def plain(batch):
    batch = list(batch.values()) if isinstance(batch, dict) else batch
    return [
        part.tolist() if isinstance(part, torch.Tensor) else part
        for part in (batch if isinstance(batch, (list, tuple)) else [batch])
    ]


def walk(make, epochs=2, stop_after=None):
    """(batches, states behind each of them)"""
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    loader, seen = make(), []
    for _ in range(epochs):
        for step, batch in enumerate(loader):
            seen.append((plain(batch), json.loads(json.dumps(loader.state_dict(), default=str))))
            if step == stop_after:
                break
        seen.append(json.loads(json.dumps(loader.state_dict(), default=str)))
    return seen


def without_ends(seen):
    states = [entry[1] if isinstance(entry, tuple) else entry for entry in seen]
    batches = [entry[0] for entry in seen if isinstance(entry, tuple)]
    return batches, [
        (s["_snapshot"]["_snapshot_step"], s["_steps_since_snapshot"], s["_iterator_finished"])
        for s in states
    ]


def maker(kind, workers, persistent, arguments, device):
    def make():
        dataset = DATASETS[kind]()
        shuffle = not isinstance(dataset, IterableDataset)
        prefetch = arguments.get("prefetch_to_device", 2)
        rest = {key: value for key, value in arguments.items() if key != "prefetch_to_device"}
        rest |= {"num_workers": workers, "persistent_workers": persistent}
        return millrace.DataLoader(
            dataset, 4, shuffle=shuffle, device=device, prefetch_to_device=prefetch, **rest
        )

    return make


@thinned(3, arguments=ARGUMENTS, workers_persistent=[(0, False), (2, False), (2, True)], kind=[*DATASETS])
def test_batches_and_states_are_those_without_a_device(kind, workers_persistent, arguments, fake):
    workers, persistent = workers_persistent
    there, here = (walk(maker(kind, workers, persistent, arguments, device)) for device in ("cuda", None))
    # that a worker has no more may be known a step sooner, which is another way to say the same
    if kind == "stream" and workers > 0:
        there, here = without_ends(there), without_ends(here)
    assert there == here


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", ["native", "python"])
def test_epochs_that_are_left_early(kind, persistent, fake):
    made = [walk(maker(kind, 2, persistent, {}, device), epochs=3, stop_after=2) for device in ("cuda", None)]
    assert made[0] == made[1]


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["native", "python", "stateful", "stream"])
def test_a_run_goes_on_where_its_state_was_taken(kind, workers, steps, fake):
    make = maker(kind, workers, False, {"prefetch_to_device": 3}, "cuda")
    torch.manual_seed(3)
    loader = make()
    iterator = advanced(loader, steps)
    state, rest = loader.state_dict(), [plain(batch) for batch in iterator]
    again = going_on(make(), state)
    assert [plain(batch) for batch in again] == rest and rest


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", ["native", "python", "stateful"])
def test_a_prefetcher_around_a_loader_has_its_states(kind, persistent, fake):
    """As the loader's own device= has them; by the prefetcher's methods, or the loader's."""
    seen = []
    for wrap in (millrace.DevicePrefetcher, lambda loader: loader):
        torch.manual_seed(3)
        loader = maker(kind, 2, persistent, {}, None)()
        batches = wrap(loader)
        states = [
            (plain(batch), batches.state_dict(), loader.state_dict()) for _ in range(2) for batch in batches
        ]
        assert all(one == other for _, one, other in states)
        seen.append([(batch, state) for batch, state, _ in states])
    assert seen[0] == seen[1]
    again = going_on(millrace.DevicePrefetcher(maker(kind, 2, persistent, {}, None)()), seen[0][2][1])
    assert [plain(batch) for batch in again] == [batch for batch, _ in seen[0][3:6]]


def test_a_prefetcher_around_another_loader_has_no_states(fake):
    with pytest.raises(AttributeError, match="only a millrace.DataLoader knows"):
        millrace.DevicePrefetcher(torch.utils.data.DataLoader(Squares())).state_dict()


def test_errors_keep_the_count(fake):
    make = lambda device: millrace.DataLoader(process_data.Failing("raise"), 2, num_workers=2, device=device)  # noqa: E731
    states = []
    for device in ("cuda", None):
        loader, seen = make(device), []
        iterator = iter(loader)
        for _ in range(4):
            try:
                next(iterator)
            except StopIteration:
                break
            except Exception as error:
                seen.append(type(error).__name__)
            seen.append(loader.state_dict()["_snapshot"]["_snapshot_step"])
        states.append(seen)
    assert states[0] == states[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, and pages can be locked for it")
def test_a_ring_that_cannot_be_locked_is_one_warning_and_no_loss(fake, monkeypatch):
    monkeypatch.setattr(millrace._loader.engines.worker_end, "locks_for", lambda loader: 0)
    monkeypatch.setattr(millrace._loader.engines.worker_end, "numa_node", lambda device: 0)
    loader = millrace.DataLoader(Squares(), 4, num_workers=2, device="cuda")
    with pytest.warns(UserWarning, match="could not be page-locked: .*(driver|device|CUDA)") as seen:
        assert [plain(batch) for batch in loader] == [
            [[i * i for i in range(b, min(b + 4, 23))]] for b in range(0, 23, 4)
        ]
    assert len([w for w in seen if "page-locked" in str(w.message)]) == 1


class Holed(Squares):
    def __getitem__(self, index):
        if index % 5 == 2 or index >= 21:
            raise ValueError(index)
        return index


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("on_error", ["skip", "replace"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_states_with_samples_left_out(drop_last, on_error, workers, fake):
    def make(device):
        return millrace.DataLoader(
            Holed(),
            1,
            num_workers=workers,
            on_error=on_error,
            drop_last=drop_last,
            device=device,
            prefetch_to_device=3,
        )

    assert walk(lambda: make("cuda")) == walk(lambda: make(None))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("steps", ["pad", "repeat"])
def test_states_with_lists_that_come_again(steps, workers, fake, monkeypatch):
    """A rank with two lists of its own where all take seven: what is only drawn ahead is in no state."""
    monkeypatch.setattr(millrace._loader.states.progress, "agreed_steps", lambda *_: 7)

    def make(device=None):
        dataset = TensorDataset(torch.arange(4))
        return millrace.DataLoader(
            dataset,
            2,
            shuffle=True,
            num_workers=workers,
            equal_steps=steps,
            device=device,
            prefetch_to_device=4,
        )

    there, here = walk(lambda: make("cuda"), epochs=1), walk(make, epochs=1)
    assert there == here
    batches = [batch for batch, _ in here[:-1]]
    assert len(batches) == 7
    for done, (_, state) in enumerate(here[:-1], 1):
        again = going_on(make(), state)
        assert [plain(batch) for batch in again] == batches[done:]
