"""BatchMemory leases slots to tensors; copy_rows puts rows into them and refuses what does not fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from millrace import _core

TABLE = np.arange(60, dtype=np.int32).reshape(20, 3)


def shares(indices, starts=(0, 20)):
    return _core.ChunkShares(np.array(indices, dtype=np.int64), np.array(starts, dtype=np.int64))


def copy(rows, out, table=TABLE, starts=(0, 20)):
    _core.copy_rows([(shares(rows, starts), 0, [_core.ChunkTable([table])], [out])])


def test_slots_come_back_and_run_out():
    memory = _core.BatchMemory([((64,), "float32"), ((), "bool")], 2)
    first, _ = memory.empty(1024)
    address = first.data_ptr()
    del first
    assert memory.empty(1000)[0].data_ptr() == address
    kept = [memory.empty(1024)[0] for _ in range(3)]
    assert len({tensor.data_ptr() for tensor in kept}) == 3 and memory.overflow_count() == 1
    large, small = memory.empty(3)
    assert (large.shape, large.dtype, small.shape, small.dtype) == ((3, 64), torch.float32, (3,), torch.bool)
    assert memory.overflow_count() == 1, "small ones have memory of their own"


@pytest.mark.parametrize("rows", [[4], [19, 0, 7, 7]])
def test_rows_in_their_order(rows):
    out = torch.full((len(rows), 3), -1, dtype=torch.int32)
    copy(rows, out)
    assert np.array_equal(out.numpy(), TABLE[np.array(rows, dtype=np.int64)])


def test_shares_of_several_arrays():
    wide = np.random.default_rng(0).random((50, 400))
    out = [torch.zeros((5, 3), dtype=torch.int32), torch.zeros((5, 400), dtype=torch.float64)]
    tables = [[TABLE, wide[:20]], [TABLE[::2], wide[::-1][:10]]]
    tables = [_core.ChunkTable(arrays) for arrays in tables]
    more = [torch.zeros((1, 3), dtype=torch.int32), torch.zeros((1, 400), dtype=torch.float64)]
    batch = shares([4, 29, 22, 20, 3], [0, 20, 30])
    _core.copy_rows([
        (batch, 0, tables[:1], out),
        (batch, 1, tables[1:], out),
        (shares([7]), 0, tables[:1], more),
        (shares([]), 0, [], []),
    ])  # fmt: skip
    assert np.array_equal(more[0].numpy()[0], TABLE[7]) and np.array_equal(more[1].numpy()[0], wide[7])
    assert np.array_equal(out[0].numpy(), np.stack([TABLE[4], TABLE[18], TABLE[4], TABLE[0], TABLE[3]]))
    assert np.array_equal(out[1].numpy(), np.stack([wide[4], wide[40], wide[47], wide[49], wide[3]]))


def test_tables_for_rows_in_any_order_hold_the_same_values():
    random, rows = np.random.default_rng(1), 4000
    arrays = [
        random.random(rows).astype(np.float16), random.integers(0, 9, (rows, 3)), random.random(rows) < 0.5,
        random.random((rows, 40)), random.random((rows, 2, 2)).astype(np.complex64), np.arange(rows)[::-1],
    ]  # fmt: skip
    table = _core.ChunkTable(arrays, in_any_order=True)
    for array, kept in zip(arrays, table.arrays):
        assert (
            kept.dtype == array.dtype
            and kept.shape == array.shape
            and np.array_equal(kept, array)
            and kept.flags.aligned
        )
    assert [kept.strides[0] != array.strides[0] for array, kept in zip(arrays, table.arrays)] == [
        True,
        True,
        True,
        False,
        True,
        False,
    ]
    with pytest.raises(ValueError, match="read-only"):
        table.arrays[0][0] = 1
    indices = random.permutation(rows)[:1000]
    out = [
        torch.empty((1000, *array.shape[1:]), dtype=torch.from_numpy(array[:1].copy()).dtype)
        for array in arrays
    ]
    _core.copy_rows([(shares(indices, [0, rows]), 0, [table], out)])
    kept = table.arrays[0]
    del table
    assert np.array_equal(kept, arrays[0]), "an array keeps the memory that it lies in"
    for array, tensor in zip(arrays, out):
        assert np.array_equal(tensor.numpy(), array[indices])


@pytest.mark.parametrize("count", [0, 1, 700])
def test_samples_are_sorted_by_chunk(count):
    random = np.random.default_rng(count)
    starts = np.concatenate(([0], np.cumsum(random.integers(0, 4, 300))))
    indices = random.integers(0, starts[-1], count)
    found = _core.ChunkShares(indices, starts)
    places, rows, chunks, bounds = found.places, found.rows, found.chunks, found.bounds
    assert (
        sorted(places.tolist()) == list(range(count))
        and bounds[-1] == count
        and chunks == sorted(set(chunks))
    )
    for chunk, begin, end in zip(chunks, bounds, bounds[1:]):
        own = places[begin:end]
        assert (np.diff(own) > 0).all() and end > begin
        assert np.array_equal(indices[own], rows[begin:end] + starts[chunk])
        assert (rows[begin:end] < starts[chunk + 1] - starts[chunk]).all()
    with pytest.raises(IndexError, match="lies in no chunk"):
        _core.ChunkShares(np.array([starts[-1]]), starts)


def test_orders_that_follow_the_data():
    starts = np.array([0, 50, 100])
    assert (
        shares(range(100), starts).in_order and shares([], starts).in_order and shares([7], starts).in_order
    )
    assert not shares(range(99, -1, -1), starts).in_order and not shares([3, 90, 12, 55], starts).in_order


def test_what_counts_as_indices():
    assert _core.are_indices(np.arange(5), 5) and _core.are_indices(np.arange(0), 0)
    for wrong in (
        [0, 1],
        np.arange(6),
        np.array([-1]),
        np.arange(5, dtype=np.int32),
        np.arange(4).reshape(2, 2),
        np.arange(5)[::2],
        None,
    ):
        assert not _core.are_indices(wrong, 5)


def test_what_does_not_fit():
    out = torch.zeros((2, 3), dtype=torch.int32)
    with pytest.raises(IndexError, match="outside the array's 20"):
        copy([0, 20], out, starts=[0, 30])
    with pytest.raises(ValueError, match="do not fit"):
        copy([0, 1], out, table=TABLE[:, :2].copy())
    with pytest.raises(ValueError, match="contiguous"):
        copy([0, 1], torch.zeros((2, 2), dtype=torch.int32), table=TABLE[:, ::2])
    with pytest.raises(ValueError, match="a row for each sample"):
        copy([0], out)
    with pytest.raises(ValueError, match="one array per tensor"):
        _core.copy_rows([(shares([0]), 0, [_core.ChunkTable([TABLE, TABLE])], [out[:1]])])
    with pytest.raises(ValueError, match="more tables than chunks"):
        _core.copy_rows([(shares([0, 1]), 1, [_core.ChunkTable([TABLE])], [out])])
    with pytest.raises(ValueError, match="as many rows"):
        _core.ChunkTable([TABLE, TABLE[:5]])
    with pytest.raises(ValueError, match="dtype 'text' is not one"):
        _core.BatchMemory([((1,), "text")], 1)
