"""Batches pickled in worker processes: large bytes, sharing, batches kept, errors, slots too short."""

import collections
import os
import pickle
import sys
from types import SimpleNamespace

import millrace
import numpy as np
import pytest
import torch
from millrace import _core
from millrace._loader.engines import process_worker
from millrace._loader.engines.channel import pack_value, read_pickle, unpack_value
from PIL import Image
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

FRAME = 64 << 10  # from here on a pickler writes bytes past its own buffer


class Name(bytes):
    pass


def content(length, index=0):
    return np.random.default_rng(index).bytes(length)


VALUES = {
    **{f"{n} bytes": lambda i, n=n: content(n, i) for n in (0, 1, FRAME - 1, FRAME, FRAME + 1, 1_000_003)},
    "bytearray": lambda i: bytearray(content(200_000, i)),
    "bytes of a class": lambda i: Name(content(200_000, i)),
    "ASCII": lambda i: f"{i}" + "a" * 200_000,
    "Latin-1": lambda i: "\xe9" * 200_000,
    "any character": lambda i: f"{i}\U0001f600" * 50_000,
    "surrogates": lambda i: "\ud800" * 100_000,
    "picture": lambda i: Image.frombytes("RGB", (300, 200), content(180_000, i)),
    "large number": lambda i: 1 << (800_000 + i),
    "of all kinds": lambda i: {
        "data": content(108_000, i),
        "t": torch.full((5000,), float(i)),
        "a": np.full(3000, i),
        "n": [i, "n"],
    },
}


class Values(Dataset):
    def __init__(self, kind, length=10):
        self.kind, self.length = kind, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index >= self.length:
            raise IndexError(index)
        return VALUES[self.kind](index)


def as_it_is(samples):
    return samples


def plain(value):
    """With types, comparable by ==."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, np.ndarray):
        return value.dtype, value.flags.writeable, value.tolist()
    if isinstance(value, dict):
        return [(key, plain(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [plain(part) for part in value]
    return type(value), value.tobytes() if isinstance(value, Image.Image) else value


@pytest.mark.parametrize(
    "kind, collate",
    [
        *((kind, as_it_is) for kind in VALUES),
        *((kind, None) for kind in VALUES if kind not in ("bytearray", "picture", "large number")),
    ],
)
def test_large_values_are_those_of_torch(kind, collate):
    torchs, ours = (
        [plain(batch) for batch in loader_class(Values(kind), 4, num_workers=2, collate_fn=collate)]
        for loader_class in (TorchLoader, millrace.DataLoader)
    )
    assert torchs == ours


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_in_workers_that_are_not_forked(method):
    loader = millrace.DataLoader(
        Values("of all kinds"), 4, num_workers=1, collate_fn=as_it_is, multiprocessing_context=method
    )
    assert plain([sample for batch in loader for sample in batch]) == plain(list(Values("of all kinds")))


class Repeated(Dataset):
    """The same object in all samples of a batch, and twice in each."""

    def __init__(self, value):
        self.value = value

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return [self.value, self.value]


@pytest.mark.parametrize(
    "value",
    [b"x" * 100_000, "y" * 100_000, bytearray(100_000), b"short"],
    ids=["bytes", "str", "bytearray", "short"],
)
def test_what_was_one_object_in_a_batch_still_is(value):
    for batch in millrace.DataLoader(Repeated(value), 4, num_workers=2, collate_fn=as_it_is):
        assert batch[0][0] == value and len({id(part) for sample in batch for part in sample}) == 1


@pytest.mark.parametrize("collate", [None, as_it_is])
def test_bytes_that_are_kept_hold_no_slot(collate):
    """While workers write to the same slots again and again."""
    iterator = iter(
        millrace.DataLoader(Values(f"{FRAME + 1} bytes", 400), 2, num_workers=2, collate_fn=collate)
    )
    kept = [next(iterator)]
    for batch in iterator:
        assert iterator._engine.ring.leased_slots == 0
        kept.append(batch)
    assert [sample for batch in kept for sample in batch] == list(Values(f"{FRAME + 1} bytes", 400))


def test_batches_with_tensors_hold_theirs_and_many_are_copied():
    kept = list(
        millrace.DataLoader(Values("of all kinds", 700), 2, num_workers=2, collate_fn=as_it_is)
    )  # more than there are slots
    assert plain([sample for batch in kept for sample in batch]) == plain(list(Values("of all kinds", 700)))


class Ours:
    """Can be unpickled by workers only."""

    def __init__(self):
        self.worker = os.getpid()

    def __setstate__(self, state):
        if state["worker"] != os.getpid():
            raise ValueError("only at home")


class Broken(Dataset):
    """Sample 3 goes wrong behind a megabyte that was pickled already."""

    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 40

    def __getitem__(self, index):
        data = content(100_000, index)
        if index % 8 != 3:
            return data
        if self.how == "pickling":
            return data, lambda: None
        if self.how == "unpickling":
            return data, Ours()
        here = sys.modules[__name__]  # "layout": a class that only the worker has
        here.Local = collections.namedtuple("Local", "x")
        here.Local.__module__ = __name__
        return here.Local(data)


@pytest.mark.parametrize(
    "how, error, collate",
    [
        ("pickling", (AttributeError, pickle.PicklingError), as_it_is),
        ("unpickling", ValueError, as_it_is),
        ("layout", AttributeError, None),
    ],
)
def test_batches_with_errors_lose_no_slot(how, error, collate):
    iterator = iter(millrace.DataLoader(Broken(how), 1, num_workers=2, collate_fn=collate))
    failed = 0
    seen = []
    while True:
        try:
            seen += next(iterator)
        except error:
            failed += 1
        except StopIteration:
            break
        free = iterator._engine.ring.free_slots + sum(end.outstanding for end in iterator._engine.ends)
        assert free == free_of(iterator) and iterator._engine.ring.leased_slots == 0
    assert failed == 5 and seen == [content(100_000, i) for i in range(40) if i % 8 != 3]


def free_of(iterator):
    """All slots but that of the workers' clocks."""
    return iterator._engine.ring.slots - 1


def test_a_batch_that_is_too_long_for_a_slot_goes_torchs_way(monkeypatch):
    monkeypatch.setattr(process_worker, "pack_value", lambda *_: None)
    loader = millrace.DataLoader(Values("of all kinds"), 4, num_workers=2, collate_fn=as_it_is)
    assert plain([sample for batch in loader for sample in batch]) == plain(list(Values("of all kinds")))


# ---------------------------------------------------------------- one slot, in this process


def opened(slots=4):
    ring = _core.SharedRing(slots, slots)
    return SimpleNamespace(ring=ring, slot=ring.take(), reserved=0)


def shortened(sink, stride=1 << 20):
    """The same file with short slots, as where addresses are scarce."""
    ring = _core.SharedRing.attach([os.dup(fd) for fd in sink.ring.fds], 4, stride)
    return SimpleNamespace(ring=ring, slot=0, reserved=0)


def again(sink, packed, copy=False):
    sink.ring.set_reserved(sink.slot, sink.reserved)
    return unpack_value(sink.ring.lease(sink.slot), *packed, copy)


@pytest.mark.parametrize("length", [0, 1, 4000, FRAME, 5_000_000])
@pytest.mark.parametrize("copy", [False, True])
def test_a_value_with_and_without_parts_beside_its_pickle(length, copy):
    for value in (
        content(length),
        {"data": content(length), "t": torch.arange(10_000.0), "a": np.arange(10_000)},
    ):
        sink = opened()
        assert plain(again(sink, pack_value(sink, value), copy)) == plain(value)
        assert sink.ring.free_slots == sink.ring.slots
        assert sink.reserved >= length


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytes(2 << 20),
        lambda: [bytes(700_000), bytes(700_000)],
        lambda: [bytes(500_000), torch.zeros(200_000)],
        lambda: np.zeros(1 << 20),
        lambda: [bytes(100)] * 1_000_000,
        lambda: bytes((1 << 20) - 5),
        lambda: np.zeros((1 << 20) - 148, dtype=np.uint8),
        # fmt: skip
    ],
    ids=[
        "bytes",
        "two",
        "with a tensor",
        "array",
        "small",
        "by its last bytes",
        "by what says where it lies",
    ],
)
def test_values_that_do_not_fit(make):
    sink = shortened(opened())
    assert pack_value(sink, make()) is None
    assert sink.reserved <= sink.ring.stride
    assert pack_value(sink, b"fits") is not None


def test_memory_that_an_unfinished_pickle_took_is_known():
    sink = opened()
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pack_value(sink, [bytes(3_000_000), lambda: None])
    assert sink.reserved >= 3_000_000
    assert again(sink, pack_value(sink, [b"next"])) == [b"next"]


def test_a_file_begins_where_it_is_told_and_takes_any_buffer():
    sink = opened()
    sink.reserved = sink.ring.put(sink.slot, 0, b"before", 0)
    file = _core.SlotFile(sink.ring, sink.slot, 6, sink.reserved)
    (
        file.write(b"abc"),
        file.write(bytearray(b"def")),
        file.write(memoryview(b"ghi")),
        file.write(np.frombuffer(b"jkl", np.uint8)),
    )
    assert file.end == 18 and sink.ring.get(sink.slot, 0, 18) == b"beforeabcdefghijkl"
    with pytest.raises(TypeError):
        file.write("text")
    with pytest.raises(IndexError, match="outside slot"):
        _core.SlotFile(sink.ring, sink.ring.slots, 0, 0)


def test_a_part_holds_its_slot_and_cannot_be_written_to():
    sink = opened()
    sink.ring.put(sink.slot, 0, b"some text", 0)
    lease = sink.ring.lease(sink.slot)
    with pytest.raises(IndexError, match="outside slot"):
        lease.part(sink.ring.stride, 1)
    view = memoryview(lease.part(5, 4))
    del lease
    assert sink.ring.leased_slots == 1 and view.readonly and view == b"text"
    del view
    assert sink.ring.leased_slots == 0 and sink.ring.free_slots == sink.ring.slots


def test_what_is_read_from_a_slot_does_not_refer_to_it():
    sink = opened()
    value = [
        content(300_000),
        bytearray(content(300_000)),
        "text" * 100_000,
        1 << 400_000,
        np.str_("x" * 100_000),
        {"k": b"v"},
    ]
    end, places = pack_value(sink, value)
    assert places == 0
    sink.ring.set_reserved(sink.slot, sink.reserved)
    lease = sink.ring.lease(sink.slot)
    made = read_pickle(lease, 0, end)
    del lease
    assert sink.ring.leased_slots == 0
    assert sink.ring.take() == sink.slot
    sink.ring.put(sink.slot, 0, b"\xff" * end, sink.reserved)
    assert made == value and type(made[1]) is bytearray
