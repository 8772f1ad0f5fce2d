"""Batches as blocks of bytes arrive as they were sent; keys of samples, from lists of any indices."""

import collections
import pickle

import numpy as np
import pytest
import torch
from millrace._loader.remote.blocks import Landing, as_blocks, from_blocks
from millrace._loader.remote.maker import AnyKeys

Pair = collections.namedtuple("Pair", "a b")


def sent(value):
    """As through Ray: arrays arrive read-only, in one buffer each."""
    blocks = as_blocks(value)
    arrays = [np.frombuffer(array.tobytes(), np.uint8) for array in blocks.arrays]
    return from_blocks((blocks.skeleton, blocks.tensors, arrays), Landing(False))


@pytest.mark.parametrize("size", [0, 1, 3, 5000])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.bfloat16, torch.complex64])
def test_tensors(size, dtype):
    value = (torch.rand(size, 2, 3) * 100).to(dtype)
    again = sent({"x": value, "y": [value[:0], value.clone()]})
    assert torch.equal(again["x"], value)
    assert again["y"][0].shape == (0, 2, 3)
    assert torch.equal(again["y"][1], value)
    assert again["x"].dtype == dtype and not again["x"].requires_grad
    again["x"].zero_()  # may be written to, and is nobody else's
    assert torch.equal(again["y"][1], value)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.contiguous(memory_format=torch.channels_last),
        lambda x: x.permute(3, 0, 2, 1),
        lambda x: x.transpose(1, 2),
    ],
)
def test_the_order_in_memory_stays(view):
    value = view(torch.rand(2, 3, 4, 5))
    again = sent(value)
    assert torch.equal(again, value) and again.stride() == value.stride()


@pytest.mark.parametrize("view", [lambda x: x[:, ::2], lambda x: x[:1].expand(4, -1), lambda x: x.T[1:3]])
def test_gaps_and_repeats_arrive_dense(view):
    value = view(torch.arange(24.0).reshape(4, 6))
    assert torch.equal(sent(value), value) and sent(value).is_contiguous()


def test_one_tensor_twice_stays_one():
    value = torch.arange(3)
    first, second = sent([value, value])
    assert first is second


@pytest.mark.parametrize("count", [3, 100_000])
def test_arrays_and_everything_else(count):
    array = np.arange(count, dtype=np.float64).reshape(-1, 1)
    words = np.array(["a", None, {"b": 1}], object)
    value = Pair({"array": array, "words": words, "bytes": b"x" * count}, [1, 2.5, "text", None, {3}])
    again = sent(value)
    assert type(again) is Pair and again.b == value.b and again.a["bytes"] == value.a["bytes"]
    assert np.array_equal(again.a["array"], array) and again.a["array"].flags.writeable
    assert list(again.a["words"]) == list(words)


def test_tensors_of_other_kinds_go_as_they_pickle():
    sparse = torch.eye(3).to_sparse()
    marked = torch.nn.Parameter(torch.ones(2))
    again = sent([sparse, marked])
    assert torch.equal(again[0].to_dense(), torch.eye(3))
    assert type(again[1]) is torch.nn.Parameter and again[1].requires_grad


def test_what_cannot_be_pickled_is_an_error():
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        as_blocks([torch.ones(2), lambda: None])


def test_memory_is_used_again_when_nobody_looks_at_it():
    landing, shape = Landing(False), (64, 3, 64, 64)
    first = landing.tensor(shape, torch.uint8)
    where, view = first.data_ptr(), first[1]
    del first
    second = landing.tensor(shape, torch.uint8)
    assert second.data_ptr() != where, "a view still looks at it"
    del view
    assert landing.tensor(shape, torch.uint8).data_ptr() == where
    assert landing.tensor((64, 3, 64, 32), torch.float32).data_ptr() not in (where, second.data_ptr())


def test_memory_of_batches_that_are_kept_is_not_kept_for_others():
    landing = Landing(False, most=2)
    batches = [landing.tensor((2**19,), torch.uint8).fill_(number) for number in range(6)]
    assert [int(batch[-1]) for batch in batches] == list(range(6))
    assert len(landing._kept) == 2


def test_keys_of_any_index():
    keys = AnyKeys()
    assert keys.of([3, "a", (1, 2), 3])[1].tolist() == [0, 0, 0, 1]
    rows, counts = keys.of(np.array([3, 4]))
    assert rows == [3, 4] and counts.tolist() == [2, 0]
    assert keys.of([5])[1] is None
    keys.restart()
    assert keys.of(torch.tensor([3]))[1] is None
