"""What listens to a running loader costs a step few calls, and none where it is not there."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import millrace
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

PACKAGE = Path(millrace.__file__).parent
STEPS = 32
PARTS = ("_history", "_loader/tuning", "_loader/states", "_loader/iterator.py", "samplers")


class Numbers(Dataset):
    def __len__(self):
        return 1 << 14

    def __getitem__(self, i):
        return i


def calls(loader, before):
    """Calls of Python functions for a step, after so many, by the part of the package whose they are."""
    iterator, found = iter(loader), Counter()
    for _ in range(before):
        next(iterator)

    def heard(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            found.update(part for part in PARTS if name.startswith(part))

    sys.setprofile(heard)
    try:
        for _ in range(STEPS):
            next(iterator)
    finally:
        sys.setprofile(None)
    # Now and then a sampler reads a chunk ahead, or the generators are glanced at.
    return {part: found[part] // STEPS for part in PARTS}


TENSORS = TensorDataset(torch.arange(1 << 14))
LISTS = {"_loader/iterator.py": 3, "_loader/states": 2, "samplers": 1}


@pytest.mark.parametrize(
    ("dataset", "arguments", "most"),
    [
        (Numbers(), {"num_workers": 2}, {**LISTS, "_loader/states": 6, "_history": 1}),
        (Numbers(), {}, {**LISTS, "_loader/states": 3, "_history": 1}),
        (TENSORS, {}, {**LISTS, "samplers": 3, "_history": 1}),
        (TENSORS, {"num_workers": 2}, {**LISTS, "samplers": 3, "_history": 1}),
        (TENSORS, {"num_workers": 2, "history": False}, {**LISTS, "samplers": 3}),
        (Numbers(), {"history": False}, {**LISTS, "_loader/states": 3}),
        (
            TENSORS,
            {"num_workers": "auto", "history": millrace.BatchHistory(64)},
            {**LISTS, "samplers": 3, "_history": 2, "_loader/tuning": 8},
        ),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else None,
)
def test_a_step_makes_few_calls(dataset, arguments, most):
    """As many steps later, a history is full: it forgets one with each."""
    found = calls(millrace.DataLoader(dataset, 2, shuffle=True, **arguments), before=256)
    assert {part: count for part, count in found.items() if count > most.get(part, 0)} == {}
