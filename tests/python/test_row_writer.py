"""Rows written into slots: what an error leaves behind does not reach the next batch."""

import torch
from millrace import _core


def test_a_batch_that_an_error_ended_leaves_nothing_to_the_next():
    ring = _core.SharedRing(8, 8)
    writer, first, second = _core.RowWriter(ring), ring.take(), ring.take()
    writer.begin(first, 0, 4)
    assert writer.add(torch.zeros(100_000))  # brings its memory along; then the dataset raises
    reserved = ring.put(second, 0, bytes(2_000_000), 0)
    writer.begin(second, reserved, 3)
    assert not writer.add(object())
    assert writer.reserved_bytes == reserved
