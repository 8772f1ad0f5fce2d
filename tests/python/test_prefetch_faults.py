"""DevicePrefetcher and DataLoader(device=...) where something goes wrong, or is not as most have it."""

import gc
import warnings
import weakref
from collections import Counter, UserDict, namedtuple
from dataclasses import dataclass

import millrace
import pytest
import torch
from fake_device import Fake, fake, fake_module  # noqa: F401
from millrace import DevicePrefetcher
from python_code import run_code
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, IterableDataset, TensorDataset


def numbers(count):
    return [torch.tensor([i]) for i in range(count)]


def walked(iterator, calls):
    seen = []
    for _ in range(calls):
        try:
            seen.append(int(next(iterator)))
        except (KeyboardInterrupt, StopIteration, RuntimeError, ArithmeticError) as error:
            seen.append(type(error).__name__)
    return seen


# ---------------------------------------------------------------- interrupts and errors


class Once:
    """Raises at one value, the first time that it sees it."""

    def __init__(self, at, error):
        self.at, self.error = at, error

    def __call__(self, batch):
        if int(batch) == self.at:
            self.at = None
            raise self.error()
        return batch


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("prefetch", [1, 2, 4])
def test_an_interrupt_on_the_device_loses_no_batch(prefetch, at, fake):
    iterator = iter(DevicePrefetcher(numbers(5), "fake", prefetch, on_device=Once(at, KeyboardInterrupt)))
    seen = walked(iterator, 7)
    assert [value for value in seen if value != "KeyboardInterrupt"] == [
        0,
        1,
        2,
        3,
        4,
        "StopIteration",
    ] and len(seen) == 7


class Interrupted:
    def __init__(self, value, at):
        self.value, self.at = value, at

    def to(self, device, non_blocking=False):
        if self.value == self.at.get("at"):
            raise self.at.pop("at") and KeyboardInterrupt
        return self

    def __int__(self):
        return self.value


def test_an_interrupt_while_a_batch_moves_itself_loses_none(fake):
    iterator = iter(DevicePrefetcher([Interrupted(i, at) for at in [{"at": 2}] for i in range(4)], "fake"))
    assert walked(iterator, 6) == [0, 1, "KeyboardInterrupt", 2, 3, "StopIteration"]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_after_an_interrupt_is_that_of_the_loop(workers, fake, monkeypatch):
    loader = millrace.DataLoader(TensorDataset(torch.arange(12)), 2, num_workers=workers, device="cuda")
    iterator = iter(loader)
    assert int(next(iterator)[0][0]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(type(iterator), "_copied", lambda self, batch: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
    for step in range(1, 6):
        assert int(next(iterator)[0][0]) == 2 * step
        again = millrace.DataLoader(TensorDataset(torch.arange(12)), 2, num_workers=workers)
        again.load_state_dict(loader.state_dict())
        assert [int(batch[0][0]) for batch in again] == list(range(2 * step + 2, 12, 2))


@pytest.mark.parametrize("device", ["fake", "cpu"])
def test_on_device_cannot_end_the_loop_by_accident(device, request):
    if device == "fake":
        request.getfixturevalue("fake")
    iterator = iter(DevicePrefetcher(numbers(4), device, on_device=Once(1, StopIteration)))
    assert walked(iterator, 5) == [0, "RuntimeError", 2, 3, "StopIteration"]


def test_on_the_cpu_the_batch_after_an_error_can_be_had():
    prefetcher = DevicePrefetcher(numbers(4), "cpu", on_device=Once(1, ArithmeticError))
    assert walked(iter(prefetcher), 5) == [0, "ArithmeticError", 2, 3, "StopIteration"]
    assert len(iter(DevicePrefetcher(TorchLoader(torch.arange(6), 2), "cpu", on_device=lambda x: x))) == 3


class Fails(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 2:
            raise ValueError("two")
        return index


def test_an_error_does_not_keep_the_iterator(fake):
    gc.collect()
    gc.disable()
    try:
        loader = millrace.DataLoader(Fails(), 2, device="cuda")
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(ValueError, match="two"):
            next(iterator)
        inner = weakref.ref(iterator._batches)  # (with worker processes, torch's own reraise() keeps it)
        del iterator
        assert inner() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- what batches move by themselves


class LeasedByARing:
    """A batch over memory that is used again as soon as it dies, and whose to() reads that memory late, as
    copies from pages do that
    are locked but not torch's own.
    """

    def __init__(self, memory, value, device):
        self.memory, self.device = memory.fill_(value), device
        weakref.finalize(self, memory.fill_, -1)

    def to(self, device, non_blocking=False):
        self.device.read_later(self.memory.data_ptr(), self.memory.nbytes)
        return "moved"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("stop_after", [3, None])
def test_memory_that_a_batch_reads_late_is_kept_until_then(seed, stop_after, monkeypatch):
    fake = Fake(seed=seed)
    fake.install(monkeypatch)
    memory = [torch.empty(1000) for _ in range(12)]
    iterator = iter(
        DevicePrefetcher((LeasedByARing(part, i, fake.device) for i, part in enumerate(memory)), "fake", 2)
    )
    for step, batch in enumerate(iterator):
        assert batch == "moved"
        if step == stop_after:
            break
    del iterator
    fake.device.finish()
    gc.collect()
    assert fake.device.changed_sources == 0


class OnlyADevice:
    def to(self, device):
        return "there"


def test_a_to_that_takes_only_a_device(fake):
    assert list(DevicePrefetcher([OnlyADevice()] * 2, "fake")) == ["there", "there"]


class Encoding(UserDict):
    """As the batches of transformers: a UserDict with a to() that moves its items in place."""

    def to(self, device, *, non_blocking=False):
        raise AssertionError("its items are copied ahead")


def test_user_dicts_are_containers_whatever_they_can_do(fake):
    given = [Encoding(ids=torch.full((3,), i), n=i) for i in range(3)]
    for i, batch in enumerate(DevicePrefetcher(given, "fake")):
        assert type(batch) is Encoding and batch["ids"].tolist() == [i] * 3 and batch["n"] == i
        assert batch is not given[i] and batch["ids"] is not given[i]["ids"]


@dataclass
class Words:
    words: list


def test_containers_without_tensors_stay_the_same_objects(fake):
    words, counted = Words(["a"]), Counter(a=2)
    (batch,) = DevicePrefetcher([(torch.zeros(2), words, counted)], "fake")
    assert batch[1] is words and batch[2] is counted
    (batch,) = DevicePrefetcher([Counter(a=torch.tensor(2), b=3)], "fake")
    assert batch == Counter(a=2, b=3)


# ---------------------------------------------------------------- static buffers


Named = namedtuple("Named", "x name")


@pytest.mark.parametrize("device", ["fake", "cpu"])
def test_static_buffers_keep_only_tensors(device, request):
    if device == "fake":
        request.getfixturevalue("fake")
    places = set()
    for i, batch in enumerate(
        DevicePrefetcher(
            [Named(torch.tensor([i]), f"batch {i}") for i in range(4)], device, static_buffers=True
        )
    ):
        places.add(batch.x.data_ptr())
        assert batch.x.item() == i and batch.name == f"batch {i}"
    assert len(places) == 1


def test_static_buffers_need_one_type(fake):
    iterator = iter(
        DevicePrefetcher([torch.zeros(2), torch.zeros(2, dtype=torch.float64)], "fake", static_buffers=True)
    )
    next(iterator)
    with pytest.raises(ValueError, match="shapes and types"):
        next(iterator)


# ---------------------------------------------------------------- devices and attributes


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), None])
def test_the_device_of_a_loader_can_be_set(device):
    loader = millrace.DataLoader(torch.arange(6), 2, num_workers=1)
    loader.device = device
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]


def test_a_depth_that_is_set_is_checked(fake):
    loader = millrace.DataLoader(torch.arange(6), 2, device="cuda")
    loader.prefetch_to_device = 0
    with pytest.raises(ValueError, match="number from 1 on"):
        iter(loader)
    prefetcher = DevicePrefetcher(numbers(2), "fake")
    prefetcher.prefetch = 0
    with pytest.raises(ValueError, match="number from 1 on"):
        iter(prefetcher)


class WithItsOwn(millrace.DataLoader):
    """As subclasses of torch's class when ours is installed: `device` is theirs, whatever it means."""

    def __init__(self, *arguments, own, late, **rest):
        if not late:
            self.device = own
        super().__init__(*arguments, **rest)
        if late:
            self.device = own


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("own", ["gpu-7", object(), 3])
def test_a_subclass_may_have_a_device_of_its_own(own, late):
    loader = WithItsOwn(torch.arange(4), 2, own=own, late=late)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]] and loader.device is own


def test_a_subclass_may_be_given_a_device(fake):
    loader = WithItsOwn(torch.arange(4), 2, own="mine", late=True, device="cuda", num_workers=1)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]] and len(fake.copiers) == 1


@pytest.mark.parametrize("device", ["xpu", "xpu:1", "meta", "hpu"])
def test_devices_that_are_not_here_are_unavailable(device):
    if torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == device[:3]:
        pytest.skip("it is here")
    with pytest.raises(millrace.UnavailableError, match=device):
        iter(DevicePrefetcher([], device))


# Of an accelerator of torch's no more than a pool of streams, as CUDA has one: it gives a different one each
# time, 32 in turn.
COPIERS = """
import itertools, types
import torch
from millrace import _core
pool = itertools.cycle(range(1, 33))
def stream(device):
    return types.SimpleNamespace(stream_id=next(pool), device_index=0, device_type=20)
torch.Stream = stream
torch.accelerator.current_stream = lambda device: types.SimpleNamespace(stream_id=0, device_type=20)
one_after_another = {_core.BatchCopier("privateuseone:0").stream[0] for _ in range(40)}
assert len(one_after_another) == 1, one_after_another
at_once = [_core.BatchCopier("privateuseone:0") for _ in range(5)]
assert len({copier.stream[0] for copier in at_once}) == 5
"""


def test_epochs_use_one_stream():
    """torch's allocator keeps freed memory for its stream: each further one takes as much again."""
    run_code(COPIERS)


# ---------------------------------------------------------------- states


class Counted(IterableDataset):
    def __iter__(self):
        return iter(range(10))

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_epochs_ask_for_no_more_states_than_the_first(fake):
    loader = millrace.DataLoader(
        Counted(), 2, num_workers=1, persistent_workers=True, snapshot_every_n_steps=20, device="cuda"
    )
    wanted = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(12):
            iterator = iter(loader)
            wanted.append([loader._millrace_progress.wants_state(i) for i in range(5)])
            list(iterator)
    assert wanted == [wanted[0]] * 12


AT_EXIT = """
import torch
from fake_device import Fake
import millrace
import millrace.dataloader
from millrace import prefetch

prefetch.prefetched = millrace.dataloader.prefetched = Fake().prefetched

class Own:
    def to(self, device, non_blocking=False):
        return self

class Node:
    pass

node = Node()
node.itself = node
node.iterator = iter(millrace.DevicePrefetcher([Own() for _ in range(9)], "fake"))
options = dict(num_workers=2, device="cuda")
data = torch.rand(100, 30_000)
kept = [iter(millrace.DataLoader(data, 4, native=native, **options)) for native in ("auto", "never")]
for iterator in [node.iterator, *kept]:
    next(iterator), next(iterator)
print("end")
"""


def test_iterators_that_live_until_the_interpreter_ends():
    fake_module()  # or this is skipped
    done = run_code(AT_EXIT)
    assert (done.stdout, done.stderr) == ("end\n", "")
