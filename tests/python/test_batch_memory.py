"""BatchMemory lends slots to tensors; copy_rows puts rows into them and refuses what does not fit."""
from __future__ import annotations

import numpy as np
import pytest
import torch

from millrace import _core

TABLE = np.arange(60, dtype=np.int32).reshape(20, 3)


def copy(rows, out, places=None, table=TABLE):
    rows = np.array(rows, dtype=np.int64)
    places = np.arange(len(rows)) if places is None else np.array(places, dtype=np.int64)
    _core.copy_rows([([_core.ChunkTable([table])], rows, places, [0, len(rows)], [out])])


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


@pytest.mark.parametrize("rows", [[], [4], [19, 0, -1, 7, 7]])
def test_rows_in_order_and_to_places(rows):
    out = torch.full((len(rows), 3), -1, dtype=torch.int32)
    copy(rows, out)
    rows = np.array(rows, dtype=np.int64)
    assert np.array_equal(out.numpy(), TABLE[rows])
    copy(rows, out, np.arange(len(rows))[::-1])
    assert np.array_equal(out.numpy(), TABLE[rows][::-1])


def test_shares_of_several_arrays():
    wide = np.random.default_rng(0).random((50, 400))
    out = [torch.zeros((5, 3), dtype=torch.int32), torch.zeros((5, 400), dtype=torch.float64)]
    tables = [[TABLE, wide[:20]], [TABLE[::2], wide[::-1][:10]]]
    tables = [_core.ChunkTable(arrays) for arrays in tables]
    more = [torch.zeros((1, 3), dtype=torch.int32), torch.zeros((1, 400), dtype=torch.float64)]
    _core.copy_rows([
        (tables, np.array([3, 4, 0, 9, 2]), np.array([4, 0, 3, 1, 2]), [0, 2, 5], out),
        (tables[:1], np.array([7]), np.array([0]), [0, 1], more),
        ([], np.array([], dtype=np.int64), np.array([], dtype=np.int64), [0], []),
    ])
    assert np.array_equal(more[0].numpy()[0], TABLE[7]) and np.array_equal(more[1].numpy()[0], wide[7])
    assert np.array_equal(out[0].numpy(), np.stack([TABLE[4], TABLE[18], TABLE[4], TABLE[0], TABLE[3]]))
    assert np.array_equal(out[1].numpy(), np.stack([wide[4], wide[40], wide[47], wide[49], wide[3]]))


@pytest.mark.parametrize("count", [0, 1, 700])
def test_samples_are_sorted_by_chunk(count):
    random = np.random.default_rng(count)
    starts = np.concatenate(([0], np.cumsum(random.integers(0, 4, 300))))
    indices = random.integers(0, starts[-1], count)
    places, rows, chunks, bounds = _core.chunk_shares(indices, starts)
    assert sorted(places.tolist()) == list(range(count)) and bounds[-1] == count and chunks == sorted(set(chunks))
    for chunk, begin, end in zip(chunks, bounds, bounds[1:]):
        own = places[begin:end]
        assert (np.diff(own) > 0).all() and end > begin
        assert np.array_equal(indices[own], rows[begin:end] + starts[chunk])
        assert (rows[begin:end] < starts[chunk + 1] - starts[chunk]).all()
    with pytest.raises(IndexError, match="lies in no chunk"):
        _core.chunk_shares(np.array([starts[-1]]), starts)


def test_what_does_not_fit():
    out = torch.zeros((2, 3), dtype=torch.int32)
    with pytest.raises(IndexError, match="outside the array's 20"):
        copy([0, 20], out)
    with pytest.raises(IndexError, match="place 2 is outside"):
        copy([0, 1], out, [0, 2])
    with pytest.raises(ValueError, match="do not fit"):
        copy([0, 1], out, table=TABLE[:, :2].copy())
    with pytest.raises(ValueError, match="contiguous"):
        copy([0, 1], torch.zeros((2, 2), dtype=torch.int32), table=TABLE[:, ::2])
    with pytest.raises(ValueError, match="each row needs one place"):
        copy([0, 1], out, [0])
    for bounds in ([0], [0, 3], [-1, 2], [0, 1, 2]):
        with pytest.raises(ValueError, match="bounds"):
            _core.copy_rows([([_core.ChunkTable([TABLE])], np.array([0, 1]), np.array([0, 1]), bounds, [out])])
    with pytest.raises(ValueError, match="one array per tensor"):
        _core.copy_rows([([_core.ChunkTable([TABLE, TABLE])], np.array([0]), np.array([0]), [0, 1], [out])])
    with pytest.raises(ValueError, match="as many rows"):
        _core.ChunkTable([TABLE, TABLE[:5]])
    with pytest.raises(ValueError, match="dtype 'text' is not one"):
        _core.BatchMemory([((1,), "text")], 1)
