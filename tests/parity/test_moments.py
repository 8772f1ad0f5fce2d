"""Inference mode, autocast, a default device: a batch belongs to the moment at which it is taken, as
with torch's loader, and to no other one at which it was made.
"""

import collections
import collections.abc
import contextlib
import itertools

import millrace
import numpy as np
import pytest
import torch
from fake_device import fake  # noqa: F401
from loader_data import make_folder, pictures, torchvision_or_skip
from millrace import transforms
from millrace._common.batch_tree import leaves
from millrace.datasets import Arrays, PackedSequences, WebDataset
from stream_cases import write_shards
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Own(Dataset):
    def __len__(self):
        return 18

    def __getitem__(self, i):
        return {"x": torch.full((64,), float(i)) @ torch.ones(64, 2), "n": np.full(3, i, np.float32), "i": i}


class Counting(IterableDataset):
    """Changes a tensor that it has."""

    def __init__(self):
        self.count = torch.zeros(4)

    def __iter__(self):
        for _ in range(18):
            self.count += 1
            yield self.count.clone()


def mixed(root):
    torchvision_or_skip()
    from torchvision.transforms import v2

    mix = v2.MixUp(num_classes=18)
    steps = transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()])
    return pictures(root, transform=steps), lambda samples: mix(*default_collate(samples))


def stream(root):
    steps = WebDataset(f"{root}/s-{{0..3}}.tar").decode("pil").to_tuple("jpg;png;webp", "cls")
    fixed = transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()])
    return steps.map_tuple(fixed, lambda label: torch.full((8,), float(label)) @ torch.ones(8, 2))


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    root = tmp_path_factory.mktemp("moments")
    make_folder(root / "pictures", 18)
    write_shards(root)
    return {
        "tensors": lambda: (TensorDataset(torch.rand(18, 70_000), torch.rand(18)), None),
        "arrays": lambda: (Arrays(x=np.ones((18, 9), np.float32)), None),
        "own": lambda: (Own(), None),
        "own collate_fn": lambda: (Own(), lambda rows: torch.tensor([row["i"] for row in rows])),
        "iterable": lambda: (Counting(), None),
        "pictures": lambda: (mixed(root / "pictures")[0], None),
        "mixed pictures": lambda: mixed(root / "pictures"),
        "samples of pictures": lambda: (
            pictures(root / "pictures"),
            lambda rows: torch.stack([row[0] for row in rows]) * torch.tensor(2.0),
        ),
        "stream": lambda: (stream(root), None),
    }


KINDS = ["tensors", "arrays", "own", "own collate_fn", "iterable", "pictures"]
KINDS += ["mixed pictures", "samples of pictures", "stream"]
PYTHON = ("own", "own collate_fn", "iterable")
WORKERS = {
    "inline": {},
    "workers": {"num_workers": 2, "prefetch_factor": 3},
    "threads": {"num_workers": 2, "prefetch_factor": 3, "worker_method": "thread"},
}
CONTEXTS = {
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "device": lambda: torch.device("meta"),
}
# torch's loader cannot begin where the default device is another one.
MOMENTS = [(context, False) for context in CONTEXTS] + [("inference", True), ("autocast", True)]


def differs(kind, workers):
    return workers != "threads" or kind in PYTHON


def tensors(batch):
    return [leaf for leaf in leaves(batch, []) if isinstance(leaf, torch.Tensor)]


def told(batch):
    return [(leaf.dtype, tuple(leaf.shape), str(leaf.device), leaf.is_inference()) for leaf in tensors(batch)]


def first_inside(loader, context, begun_inside):
    """An iterator, and what its first batch is; that is taken in the context."""
    with context() if begun_inside else contextlib.nullcontext():
        iterator = iter(loader)
    with context():
        return iterator, told(next(iterator))


def check_usable(batch):
    for tensor in tensors(batch):
        assert not tensor.is_inference() and tensor.device.type == "cpu"
        if tensor.is_floating_point():
            (tensor * torch.ones((), requires_grad=True)).sum().backward()
            tensor.add_(1)


@pytest.mark.parametrize("context, begun_inside", MOMENTS)
@pytest.mark.parametrize(
    "kind, workers", [pair for pair in itertools.product(KINDS, WORKERS) if differs(*pair)]
)
def test_batches_are_of_the_moment_at_which_they_are_taken(kinds, kind, workers, context, begun_inside):
    if context == "device" and workers == "inline" and kind not in PYTHON:
        pytest.skip("natively, the device at the beginning counts")
    if context == "autocast" and begun_inside and (workers, kind in PYTHON) != ("workers", True):
        begun_inside = workers == "inline"  # torch's forked processes inherit it, and threads do not
    options = {"batch_size": 3} | WORKERS[workers]
    data, collate_fn = kinds[kind]()
    loader = millrace.DataLoader(data, collate_fn=collate_fn, **options)
    iterator, first = first_inside(loader, CONTEXTS[context], begun_inside)

    data, collate_fn = kinds[kind]()
    options.pop("worker_method", None)
    theirs = TorchLoader(data, collate_fn=collate_fn, **options)
    theirs, expected = first_inside(theirs, CONTEXTS[context], begun_inside)
    assert first == expected
    for _ in range(2):
        for batch in iterator:
            check_usable(batch)
        iterator = iter(loader)


class List(list):
    pass


class Tuple(tuple):
    __slots__ = ()


class WithDict(tuple):
    pass


class Pair(collections.namedtuple("Pair", "x y")):
    pass


class Made(collections.abc.Sequence):
    """Only its __init__ can make one."""

    def __init__(self, items, size=None):
        self.items, self.size = list(items), size

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        return self.items[at]


def with_note(made):
    made.note = "mine"
    return made


CONTAINERS = {
    "list": lambda rows: with_note(List(rows)),
    "tuple": lambda rows: Tuple(rows),
    "tuple with attributes": lambda rows: with_note(WithDict(rows)),
    "named tuple": lambda rows: with_note(Pair(*rows)),
    "its own": lambda rows: with_note(Made(rows, size=7)),
    "of torch": lambda rows: torch.max(torch.stack(rows), 0),
    "default dict": lambda rows: collections.defaultdict(list, x=rows),
    "twice": lambda rows: [rows[0], rows[0]],
}


def described(thing):
    if isinstance(thing, torch.Tensor):
        return thing.tolist()
    items = thing.values() if isinstance(thing, dict) else thing
    return type(thing), getattr(thing, "__dict__", {}).keys(), [described(item) for item in items]


@pytest.mark.parametrize("workers", ["workers", "threads"])
@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_are_those_that_the_collate_fn_made(kind, workers):
    options = {"batch_size": 2, "collate_fn": CONTAINERS[kind], **WORKERS[workers]}
    data = [torch.ones(2), torch.zeros(2)]
    got = iter(millrace.DataLoader(data, **options))
    options.pop("worker_method", None)
    expected = next(iter(TorchLoader(data, **options)))
    with torch.inference_mode():
        batch = next(got)
    assert described(batch) == described(expected)
    assert getattr(batch, "size", None) == getattr(expected, "size", None)
    if kind != "its own":  # whose tensors are ordinary ones (docs/limits.md)
        assert all(tensor.is_inference() for tensor in tensors(batch))
    if kind == "twice":
        assert batch[0] is batch[1]


@pytest.mark.parametrize("context", ["inference", "device"])
@pytest.mark.parametrize("kind", ["stream", "sequences"])
def test_datasets_made_in_a_context_count_epochs_outside(kinds, kind, context):
    with CONTEXTS[context]():
        made = kinds["stream"]()[0] if kind == "stream" else PackedSequences([np.arange(9)] * 5, 16)
    made.set_epoch(3)
    assert made.epoch == 3


class Stateful(Counting):
    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def test_a_state_loaded_in_inference_mode_may_be_changed_outside():
    iterator = iter(loader := millrace.DataLoader(Stateful(), 3))
    next(iterator)
    with torch.inference_mode():
        state = loader.state_dict()
        loader = millrace.DataLoader(Stateful(), 3)
        loader.load_state_dict(state)
        iterator = iter(loader)
    for batch in iterator:
        check_usable(batch)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("where", ["cpu", "fake"])
def test_batches_on_their_way_to_a_device_belong_to_no_moment(request, where, static):
    if where == "fake":
        request.getfixturevalue("fake")
    prefetcher = millrace.DevicePrefetcher(
        TorchLoader(Own(), 3), where, 2, on_device=lambda batch: batch, static_buffers=static
    )
    with torch.inference_mode():
        iterator = iter(prefetcher)
        next(iterator)
    for batch in iterator:
        check_usable(batch)
