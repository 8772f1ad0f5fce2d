"""BatchMemory lends slots to tensors; copy_rows puts rows into them and refuses what does not fit."""
from __future__ import annotations

import numpy as np
import pytest
import torch

from millrace import _core

TABLE = np.arange(60, dtype=np.int32).reshape(20, 3)


def test_slots_come_back_and_run_out():
    memory = _core.BatchMemory(1, 2)
    first = memory.empty(0, (1024, 64), "float32")
    address = first.data_ptr()
    del first
    assert memory.empty(0, (1000, 64), "float32").data_ptr() == address
    kept = [memory.empty(0, (1024, 64), "int16") for _ in range(3)]
    assert len({tensor.data_ptr() for tensor in kept}) == 3 and memory.overflow_count() == 1
    small = memory.empty(0, (3,), "bool")
    assert small.dtype is torch.bool and small.shape == (3,) and memory.overflow_count() == 1


@pytest.mark.parametrize("rows", [[], [4], [19, 0, -1, 7, 7]])
def test_rows_in_order_and_to_places(rows):
    rows = np.array(rows, dtype=np.int64)
    out = torch.full((len(rows), 3), -1, dtype=torch.int32)
    _core.copy_rows(TABLE, rows, out)
    assert np.array_equal(out.numpy(), TABLE[rows])
    places = np.arange(len(rows), dtype=np.int64)[::-1].copy()
    _core.copy_rows(TABLE, rows, out, places)
    assert np.array_equal(out.numpy(), TABLE[rows][::-1])


def test_what_does_not_fit():
    two, out = np.array([0, 1]), torch.zeros((2, 3), dtype=torch.int32)
    with pytest.raises(IndexError, match="outside the array's 20"):
        _core.copy_rows(TABLE, np.array([0, 20]), out)
    with pytest.raises(IndexError, match="place 2 is outside"):
        _core.copy_rows(TABLE, two, out, np.array([0, 2]))
    with pytest.raises(IndexError, match="more rows than places"):
        _core.copy_rows(TABLE, np.array([0, 1, 2]), out)
    with pytest.raises(ValueError, match="do not fit"):
        _core.copy_rows(TABLE[:, :2].copy(), two, out)
    with pytest.raises(ValueError, match="contiguous"):
        _core.copy_rows(TABLE[:, ::2], two, torch.zeros((2, 2), dtype=torch.int32))
    with pytest.raises(ValueError, match="each row needs one place"):
        _core.copy_rows(TABLE, two, out, np.array([0]))
    with pytest.raises(ValueError, match="dtype 'text' is not one"):
        _core.BatchMemory(1, 1).empty(0, (1,), "text")
