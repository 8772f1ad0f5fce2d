"""Memory under the readers: whatever is done to tensors, arrays, maps and files while batches are copied,
nobody reads freed memory.

Each case runs in a forked child: what is wrong here ends the process.
"""

import mmap
import os
import signal
import sys
import traceback
from multiprocessing.shared_memory import SharedMemory

import millrace
import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset

ROWS, WIDE, BATCH = 40, 300_000, 4
AHEAD = 2  # batches per worker that are asked for before the second is taken


def in_child(body, *arguments):
    """Runs `body` in a forked child; its failures are this test's."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # OpenMP's threads are the parent's
            signal.alarm(60)
            body(*arguments)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFSIGNALED(status), f"the process died of {signal.Signals(os.WTERMSIG(status)).name}"
    assert os.WEXITSTATUS(status) == 0


def numbered(rows=ROWS, width=WIDE):
    """Row i holds nothing but i."""
    return torch.arange(rows, dtype=torch.float32)[:, None].repeat(1, width)


def loaded(dataset, workers=2, batch=BATCH):
    return iter(millrace.DataLoader(dataset, batch, num_workers=workers, native="require"))


def whole(batch, first, by=0.0):
    """Whether `batch` has the rows from `first` on, `by` added."""
    expected = torch.arange(first, first + len(batch), dtype=torch.float32) + by
    return bool((batch == expected[:, None]).all())


def share(t):
    t.share_memory_()


def exchange(t):
    t.data = numbered() + 1000


def let_go(t):
    t.set_()


def enlarge(t):
    t.resize_(ROWS * 2, WIDE)


def end_storage(t):
    t.untyped_storage().resize_(0)


def end_and_reuse(t):
    t.untyped_storage().resize_(0)
    globals()["kept"] = [torch.full((ROWS, WIDE), -1.0) for _ in range(3)]


PARTS = {
    "beside labels": lambda t: TensorDataset(t, torch.arange(ROWS)),
    "view": lambda t: TensorDataset(t[:]),
    "array of it": lambda t: StackDataset(t.numpy()),
    "subset": lambda t: Subset(TensorDataset(t), range(ROWS)),
    "concatenated": lambda t: ConcatDataset([TensorDataset(t), TensorDataset(t)]),
}


@pytest.mark.parametrize("change", [share, exchange, let_go, enlarge, end_storage, end_and_reuse])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_tensor_that_gives_its_memory_away(change, workers):
    def body():
        t = numbered()
        iterator = loaded(TensorDataset(t), workers)
        assert whole(next(iterator)[0], 0)
        change(t)
        first = BATCH
        try:
            for (batch,) in iterator:
                old = whole(batch, first)
                assert old or (change is exchange and whole(batch, first, 1000)), first
                assert old or first >= BATCH * (1 + AHEAD * workers), "it was asked for before"
                first += len(batch)
            assert first == ROWS
        except (IndexError, RuntimeError):  # torch's, of a tensor that has nothing left
            assert change in (let_go, end_storage, end_and_reuse)
            assert first >= BATCH * (2 if workers else 1)

    in_child(body)


@pytest.mark.parametrize("parts", PARTS)
def test_what_lies_over_a_shared_tensor(parts):
    def body():
        t = numbered()
        dataset = PARTS[parts](t)
        iterator = loaded(dataset)
        next(iterator)
        (dataset.tensors[0] if parts == "view" else t).share_memory_()
        del t
        junk = [torch.full((ROWS, WIDE), -1.0) for _ in range(2)]
        first = BATCH
        for batch in iterator:
            assert whole(batch[0], first % ROWS)
            first += BATCH
        assert first == len(dataset) and junk

    in_child(body)


def test_writes_in_place_are_seen():
    t = numbered()
    for workers in 0, 2:
        iterator = loaded(TensorDataset(t), workers)
        next(iterator)
        t += 100
        for (last,) in iterator:
            pass
        assert whole(last, ROWS - BATCH, 100)
        t -= 100


def test_indices_that_give_their_memory_away():
    def body():
        data, order = torch.arange(200_000), torch.randperm(200_000)
        expected = order.clone()
        dataset = Subset(TensorDataset(data), order)
        iterator = loaded(dataset, 0, 1000)
        seen = [next(iterator)[0]]
        order.share_memory_()
        junk = [torch.full((200_000,), 2**60) for _ in range(4)]
        seen += [batch[0] for batch in iterator]
        assert torch.equal(torch.cat(seen), expected) and junk

    in_child(body)


def owner():
    array = numbered().numpy().copy()
    return array, array, lambda: array.resize((1, 1), refcheck=False), ValueError


def owner_of_a_view():
    array = numbered().numpy().copy()
    return array, array[:], lambda: array.resize((1, 1), refcheck=False), ValueError


def numpys_map():
    with open("rows", "wb") as file:
        file.write(numbered().numpy().tobytes())
    array = np.memmap("rows", np.float32, "r", shape=(ROWS, WIDE))
    return array, array, array._mmap.close, BufferError


def map_by_itself():
    numpys_map()
    with open("rows", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    array = np.ndarray((ROWS, WIDE), np.float32, mapped)
    return array, array, mapped.close, BufferError


def shared_memory():
    memory = SharedMemory(create=True, size=ROWS * WIDE * 4)
    memory.unlink()
    array = np.ndarray((ROWS, WIDE), np.float32, memory.buf)
    array[:] = numbered().numpy()
    return array, array, memory.close, BufferError


def strided():
    array = numbered().numpy().copy()
    view = np.lib.stride_tricks.as_strided(array, array.shape, array.strides)
    return array, view, lambda: array.resize((1, 1), refcheck=False), ValueError


@pytest.mark.parametrize("make", [owner, owner_of_a_view, strided, numpys_map, map_by_itself, shared_memory])
@pytest.mark.parametrize("workers", [0, 2])
def test_memory_that_is_read_is_neither_resized_nor_closed(make, workers, tmp_path):
    def body():
        os.chdir(tmp_path)
        array, rows, end, error = make()
        iterator = loaded(StackDataset(rows), workers)
        assert whole(next(iterator)[0], 0)
        with pytest.raises(error):
            end()
        first = BATCH
        for (batch,) in iterator:
            assert whole(batch, first)
            first += BATCH
        assert first == ROWS
        del iterator, array, rows
        if make not in (owner_of_a_view, strided):  # numpy's own rule
            end()

    in_child(body)


FORMS = {
    "shape": (np.ndarray, lambda a: setattr(a, "shape", (ROWS, 2, 4))),
    "dtype": (np.ndarray, lambda a: setattr(a, "dtype", np.dtype(np.int32))),
    "byte order": (np.ndarray, lambda a: setattr(a, "dtype", np.dtype(">f4"))),
    "resize": (torch.Tensor, lambda t: t.resize_(ROWS, 4)),
    "axes": (torch.Tensor, lambda t: t.resize_(ROWS, 2, 4)),
    "swapped": (torch.Tensor, lambda t: t.resize_(ROWS, 2, 4).transpose_(1, 2)),
    "strides": (torch.Tensor, lambda t: t.as_strided_((ROWS, 8), (8, 0))),
    "gradients": (torch.Tensor, lambda t: t.requires_grad_()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_that_changes_meanwhile(form):
    """Without workers batches are what torch makes of the dataset at that moment."""
    kind, change = FORMS[form]
    seen = []
    for loader_class, extra in (
        (torch.utils.data.DataLoader, {}),
        (millrace.DataLoader, {"native": "require"}),
    ):
        values = np.arange(ROWS * 8, dtype=np.float32).reshape(ROWS, 8)
        part = values if kind is np.ndarray else torch.from_numpy(values).clone()
        iterator = iter(loader_class(StackDataset(part), BATCH, **extra))
        next(iterator)
        change(part)
        try:
            batches = [batch[0] for batch in iterator]
            seen.append([(b.dtype, b.shape, b.stride(), b.requires_grad, b.tolist()) for b in batches])
        except Exception as error:
            seen.append((type(error), str(error)))
    assert seen[0] == seen[1]
