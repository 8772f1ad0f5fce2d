"""default_collate and default_convert in C++ against torch's own: values, types, strides, what is left to
torch, and its errors.
"""

from __future__ import annotations

import collections
import gc
import random
import threading
import weakref

import numpy as np
import pytest
import torch
from millrace import _core
from millrace.collate import native_collate
from torch.utils.data import default_collate, default_convert
from torch.utils.data._utils.collate import default_collate_fn_map

Point = collections.namedtuple("Point", "x y")
collate_samples = _core.sample_collator()
collate, convert = native_collate(default_collate), native_collate(default_convert)


def assert_same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.stride(), a.device, a.requires_grad) == (
            b.dtype,
            b.shape,
            b.stride(),
            b.device,
            b.requires_grad,
        )
        assert (
            torch.equal(a, b)
            and a.storage_offset() == b.storage_offset()
            and a.is_inference() == b.is_inference()
        )
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b):
            assert_same(one, other)
    else:
        assert a == b


def rows(make, count):
    rng = random.Random(0)
    return [make(rng, i) for i in range(count)]


NATIVE = {
    "tensor": lambda rng, i: torch.full((3, 5), i),
    "scalar tensor": lambda rng, i: torch.tensor(float(i)),
    "empty tensor": lambda rng, i: torch.empty(0, 4),
    "views": lambda rng, i: torch.arange(40).reshape(4, 10)[1:3, 2:7],
    "channels last": lambda rng, i: torch.rand(8, 6, 3).permute(2, 0, 1),
    "large channels last": lambda rng, i: torch.rand(80, 90, 3).permute(2, 0, 1),
    "some channels last": lambda rng, i: (
        torch.rand(8, 6, 3).permute(2, 0, 1) if i % 3 == 1 else torch.rand(3, 8, 6)
    ),
    "expanded": lambda rng, i: torch.tensor([i]).expand(7),
    "large tensor": lambda rng, i: torch.rand(300, 301),
    "large and an int": lambda rng, i: (torch.rand(3, 64, 64), i),
    "large array": lambda rng, i: np.random.rand(300, 301),
    "array": lambda rng, i: np.full((2, 2), i, np.float32),
    "turned array": lambda rng, i: np.arange(12, dtype=np.int16).reshape(3, 4).T,
    "large turned array": lambda rng, i: np.random.rand(300, 301).T,
    "every other": lambda rng, i: np.arange(20)[::2],
    "scalar array": lambda rng, i: np.array(i),
    "numpy scalar": lambda rng, i: np.float32(i),
    "numpy bool": lambda rng, i: np.bool_(i % 2),
    "int": lambda rng, i: i - 3,
    "float": lambda rng, i: i / 7,
    "bool": lambda rng, i: i % 2 == 0,
    "str": lambda rng, i: str(i),
    "bytes": lambda rng, i: bytes([i]),
    "tuple": lambda rng, i: (i, str(i), torch.rand(2)),
    "list": lambda rng, i: [i, b"x", [1.5, i]],
    "namedtuple": lambda rng, i: Point(torch.rand(2), (i, "a")),
    "dict": lambda rng, i: {"a": i, "b": {"c": np.zeros(3), 4: "x"}, None: [i]},
    "keys in other orders": lambda rng, i: {key: i for key in rng.sample("abcdef", 6)},
    "more keys later": lambda rng, i: {"a": i, **({"b": 1} if i else {})},
    "bfloat16": lambda rng, i: torch.rand(4).bfloat16(),
    "complex": lambda rng, i: torch.rand(4, dtype=torch.complex64),
    "large ints": lambda rng, i: 2**62 + i,
}
TORCHS = {
    "gradients": lambda rng, i: torch.rand(2, requires_grad=True),
    "parameter": lambda rng, i: torch.nn.Parameter(torch.rand(2), requires_grad=False),
    "mixed numbers": lambda rng, i: i if i % 2 else i / 2,
    "bool and int": lambda rng, i: True if i == 0 else i,
    "ordered": lambda rng, i: collections.OrderedDict(a=i),
    "default": lambda rng, i: collections.defaultdict(int, a=i),
    "numpy str": lambda rng, i: np.str_("a"),
    "own tuple": lambda rng, i: type("Pair", (tuple,), {})((i, i)),
    "other types": lambda rng, i: torch.rand(2) if i % 2 else torch.rand(2, dtype=torch.float64),
    "big-endian is refused": lambda rng, i: np.zeros(2, ">f4"),
    "objects are refused": lambda rng, i: object(),
    "None is refused": lambda rng, i: None,
    "too large an int": lambda rng, i: 2**70,
    "other shapes are refused": lambda rng, i: torch.zeros(i + 1),
    "other lengths are refused": lambda rng, i: [1] * (i + 1),
    "missing keys are refused": lambda rng, i: {"a": 1} if i else {"a": 1, "b": 2},
    "backwards is refused": lambda rng, i: np.arange(4)[::-1],
    "strings in arrays are refused": lambda rng, i: np.array(["a"]),
    "object arrays are refused": lambda rng, i: np.array([None]),
    "sparse is refused": lambda rng, i: torch.eye(3).to_sparse(),
}


def result(function, samples):
    try:
        return function(samples)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("count", [1, 2, 33])
@pytest.mark.parametrize("kind", [*NATIVE, *TORCHS])
def test_batches_are_torchs(kind, count):
    samples = rows((NATIVE | TORCHS)[kind], count)
    expected = result(default_collate, samples)
    assert_same(result(collate, samples), expected)
    if kind in NATIVE:
        assert_same(collate_samples(samples), expected)
    elif count > 2:
        assert collate_samples(samples) is NotImplemented


@pytest.mark.parametrize("kind", [*NATIVE, *TORCHS])
def test_converted_samples_are_torchs(kind):
    sample = rows((NATIVE | TORCHS)[kind], 1)[0]
    samples = [
        sample,
        (sample, 1),
        [sample],
        {"a": sample},
        {"a": [sample]},
        Point(sample, {"b": 1}),
        ((sample,), None),
    ]
    for each in samples:
        expected = result(default_convert, each)
        found = result(convert, each)
        if isinstance(expected, (list, dict)):
            assert found is not each
        assert_same(found, expected) if kind not in ("own tuple", "sparse is refused") else None
    tensor = torch.rand(2)
    assert convert(tensor) is tensor and convert([tensor])[0] is tensor


def test_nothing_and_what_is_no_list_are_torchs():
    with pytest.raises(IndexError):
        collate([])
    assert_same(collate((1, 2)), default_collate((1, 2)))
    assert result(collate, torch.arange(3)) == result(default_collate, torch.arange(3))
    assert_same(collate([{}]), default_collate([{}]))
    deep: list = [1]
    for _ in range(60):
        deep = [deep, 1]
    assert_same(collate([deep, deep]), default_collate([deep, deep]))
    endless: list = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        convert(endless)


def test_a_default_device_and_other_modes_are_torchs_affair():
    here = torch.zeros(2)
    with torch.device("meta"):
        assert collate_samples([1, 2]) is NotImplemented
        assert collate([1, 2]).device.type == "meta" and collate([here]).device.type == "cpu"
    assert collate([1, 2]).device.type == "cpu"
    with torch.inference_mode():
        assert_same(
            collate([torch.zeros(2), torch.ones(2)]), default_collate([torch.zeros(2), torch.ones(2)])
        )


def test_types_told_to_torch_are_asked(monkeypatch):
    monkeypatch.setitem(default_collate_fn_map, int, lambda batch, *, collate_fn_map=None: "mine")
    assert collate([1, 2]) == "mine"


def test_the_batch_has_memory_of_its_own_and_lets_the_samples_go():
    for size in (4, 300_000):
        samples = [torch.zeros(size), torch.ones(size)]
        gone = weakref.ref(samples[0])
        batch = collate(samples)
        batch += 1
        assert samples[0].sum() == 0 and batch.untyped_storage().nbytes() == 8 * size
        del samples
        gc.collect()
        assert gone() is None and batch[1, -1] == 2


def test_large_batches_are_made_where_those_were_that_are_gone():
    def samples(value):
        return [{"a": torch.full((70_000,), value), "b": torch.full((90_000,), -value)}] * 2

    kept = [collate(samples(value)) for value in range(20)]  # more than there are slots
    for value, batch in enumerate(kept):
        assert_same(batch, default_collate(samples(value)))
    places = {tensor.data_ptr() for batch in kept for tensor in batch.values()}
    assert len(places) == 40
    row, taken = kept[0]["b"][1], kept[0]["b"].data_ptr()  # a row keeps its batch's memory
    del kept, batch
    again = {collate(samples(value))["b"].data_ptr() for value in range(50, 60)}
    assert again < places - {taken} and row.eq(0).all()


def test_batches_outlive_what_collated_them():
    own = native_collate(default_collate)
    batch = own([torch.ones(100_000)] * 3)
    del own
    gc.collect()
    assert batch.eq(1).all()


class Key:
    """A key whose comparison is Python code, which empties the list of samples."""

    samples: list = []

    def __hash__(self):
        return 1

    def __eq__(self, other):
        self.samples.clear()
        return isinstance(other, Key)


def test_a_list_that_changes_meanwhile_is_no_crash():
    samples = Key.samples = [{Key(): 1, 2: torch.zeros(3)} for _ in range(20)]
    assert collate_samples(samples) is NotImplemented


def test_several_threads_at_once():
    samples = [(torch.full((200, 100), i), i, {"a": np.full(30_000, i)}) for i in range(16)]
    expected, found = default_collate(samples), []
    threads = [
        threading.Thread(target=lambda: found.extend(collate(samples) for _ in range(20))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for each in found:
        assert_same(each, expected)
