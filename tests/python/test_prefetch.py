"""DevicePrefetcher on a device that does everything late: the same batches, in order, of any kind."""

import collections
import dataclasses
import multiprocessing
import pickle
from types import SimpleNamespace

import millrace
import pytest
import torch
from fake_device import Fake, fake  # noqa: F401
from millrace import DevicePrefetcher
from millrace._common.batch_tree import leaves
from torch.nn.utils.rnn import pack_sequence

Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass(frozen=True)
class Record:
    x: torch.Tensor
    name: str


class Moving:
    """A batch that knows how to go to a device, as many frameworks' do."""

    def __init__(self, x):
        self.x, self.moved = x, 0

    def to(self, device, non_blocking=False):
        result = Moving(self.x.to(device))
        result.moved = self.moved + 1
        return result


class Named(dict):
    """A mapping with more than its items."""


def image(i, *shape):
    return torch.arange(i, i + torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def named(i):
    batch = Named(x=image(i, 3))
    batch.name = f"batch {i}"
    return batch


KINDS = {
    "tensor": lambda i: image(i, 2, 3),
    "large": lambda i: image(i, 100, 300),
    "scalar": lambda i: torch.tensor(i),
    "empty": lambda i: torch.empty(0, 4),
    "types": lambda i: [
        torch.tensor([i]).to(t)
        for t in (torch.bool, torch.uint8, torch.int16, torch.bfloat16, torch.complex64)
    ],
    "turned": lambda i: image(i, 4, 5).T,
    "gaps": lambda i: image(i, 4, 40)[:, ::2],
    "broadcast": lambda i: image(i, 4, 1).expand(4, 3),
    "tuple": lambda i: (image(i, 2), i, "text", None, b"bytes"),
    "dict": lambda i: {"x": image(i, 40_000), "y": {"z": [image(i, 1), range(3)]}, 5: 0.5},
    "ordered": lambda i: collections.OrderedDict(b=image(i, 2), a=image(i + 1, 2)),
    "mapping with more": named,
    "user dict": lambda i: collections.UserDict(x=image(i, 2)),
    "namedtuple": lambda i: Pair(image(i, 3), [image(i, 2)]),
    "dataclass": lambda i: Record(image(i, 3), "name"),
    "no tensors": lambda i: ["a", i],
    "no container": lambda i: i,
    "sparse": lambda i: (image(i, 3).to_sparse(), image(i, 3)),
    "gradients": lambda i: [image(i, 3).requires_grad_(), image(i, 2)],
    "packed": lambda i: pack_sequence([image(i, 3), image(i, 2)]),
}


def plain(value):
    if isinstance(value, torch.Tensor):
        return (
            str(value.dtype),
            tuple(value.shape),
            value.stride() if not value.is_sparse else None,
            value.to_dense().tolist(),
        )
    if isinstance(value, collections.abc.Mapping):
        return (
            type(value).__name__,
            [(key, plain(part)) for key, part in value.items()],
            getattr(value, "name", None),
        )
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part) for part in value]
    if dataclasses.is_dataclass(value):
        return type(value).__name__, [plain(part) for part in vars(value).values()]
    return type(value).__name__, repr(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_every_kind_of_batch(kind, prefetch, fake):
    for seed in range(3):
        given = [KINDS[kind](10 * i) for i in range(7)]
        expected = [plain(value) for value in given]
        assert [plain(value) for value in DevicePrefetcher(given, "fake", prefetch)] == expected, seed
    assert fake.device.changed_sources == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_source_that_uses_its_memory_again(seed, monkeypatch):
    fake = Fake(seed=seed)
    fake.install(monkeypatch)
    buffers = torch.empty(8), torch.empty(40_000)

    def batches():
        for i in range(20):
            yield [buffer.fill_(i) for buffer in buffers]
            for buffer in buffers:
                buffer.fill_(-1)

    for i, batch in enumerate(DevicePrefetcher(batches(), "fake", 3)):
        assert [set(part.tolist()) for part in batch] == [{i}, {i}]
    assert fake.device.changed_sources == 0


def test_a_tensor_that_comes_twice_is_one_tensor(fake):
    x = image(0, 5)
    (batch,) = DevicePrefetcher([[x, {"again": x}]], "fake")
    assert batch[0] is batch[1]["again"] and batch[0] is not x


def test_what_holds_no_tensor_is_not_made_anew(fake):
    words, whole = ["a", "b"], range(4)
    (batch,) = DevicePrefetcher([(image(0, 2), words, whole)], "fake")
    assert batch[1] is words and batch[2] is whole


def test_batches_that_move_themselves(fake):
    given = [{"graph": Moving(image(i, 3)), "y": image(i, 1)} for i in range(4)]
    for i, batch in enumerate(DevicePrefetcher(given, "fake")):
        assert batch["graph"].moved == 1 and batch["graph"].x[0] == i
        assert given[i]["graph"].moved == 0


class Counting:
    def __init__(self, length, fail_at=(), error=ValueError):
        self.length, self.pulled, self.fail_at, self.error = length, 0, set(fail_at), error

    def __len__(self):
        return self.length

    def __iter__(self):
        self.pulled = 0
        return self

    def __next__(self):
        if self.pulled == self.length:
            raise StopIteration
        self.pulled += 1
        if self.pulled - 1 in self.fail_at:
            self.fail_at.discard(self.pulled - 1)
            raise self.error(f"batch {self.pulled - 1}")
        return torch.tensor(self.pulled - 1)


@pytest.mark.parametrize("prefetch", [1, 2, 4])
def test_only_so_many_batches_are_asked_for_ahead(prefetch, fake):
    source = Counting(10)
    seen = [(int(batch), source.pulled) for batch in DevicePrefetcher(source, "fake", prefetch)]
    assert seen == [
        (i, min(10, max(i + 1, min(2 * i + 1, i + prefetch)))) for i in range(10)
    ]  # the first one waits for no other


def test_errors_come_at_their_place_and_the_next_batch_can_be_had(fake):
    iterator, seen = iter(DevicePrefetcher(Counting(6, fail_at=[0, 3, 5]), "fake", 3)), []
    for _ in range(9):
        try:
            seen.append(int(next(iterator)))
        except (ValueError, StopIteration) as error:
            seen.append(f"{type(error).__name__} {error}")
    assert (
        seen
        == ["ValueError batch 0", 1, 2, "ValueError batch 3", 4, "ValueError batch 5"]
        + ["StopIteration "] * 3
    )


def test_interrupts_come_at_once_and_lose_nothing(fake):
    source = Counting(6, fail_at=[3], error=KeyboardInterrupt)
    iterator, seen = iter(DevicePrefetcher(source, "fake", 2)), []
    for _ in range(7):
        try:
            seen.append(int(next(iterator)))
        except (KeyboardInterrupt, StopIteration) as error:
            seen.append(type(error).__name__)
    assert seen == [0, 1, "KeyboardInterrupt", 2, 4, 5, "StopIteration"]  # the source lost 3 itself


def test_nothing_to_iterate(fake):
    assert list(DevicePrefetcher([], "fake")) == []


def test_iterators_that_are_dropped_early(fake):
    iterator = iter(DevicePrefetcher([image(i, 40_000) for i in range(9)], "fake", 4))
    kept = [next(iterator), next(iterator)]
    del iterator
    fake.device.finish()
    assert [batch[0].item() for batch in kept] == [0, 1] and fake.device.changed_sources == 0


def test_it_passes_for_the_loader_in_it(fake):
    loader = millrace.DataLoader(torch.arange(10), batch_size=4)
    prefetcher = DevicePrefetcher(loader, "fake")
    assert len(prefetcher) == 3 and prefetcher.batch_size == 4 and prefetcher.dataset is loader.dataset
    assert len(iter(prefetcher)) == 3
    with pytest.raises(AttributeError):
        prefetcher.nothing_of_that_name
    with pytest.raises(TypeError, match="len"):
        len(DevicePrefetcher(iter([1]), "fake"))


def test_epochs(fake):
    prefetcher = DevicePrefetcher([image(i, 2) for i in range(3)], "fake")
    assert [[int(batch[0]) for batch in prefetcher] for _ in range(3)] == [[0, 1, 2]] * 3


def test_static_buffers_are_the_same_tensors_at_each_step(fake):
    given = [{"x": image(i, 3, 4), "name": str(i)} for i in range(5)]
    places, values = set(), []
    for batch in DevicePrefetcher(given, "fake", static_buffers=True):
        places.add(batch["x"].data_ptr())
        values.append(batch["x"][0, 0].item())
    assert len(places) == 1 and values == [0, 1, 2, 3, 4]


def test_static_buffers_need_one_shape(fake):
    iterator = iter(DevicePrefetcher([image(0, 4), image(0, 3)], "fake", static_buffers=True))
    next(iterator)
    with pytest.raises(ValueError, match="same shapes.*drop_last"):
        next(iterator)


def test_channels_last_and_a_transform_on_the_device(fake):
    seen = []

    def transform(batch):
        seen.append(batch["x"].is_contiguous(memory_format=torch.channels_last))
        return {"x": batch["x"] * 2, "more": batch["y"] + 1}

    given = [{"x": image(i, 2, 3, 4, 5), "y": image(i, 3)} for i in range(4)]
    for i, batch in enumerate(DevicePrefetcher(given, "fake", channels_last=True, on_device=transform)):
        assert torch.equal(batch["x"], given[i]["x"] * 2) and torch.equal(batch["more"], given[i]["y"] + 1)
    assert seen == [True] * 4


def test_an_error_on_the_device_is_one_of_its_batch(fake):
    def transform(batch):
        if batch == 2:
            raise ArithmeticError("two")
        return batch

    iterator = iter(DevicePrefetcher([torch.tensor(i) for i in range(4)], "fake", on_device=transform))
    seen = []
    for _ in range(4):
        try:
            seen.append(int(next(iterator)))
        except ArithmeticError as error:
            seen.append(str(error))
    assert seen == [0, 1, "two", 3]


def test_nothing_is_allocated_on_the_host_in_the_steady_state(fake):
    counts = []
    for _ in DevicePrefetcher(([image(i, 30_000), torch.tensor([i])] for i in range(40)), "fake"):
        fake.device.finish()
        counts.append((fake.device.host_allocations, fake.device.allocations))
    assert counts[-1] == counts[10]


def test_a_full_device_is_an_error_of_its_batch(monkeypatch):
    fake = Fake(memory_bytes=100_000)
    fake.install(monkeypatch)
    iterator = iter(DevicePrefetcher([image(0, 5000), image(1, 50_000), image(2, 5000)], "fake", 2))
    assert next(iterator)[0] == 0
    with pytest.raises(OSError, match="smaller batch_size"):
        next(iterator)
    assert next(iterator)[0] == 2


def test_memory_that_cannot_be_locked_is_one_warning(fake):
    fake.device.lock_failure = "Cannot allocate memory"
    with pytest.warns(UserWarning, match="page-locked.*ulimit -l") as seen:
        list(DevicePrefetcher([image(0, 5)] * 5, "fake"))
    assert len(seen) == 1


def in_child(iterator, answers):
    try:
        next(iterator)
    except RuntimeError as error:
        answers.put(str(error))


def test_a_forked_child_is_told_so(fake):
    context = multiprocessing.get_context("fork")
    iterator, answers = iter(DevicePrefetcher([image(i, 5) for i in range(9)], "fake")), context.Queue()
    next(iterator)
    child = context.Process(target=in_child, args=(iterator, answers))
    child.start()
    assert "after a fork" in answers.get(timeout=200)
    child.join(30)
    assert child.exitcode == 0
    assert [int(batch[0]) for batch in iterator] == list(range(1, 9))


def test_the_cpu_is_a_device_too():
    batches = [image(i, 1, 2, 3, 4) for i in range(3)]
    assert all(a is b for a, b in zip(DevicePrefetcher(batches, "cpu"), batches))
    changed = list(DevicePrefetcher(batches, "cpu", channels_last=True, on_device=lambda x: x + 1))
    assert torch.equal(changed[2], batches[2] + 1)
    assert changed[0].is_contiguous(memory_format=torch.channels_last)
    assert (
        list(DevicePrefetcher([SimpleNamespace(a=1)], None)) == [SimpleNamespace(a=1)]
        or torch.accelerator.is_available()
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_reason_is_given():
    with pytest.raises(millrace.UnavailableError, match='"cuda".*(built without CUDA|cannot be used)'):
        iter(DevicePrefetcher([], "cuda"))
    with pytest.raises(millrace.UnavailableError, match='device="cpu"|cannot be used'):
        iter(millrace.DataLoader(torch.arange(3), device="cuda:1"))


@pytest.mark.parametrize("prefetch", [0, -1, 1.5, True, "2"])
def test_bad_depths(prefetch):
    with pytest.raises(ValueError, match="number from 1 on"):
        DevicePrefetcher([], "cpu", prefetch)
    with pytest.raises(ValueError, match="number from 1 on"):
        millrace.DataLoader([1], device="cpu", prefetch_to_device=prefetch)


def test_bad_devices():
    with pytest.raises(RuntimeError, match="bogus"):
        iter(DevicePrefetcher([], "bogus"))
    with pytest.raises(RuntimeError, match="bogus"):
        millrace.DataLoader([1], device="bogus")


def test_a_loader_with_a_device_travels():
    loader = pickle.loads(
        pickle.dumps(millrace.DataLoader(torch.arange(6), batch_size=2, device="cpu", prefetch_to_device=3))
    )
    assert loader.device == torch.device("cpu") and loader.prefetch_to_device == 3
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]


def test_leaves_of_odd_values():
    assert leaves(torch.Size([1, 2]), []) == [] and leaves({"a": {1, 2}}, []) == [] and leaves(int, []) == []


def test_nvtx_ranges_can_be_switched_on_and_off(fake):
    try:
        millrace.nvtx(True)
    except millrace.UnavailableError as error:
        assert "CUDA" in str(error)
        return
    try:
        loader = millrace.DataLoader(
            torch.utils.data.TensorDataset(torch.rand(50, 20_000)), 10, num_workers=1, device="cuda"
        )
        assert len(list(loader)) == 5
    finally:
        millrace.nvtx(False)
