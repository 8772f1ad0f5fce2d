"""Native batches in torch's own memory, as on their way to a device: the same, and torch's in full."""

import errno
import gc

import millrace
import pytest
import torch
from millrace import _core
from millrace._loader import iterator as iterators
from torch.utils.data import TensorDataset

ROWS = TensorDataset(torch.arange(700_000.0).reshape(100, 7000), torch.arange(100))


def batches(loader):
    return [[part.clone() for part in batch] for batch in loader]


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for one, other in zip(a, b) for x, y in zip(one, other))


def holders(tensor):
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)


@pytest.fixture
def torchs(monkeypatch):
    monkeypatch.setattr(iterators, "batch_memory", lambda loader: "torch")


@pytest.fixture
def files(jpeg_folder):
    transform = [millrace.transforms.RandomResizedCrop(96), millrace.transforms.ToTensor()]
    return millrace.datasets.ImageFolder(jpeg_folder, millrace.transforms.Compose(transform))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["rows", "files"])
def test_batches_are_the_same(kind, workers, files, monkeypatch):
    dataset = ROWS if kind == "rows" else files
    seen = []
    for memory in ("system", "torch"):
        monkeypatch.setattr(iterators, "batch_memory", lambda loader, memory=memory: memory)
        torch.manual_seed(2)
        loader = millrace.DataLoader(
            dataset, 9, shuffle=True, num_workers=workers, native="require", persistent_workers=workers > 0
        )
        seen.append(batches(loader) + batches(loader))
    assert same(*seen)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_are_kept_stay_what_they_were(workers, torchs):
    loader = millrace.DataLoader(ROWS, 10, num_workers=workers, native="require")
    kept = list(loader)
    del loader
    gc.collect()
    assert all(torch.equal(batch[0], ROWS.tensors[0][10 * i : 10 * i + 10]) for i, batch in enumerate(kept))


def test_a_batch_is_torchs_own_memory(torchs):
    """What torch knows of its own memory (which copies still read it) it knows of a batch and its views."""
    (batch, _), *_ = millrace.DataLoader(ROWS, 10, num_workers=1, native="require")
    storage = batch.untyped_storage()
    assert storage.resizable()
    assert storage.data_ptr() == batch.data_ptr() == batch[:3].untyped_storage().data_ptr()
    with pytest.raises(RuntimeError, match="resize"):  # unlike memory that is leased
        next(iter(TensorDataset(torch.from_numpy(batch.numpy()))))[0].untyped_storage().resize_(0)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["rows", "files"])
def test_nobody_else_holds_the_memory_of_a_batch(kind, workers, files, torchs):
    """It goes back to torch's allocator when the loop drops the batch."""
    for batch, _ in millrace.DataLoader(
        ROWS if kind == "rows" else files, 8, num_workers=workers, native="require"
    ):
        assert holders(batch) == holders(batch.clone())


def test_unknown_memory_is_refused():
    with pytest.raises(ValueError, match="'page-locked on node N'"):
        _core.RowGather([([torch.rand(3, 4)], None, (4,), "float32", False, {})], 3, 0, 3, "other")


@pytest.mark.parametrize("memory", ["system", "torch", "page-locked"])
def test_want_of_memory_is_the_same_error_whatever_the_memory(memory):
    wide = torch.empty(1, dtype=torch.uint8).expand(3, 1 << 46)
    gather = _core.RowGather([([wide], None, (1 << 46,), "uint8", False, {})], 3, 0, 3, memory)
    with pytest.raises(OSError, match=r"no memory for a batch of \d+ bytes") as error:
        gather.submit([0, 1])
        gather.next()
    assert error.value.errno == errno.ENOMEM
