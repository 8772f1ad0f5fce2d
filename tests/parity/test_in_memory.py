"""Data sets in memory: gathered natively is what torch collates, to types, strides, errors and draws."""

import random
import tempfile

import millrace
import numpy as np
import pytest
import torch
from loader_data import generator_states
from thinned import thinned
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)
from torch.utils.data.distributed import DistributedSampler

COUNT = 23
X = torch.randn(COUNT, 3, 2, generator=torch.Generator().manual_seed(1))
Y = torch.arange(COUNT) * 10
PIXELS = np.arange(COUNT * 12, dtype=np.uint8).reshape(COUNT, 3, 4)
NAMES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()
TENSOR_TYPES = [getattr(torch, name) for name in [*NAMES, "bfloat16", "uint16", "uint32", "uint64"]]
WIDE = torch.randn(
    COUNT, 30_000, generator=torch.Generator().manual_seed(2)
)  # batches of 4 take more than 256 KiB

COLUMNS = torch.randn(20, COUNT, generator=torch.Generator().manual_seed(5)).t()  # as pandas has its values
IMAGES = torch.arange(COUNT * 60, dtype=torch.uint8).view(COUNT, 5, 4, 3)


def mapped(array):
    """The same in a file that has no name, mapped into memory."""
    with tempfile.TemporaryFile() as file:
        file.write(array.tobytes())
        file.flush()
        return np.memmap(file, array.dtype, "r", shape=array.shape)


DATASETS = {
    "tensors": lambda: TensorDataset(X, Y),
    "one tensor": lambda: TensorDataset(X),
    "tensor types": lambda: TensorDataset(*((X * 9).to(dtype) for dtype in TENSOR_TYPES)),
    "strides": lambda: TensorDataset(
        torch.arange(COUNT * 40).view(COUNT * 2, 20)[::2, 3:9], Y[:1].expand(COUNT), X[:1].expand(COUNT, 3, 2)
    ),
    "columns": lambda: TensorDataset(COLUMNS, COLUMNS.double(), Y),
    "columns of an array": lambda: StackDataset(
        np.asfortranarray(PIXELS), COLUMNS.numpy().astype(np.float64), Y
    ),
    "many columns": lambda: TensorDataset(
        torch.randn(30_000, COUNT, generator=torch.Generator().manual_seed(4)).t()
    ),
    "every second column": lambda: TensorDataset(
        COLUMNS[:, ::2], torch.arange(COUNT * 40).view(COUNT, 40)[:, 3:33:3]
    ),
    "axes swapped": lambda: TensorDataset(
        IMAGES.permute(0, 3, 1, 2),
        IMAGES.transpose(1, 2),
        IMAGES.transpose(0, 3).contiguous().transpose(0, 3),
    ),
    "channels last": lambda: TensorDataset(IMAGES.permute(0, 3, 1, 2).to(memory_format=torch.channels_last)),
    "expanded rows": lambda: TensorDataset(
        Y[:, None].expand(COUNT, 5), X[:, :1].expand(COUNT, 4, 2), X[:1, :, :1].expand(COUNT, 3, 6)
    ),
    "rows in the middle": lambda: TensorDataset(
        torch.arange(4 * COUNT * 6).view(4, COUNT, 6).transpose(0, 1)
    ),
    "rows of four axes": lambda: TensorDataset(
        torch.arange(COUNT * 120).view(COUNT, 5, 2, 3, 4).permute(0, 2, 4, 1, 3), Y
    ),
    "column types": lambda: TensorDataset(*((COLUMNS * 9).to(dtype) for dtype in TENSOR_TYPES)),
    "columns in a mapped file": lambda: StackDataset(
        mapped(WIDE.numpy()).T[:COUNT, :7], mapped(COLUMNS.t().contiguous().numpy()).T
    ),
    "columns in a shared file": lambda: TensorDataset(
        COLUMNS.clone().share_memory_(), Y.clone().share_memory_()
    ),
    "unsigned arrays": lambda: StackDataset(
        *(PIXELS.astype(f"uint{bits}") for bits in (16, 32, 64)),
        Y.numpy().astype(np.uint16),
        (Y.numpy() + 2**32 - 300).astype(np.uint32),
    ),
    "empty rows in columns": lambda: TensorDataset(
        torch.empty(4, 0, COUNT).permute(2, 0, 1), torch.empty(0, COUNT).t()
    ),
    "part of records": lambda: np.zeros(COUNT, dtype=[("a", "u1"), ("b", "f4", (3,))])["b"],
    "concatenated columns": lambda: ConcatDataset(
        [TensorDataset(COLUMNS[:4]), TensorDataset(COLUMNS[:0].contiguous()), TensorDataset(COLUMNS[9:])]
    ),
    "subset of columns": lambda: Subset(TensorDataset(COLUMNS, Y), [5, -1, 3, 3, 22]),
    "empty rows": lambda: TensorDataset(torch.empty(COUNT, 0, 4), Y),
    "rows of one": lambda: TensorDataset(torch.randn(COUNT, 1, 1, 5), torch.randn(COUNT, 1)),
    "wide rows": lambda: TensorDataset(WIDE, Y, WIDE.to(torch.float64)),
    "a tensor": lambda: X,
    "numbers in a tensor": lambda: Y,
    "an array": lambda: PIXELS,
    "a reversed array": lambda: PIXELS[::-1],
    **{
        f"numbers in an array of {name}": lambda name=name: (np.arange(COUNT) * 7 - 30).astype(name)
        for name in NAMES
    },
    "stacked": lambda: StackDataset(X, PIXELS, Y.numpy(), list(range(COUNT)), [i / 3 for i in range(COUNT)]),
    "stacked by name": lambda: StackDataset(image=PIXELS, label=Y, weight=Y.numpy().astype(np.float16)),
    "stacks of stacks": lambda: StackDataset(TensorDataset(X, Y), StackDataset(b=Y, a=TensorDataset(X)), X),
    "subset": lambda: Subset(TensorDataset(X, Y), [5, -1, 3, 3, 22, -23, 0, 7, 8, 9, 10]),
    "subset of numbers": lambda: Subset(Y, np.array([4, 3, -2, 20, 11])),
    "subsets of subsets": lambda: Subset(
        Subset(StackDataset(a=X, b=PIXELS), torch.arange(20, 2, -1)), range(15, 0, -2)
    ),
    "numpy numbers as indices": lambda: Subset(TensorDataset(X, Y), list(np.arange(19, 2, -3))),
    "mapped file": lambda: StackDataset(mapped(PIXELS), mapped(np.arange(COUNT)), mapped(WIDE.numpy()), Y),
    "mapped file beside memory": lambda: ConcatDataset(
        [StackDataset(mapped(PIXELS), Y), Subset(StackDataset(PIXELS, Y), [3, 1])]
    ),
    "split": lambda: random_split(TensorDataset(X, Y), [0.7, 0.3], torch.Generator().manual_seed(3))[0],
    "empty subset": lambda: Subset(TensorDataset(X, Y), []),
    "concatenated": lambda: ConcatDataset(
        [TensorDataset(X[:4], Y[:4]), TensorDataset(X[:0], Y[:0]), TensorDataset(X[9:], Y[9:])]
    ),
    "concatenated subsets": lambda: ConcatDataset(
        [Subset(TensorDataset(X, Y), (3, -1, 8)), TensorDataset(X, Y), Subset(TensorDataset(X, Y), range(4))]
    ),
    "subset of all": lambda: Subset(
        ConcatDataset(
            [StackDataset(TensorDataset(X), Y), Subset(StackDataset(TensorDataset(X * 2), Y + 1), [9, 8])]
        ),
        [24, 0, -1, 23, -25, 5],
    ),
    "sum": lambda: TensorDataset(WIDE) + TensorDataset(WIDE * 2),
}


def plain(value):
    """`value` in types that compare with ==, to the bit, with types and strides."""
    if isinstance(value, torch.Tensor):
        bits = value.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return type(value), value.dtype, tuple(value.shape), value.stride(), value.requires_grad, bits
    if isinstance(value, dict):
        return type(value), [(key, plain(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [plain(part) for part in value]
    return type(value), value


def both(dataset, use, torchs=None, **arguments):
    """`use(loader)` for torch's loader, over `torchs` where it is given, and a native one, with the states of
    all generators afterwards.
    """
    results = []
    for loader_class, data, extra in (
        (DataLoader, dataset if torchs is None else torchs, {}),
        (millrace.DataLoader, dataset, {"native": "require"}),
    ):
        torch.manual_seed(7), random.seed(7), np.random.seed(7)
        made = {name: value(data) if callable(value) else value for name, value in arguments.items()}
        loader = loader_class(data, **made, **extra)
        result = use(loader)
        own = made.get("generator")
        results.append((result, generator_states(), own.get_state().tolist() if own is not None else None))
    return results, loader


def epochs(count, part=plain):
    """What both() is to use a loader for: so many epochs, `part` of each batch."""

    def use(loader):
        seen = []
        for epoch in range(count):
            if isinstance(loader.sampler, DistributedSampler):
                loader.sampler.set_epoch(epoch)
            seen.append([part(batch) for batch in loader])
        return seen

    return use


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset(name, workers):
    dataset = DATASETS[name]()
    shuffle = len(dataset) > 0
    (torchs, ours), loader = both(dataset, epochs(1), batch_size=4, shuffle=shuffle, num_workers=workers)
    assert ours == torchs
    stats = loader.stats()
    assert stats["engine"] == ("threads" if workers else "inline")
    assert stats["samples"] == len(dataset) and stats["batches"] == len(loader) and stats["errors"] == []
    assert loader.explain().startswith("dataset: native — ") and "python" not in loader.explain()


SAMPLERS = {
    "sequential": {},
    "shuffle": {"shuffle": True},
    "drop last": {"shuffle": True, "drop_last": True},
    "in order, drop last": {"drop_last": True},
    "generator": {"shuffle": True, "generator": lambda data: torch.Generator().manual_seed(5)},
    "generator, drop last": {
        "shuffle": True,
        "drop_last": True,
        "generator": lambda data: torch.Generator().manual_seed(5),
    },
    "replacement": {"sampler": lambda data: RandomSampler(data, replacement=True, num_samples=50)},
    "several rounds": {"sampler": lambda data: RandomSampler(data, num_samples=50)},
    "own generator": {
        "sampler": lambda data: RandomSampler(data, generator=torch.Generator().manual_seed(3))
    },
    "subset": {"sampler": lambda data: SubsetRandomSampler([3, 1, 4, 15, 9, 2, 6])},
    "weighted": {"sampler": lambda data: WeightedRandomSampler(torch.arange(1.0, COUNT + 1), 30)},
    "distributed": {"sampler": lambda data: DistributedSampler(data, num_replicas=2, rank=1, seed=11)},
    "list": {"sampler": [4, 3, -2, 22, 0]},
    "numpy numbers": {"sampler": lambda data: np.arange(COUNT)[::-2]},
    "tensors as indices": {"sampler": lambda data: torch.arange(COUNT)},
}
BATCH_SAMPLERS = {
    "batch sampler": lambda data: BatchSampler(RandomSampler(data), 5, drop_last=True),
    "sequential batches": lambda data: BatchSampler(SequentialSampler(data), 5, drop_last=False),
    "lists": lambda data: [[1, 2], [-1], [3, 3, 3, torch.tensor(4)], (5, 6), [np.int64(7), 8]],
    "arrays": lambda data: [
        np.array([1, 2]),
        torch.tensor([5, -4]),
        np.array([3, 4], dtype=np.int32),
        np.arange(9)[::2],
    ],
}


@thinned(2, workers=[0, 1, 2], rows=["tensors", "wide rows"], sampler=[*SAMPLERS, *BATCH_SAMPLERS])
def test_every_sampler(sampler, rows, workers):
    arguments = (
        {"batch_size": 4, **SAMPLERS[sampler]}
        if sampler in SAMPLERS
        else {"batch_sampler": BATCH_SAMPLERS[sampler]}
    )
    (torchs, ours), _ = both(DATASETS[rows](), epochs(2), num_workers=workers, **arguments)
    assert ours == torchs


@pytest.mark.parametrize("rows", ["stacked", "wide rows"])
@pytest.mark.parametrize("generator", [None, lambda data: torch.Generator().manual_seed(5)])
@pytest.mark.parametrize("batch_size, prefetch", [(4, 2), (50, 1), (1, 3)])
def test_persistent_workers(rows, generator, batch_size, prefetch):
    arguments = {
        "batch_size": batch_size,
        "shuffle": True,
        "num_workers": 2,
        "persistent_workers": True,
        "prefetch_factor": prefetch,
    }
    (torchs, ours), _ = both(DATASETS[rows](), epochs(3), generator=generator, **arguments)
    assert ours == torchs


@pytest.mark.parametrize("workers, persistent", [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("rows", ["tensors", "wide rows"])
def test_breaks_and_iterators_side_by_side(rows, workers, persistent):
    def use(loader):
        seen = []
        for _ in range(3):
            for batch in loader:
                seen.append(plain(batch))
                break
            iter(loader)
        if not persistent:
            seen += [(plain(a), plain(b)) for a, b in zip(loader, loader)]
        return seen

    arguments = {"batch_size": 3, "shuffle": True, "num_workers": workers, "persistent_workers": persistent}
    (torchs, ours), _ = both(DATASETS[rows](), use, **arguments)
    assert ours == torchs


class Watched:
    """Writes down when it is advanced; `eager`: also draws when iterated. Raises at `fails_at`."""

    def __init__(self, events, eager=False, fails_at=None):
        self.events, self.eager, self.fails_at = events, eager, fails_at

    def __iter__(self):
        self.events.append("iter")
        if self.eager:
            torch.rand(1)
        return self._indices()

    def _indices(self):
        for index in range(12):
            self.events.append(f"index {index}")
            if index == self.fails_at:
                raise LookupError("no more")
            yield index


@pytest.mark.parametrize("rows", ["tensors", "wide rows"])
@pytest.mark.parametrize("workers, prefetch", [(0, None), (1, 2), (2, 2), (2, 1), (3, 3)])
def test_the_sampler_runs_on_torchs_schedule(rows, workers, prefetch):
    logs = []

    def sampler(data):
        logs.append([])
        return Watched(logs[-1])

    def use(loader):
        events = logs[-1]
        for batch in loader:
            events.append(batch[1].tolist())
        return events

    (torchs, ours), _ = both(
        DATASETS[rows](), use, batch_size=3, num_workers=workers, prefetch_factor=prefetch, sampler=sampler
    )
    assert ours == torchs
