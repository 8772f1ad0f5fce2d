"""worker_method="thread": what torch's process workers give, as far as threads can."""

import gc
import random
import threading
import time

import millrace
import numpy as np
import pytest
import torch
from loader_data import generator_states, next_in_the_end
from process_data import SAMPLES, Failing, Made, Restarted, Stream
from test_processes import walk
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, IterableDataset, get_worker_info

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "pt_data_worker"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    until = time.monotonic() + 60
    while threads() and time.monotonic() < until:
        time.sleep(0.01)
    assert not threads()
    assert get_worker_info() is None


# Without workers, default_collate widens where it stacks; with them, threads too, the first sample decides.
@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind != "two dtypes"])
def test_same_batches_as_without_workers(kind):
    with_threads = millrace.DataLoader(Made(kind), batch_size=4, num_workers=2, worker_method="thread")

    def errors_by_name(seen):
        return [
            item[0] if isinstance(item[1], str) and "Caught" in item[1] or len(item) == 3 else item
            for item in seen
        ]

    ours = walk(with_threads, 1, None)
    inline = walk(TorchLoader(Made(kind), batch_size=4), 1, None)
    assert errors_by_name(ours) == errors_by_name(inline)
    assert with_threads.stats()["engine"] == "threads"


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_order_draws_and_schedule_are_torchs(shuffle, persistent, workers):
    results = []
    for loader_class, more in ((TorchLoader, {}), (millrace.DataLoader, {"worker_method": "thread"})):
        torch.manual_seed(5), random.seed(5), np.random.seed(5)
        loader = loader_class(
            range(17),
            batch_size=3,
            shuffle=shuffle,
            num_workers=workers,
            persistent_workers=persistent,
            **more,
        )
        results.append((walk(loader, 3, None), generator_states()))
        loader._iterator = None
    assert results[1] == results[0]


@pytest.mark.parametrize("batch_size, drop_last", [(4, False), (4, True), (None, False)])
def test_iterable_datasets_are_dealt_out(batch_size, drop_last):
    ours = millrace.DataLoader(
        Stream(), batch_size=batch_size, drop_last=drop_last, num_workers=2, worker_method="thread"
    )
    assert walk(ours, 2, None) == walk(
        TorchLoader(Stream(), batch_size=batch_size, drop_last=drop_last, num_workers=2), 2, None
    )


class OwnPosition(IterableDataset):
    """An iterator of itself: two threads must not share its position."""

    def __iter__(self):
        self.position = 0
        return self

    def __next__(self):
        if self.position == 3:
            raise StopIteration
        self.position += 1
        return self.position


def test_iterable_datasets_are_copied():
    loader = millrace.DataLoader(OwnPosition(), batch_size=None, num_workers=2, worker_method="thread")
    assert sorted(loader) == [1, 1, 2, 2, 3, 3]


def test_an_iterable_that_cannot_be_copied_is_a_sentence():
    dataset = OwnPosition()
    dataset.lock = threading.Lock()
    with pytest.raises(TypeError, match='cannot be deep-copied.*worker_method="process"'):
        iter(millrace.DataLoader(dataset, num_workers=1, worker_method="thread"))


class Informed(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        info = get_worker_info()
        drawn = 0
        if hasattr(info, "rng") and hasattr(torch, "thread_safe_generator"):
            drawn = torch.rand(1, generator=torch.thread_safe_generator()).item()
        return info.id, info.num_workers, info.seed, id(info.dataset) == id(self), drawn


def test_each_thread_has_worker_info_and_generators_of_its_own():
    torch.manual_seed(3)
    loader = millrace.DataLoader(Informed(), batch_size=None, num_workers=2, worker_method="thread")
    seen = list(loader)
    seed = loader.seed
    assert [tuple(s[:4]) for s in seen] == [(i % 2, 2, seed + i % 2, True) for i in range(8)]
    torch.manual_seed(3)
    assert seen == list(loader)


@pytest.mark.parametrize("how", ["KeyError", "ValueError", "Unicode", "Stop"])
def test_errors(how):
    ours = walk(
        millrace.DataLoader(Failing(how), batch_size=2, num_workers=2, worker_method="thread"), 1, None
    )
    torchs = walk(TorchLoader(Failing(how), batch_size=2, num_workers=2), 1, None)
    rename = [
        (
            tuple(str(part).replace("worker thread", "worker process") for part in item)
            if len(item) == 3
            else item
        )
        for item in ours
    ]
    assert rename == [tuple(str(part) for part in item) if len(item) == 3 else item for item in torchs]


def failing_init(worker_id):
    raise ValueError("no such worker")


def test_worker_init_fn_runs_and_its_errors_arrive():
    loader = millrace.DataLoader(range(4), num_workers=1, worker_init_fn=failing_init, worker_method="thread")
    with pytest.raises(ValueError, match="in DataLoader worker thread 0(.|\n)*no such worker"):
        next(iter(loader))


def test_an_epoch_that_cannot_start_is_an_error_and_the_next_one_starts():
    loader = millrace.DataLoader(
        Restarted(), batch_size=None, num_workers=1, persistent_workers=True, worker_method="thread"
    )
    assert len(list(loader)) == 3
    with pytest.raises(OSError, match="in DataLoader worker thread 0(.|\n)*the stream is gone"):
        list(loader)
    assert len(list(loader)) == 3


def test_a_dropped_iterator_ends_its_threads_and_timeouts_work():
    iterator = iter(millrace.DataLoader(range(1000), num_workers=3, worker_method="thread"))
    next(iterator)
    assert len(threads()) == 3
    del iterator

    gate = threading.Event()

    class Waiting(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            gate.wait(300)
            return index

    iterator = iter(millrace.DataLoader(Waiting(), num_workers=1, timeout=0.1, worker_method="thread"))
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.1 seconds"):
        next(iterator)
    gate.set()
    assert next_in_the_end(iterator).item() == 0


def test_other_arguments_are_named():
    with pytest.raises(ValueError, match="worker_method='fork' is unknown"):
        millrace.DataLoader([1], worker_method="fork")


class Listed(Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


@pytest.mark.parametrize(
    "samples",
    [
        [torch.ones(2), torch.ones(2, dtype=torch.int64)],
        [torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int32)],
        [torch.ones(2, dtype=torch.float16), torch.ones(2, dtype=torch.float64)],
        [(torch.ones(()), 1), (torch.ones((), dtype=torch.float64), 2)],
        [{"x": np.ones(3, np.float32)}, {"x": np.ones(3)}],
        [[torch.ones(2, dtype=torch.float64)], [torch.ones(2, dtype=torch.bool)]],
        [torch.ones(2, dtype=torch.int64), torch.ones(2)],
    ],
)
def test_a_batch_of_several_dtypes_has_the_first_ones_with_any_worker_method(samples):
    def outcome(loader, **options):
        try:
            return str(list(loader(Listed(samples), 2, num_workers=1, **options)))
        except (RuntimeError, TypeError) as error:
            return type(error)

    expected = outcome(TorchLoader)
    for method in ("process", "thread"):
        assert outcome(millrace.DataLoader, worker_method=method) == expected
