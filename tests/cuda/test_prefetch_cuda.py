"""Prefetching to a real GPU: right under slow steps, other streams, early frees and CUDA graphs, from every
kind of loader.
"""

import gc

import millrace
import pytest
import torch
from millrace import DevicePrefetcher
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, TensorDataset

ROWS, BATCH = 640, 32


class Rows(Dataset):
    """150 kB of one number, and the number."""

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return torch.full((3, 112, 112), float(index)), index


def in_memory():
    return TensorDataset(
        torch.arange(float(ROWS)).reshape(-1, 1).expand(ROWS, 37_632).contiguous(), torch.arange(ROWS)
    )


def loaders():
    return {
        "native threads": lambda: millrace.DataLoader(
            in_memory(), BATCH, shuffle=True, num_workers=2, device="cuda", native="require"
        ),
        "native inline": lambda: millrace.DataLoader(
            in_memory(), BATCH, shuffle=True, device="cuda", native="require"
        ),
        "processes": lambda: millrace.DataLoader(Rows(), BATCH, shuffle=True, num_workers=2, device="cuda"),
        "worker threads": lambda: millrace.DataLoader(
            Rows(), BATCH, num_workers=2, worker_method="thread", device="cuda"
        ),
        "inline": lambda: millrace.DataLoader(Rows(), BATCH, device="cuda"),
        "torch's": lambda: DevicePrefetcher(TorchLoader(Rows(), BATCH, num_workers=2), "cuda"),
        "torch's, pinned": lambda: DevicePrefetcher(
            TorchLoader(Rows(), BATCH, num_workers=2, pin_memory=True), "cuda", 4
        ),
    }


@pytest.mark.parametrize("kind", loaders())
@pytest.mark.parametrize("cycles", [0, 20_000_000], ids=["fast steps", "slow steps"])
def test_every_step_sees_its_batch(kind, cycles):
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    seen = torch.zeros(ROWS, dtype=torch.int64, device="cuda")
    for _ in range(3):
        for x, index in loaders()[kind]():
            assert x.is_cuda and index.is_cuda
            torch.cuda._sleep(cycles)  # the host runs ahead of the device by many steps
            wrong += (x.flatten(1) != index[:, None]).sum()
            seen.index_add_(0, index, torch.ones_like(index))
            del x, index  # freed before the device has come to read them
    assert wrong.item() == 0 and seen.eq(3).all()


def test_batches_used_on_another_stream():
    side, wrong = torch.cuda.Stream(), torch.zeros((), dtype=torch.int64, device="cuda")
    for x, index in millrace.DataLoader(in_memory(), BATCH, num_workers=2, device="cuda"):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(5_000_000)
            wrong += (x.flatten(1) != index[:, None]).sum()
        x.record_stream(side)
        index.record_stream(side)
        del x, index
    torch.cuda.synchronize()
    assert wrong.item() == 0


def test_batches_that_are_kept():
    kept = list(millrace.DataLoader(in_memory(), BATCH, num_workers=2, device="cuda"))
    gc.collect()
    assert all((x.flatten(1) == index[:, None]).all() for x, index in kept)


def test_pinned_batches_that_the_user_copies():
    """Copied by hand and dropped at once, their memory must wait for the copy."""
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for kind in (in_memory, Rows):
        for x, index in millrace.DataLoader(kind(), BATCH, num_workers=2, pin_memory=True):
            assert x.is_pinned() and index.is_pinned()
            torch.cuda._sleep(10_000_000)
            x, index = x.to("cuda", non_blocking=True), index.to("cuda", non_blocking=True)
            wrong += (x.flatten(1) != index[:, None]).sum()
    assert wrong.item() == 0


def test_a_cuda_graph_reads_static_buffers():
    batches = iter(DevicePrefetcher(TorchLoader(Rows(), BATCH), "cuda", static_buffers=True))
    x, index = next(batches)
    out = torch.zeros((), device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.add_((x.flatten(1).mean(1) - index).abs().sum())
    graph.replay()
    for again, _ in batches:
        assert again.data_ptr() == x.data_ptr()
        graph.replay()
    assert out.item() == 0


def test_nothing_is_allocated_on_the_host_in_the_steady_state():
    counts = []
    for _ in millrace.DataLoader(in_memory(), BATCH, num_workers=2, device="cuda"):
        torch.cuda.synchronize()
        counts.append(torch.cuda.host_memory_stats()["num_host_alloc"])
    assert counts[-1] == counts[len(counts) // 2]


@pytest.mark.parametrize("kind", loaders())
def test_memory_is_flat(kind):
    taken = []
    for _ in loaders()[kind]():
        torch.cuda.synchronize()
        taken.append(torch.cuda.memory_allocated())
    assert max(taken[10:]) <= max(taken[:10])


def test_the_ring_of_worker_processes_is_page_locked():
    loader = millrace.DataLoader(Rows(), BATCH, num_workers=2, device="cuda")
    inner = iter(loader)
    host = inner._batches  # the iterator over worker processes
    x, _ = next(host)
    assert x.is_pinned()


def test_a_full_device_is_torchs_error():
    torch.cuda.set_per_process_memory_fraction(0.01)
    try:
        free = int(torch.cuda.get_device_properties(0).total_memory * 0.02)
        with pytest.raises(torch.OutOfMemoryError):
            next(iter(DevicePrefetcher([torch.empty(free, dtype=torch.uint8)], "cuda")))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_several_devices():
    for x, index in millrace.DataLoader(Rows(), BATCH, num_workers=2, device="cuda:1"):
        assert x.device == torch.device("cuda:1") and (x.flatten(1) == index[:, None]).all()


def test_a_device_that_is_not_there():
    with pytest.raises(ValueError, match="numbered from 0"):
        iter(DevicePrefetcher([], f"cuda:{torch.cuda.device_count()}"))
