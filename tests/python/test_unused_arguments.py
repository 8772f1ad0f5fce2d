"""Arguments that have no effect on a loader are said to have none, once where it is made or iterated over."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from millrace import DataLoader
from test_resume import Squares
from torch.utils.data import TensorDataset

ROWS = TensorDataset(torch.arange(12))
WORKERS = {"num_workers": 2}
THREADS = {**WORKERS, "native": "never", "worker_method": "thread"}


def told(*arguments, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        loader = DataLoader(*arguments, 4, **options)
        list(loader)
    assert all(warning.filename == __file__ for warning in found if "has no effect" in str(warning.message))
    return [str(warning.message) for warning in found]


@pytest.mark.parametrize(
    "options, name, other",
    [
        ({"memory_budget": 1 << 30}, "memory_budget=1073741824", '"auto"'),
        ({"memory_budget": 0.5, **WORKERS}, "memory_budget=0.5", '"auto"'),
        ({"memory_budget": 0.25, "prefetch_factor": 4, **WORKERS}, "memory_budget=0.25", '"auto"'),
        ({"tune_file": "tune.json"}, "tune_file='tune.json'", '"auto"'),
        ({"tune_file": "tune.json", "prefetch_factor": 3, **WORKERS}, "tune_file='tune.json'", '"auto"'),
        ({"prefetch_to_device": 4}, "prefetch_to_device=4", "device="),
        ({"prefetch_to_device": 1, **WORKERS}, "prefetch_to_device=1", "device="),
        ({"remote_workers": 8, **WORKERS}, "remote_workers=8", 'remote="ray"'),
        ({"remote_workers": {"actors": 2}}, "remote_workers={'actors': 2}", 'remote="ray"'),
    ],
)
def test_without_another_argument(options, name, other):
    (text,) = told(ROWS, **options)
    assert text.startswith(f"{name} has no effect without") and other in text


@pytest.mark.parametrize(
    "dataset, options, says",
    [
        (ROWS, {**WORKERS, "in_order": False}, "in_order=False has no effect natively"),
        (
            ROWS,
            {"num_workers": 1, "in_order": False, "shuffle": True},
            "in_order=False has no effect natively",
        ),
        (torch.arange(12), {**WORKERS, "in_order": False}, "in_order=False has no effect natively"),
        (ROWS, {**WORKERS, "multiprocessing_context": "fork"}, 'no effect on threads.*native="never"'),
        (ROWS, {**WORKERS, "multiprocessing_context": "spawn"}, 'no effect on threads.*native="never"'),
        (
            Squares(),
            {**THREADS, "multiprocessing_context": "fork"},
            'no effect on threads.*worker_method="process"',
        ),
    ],
)
def test_on_the_engine_that_runs(dataset, options, says):
    with pytest.warns(UserWarning, match=says):
        assert len(told(dataset, **options)) == 1
        list(DataLoader(dataset, 4, **options))


def test_each_of_several_is_named():
    texts = told(ROWS, memory_budget=0.5, tune_file="x", prefetch_to_device=3, in_order=False, **WORKERS)
    assert [text.split("=")[0] for text in texts] == [
        "memory_budget",
        "tune_file",
        "prefetch_to_device",
        "in_order",
    ]


@pytest.mark.parametrize(
    "dataset, options",
    [
        (ROWS, {}),
        (ROWS, {"memory_budget": 0.5, "num_workers": "auto"}),
        (ROWS, {"memory_budget": 0.5, "prefetch_factor": "auto", **WORKERS}),
        (ROWS, {"prefetch_to_device": 3, "device": "cpu"}),
        (ROWS, {"prefetch_to_device": 2}),
        (ROWS, {"in_order": False}),  # torch's, too, has no use for it without workers
        (Squares(), {"in_order": False, **WORKERS}),
        (Squares(), {"in_order": False, **THREADS}),
        (Squares(), {"multiprocessing_context": "fork", **WORKERS}),
    ],
)
def test_nothing_is_said_of_what_counts(dataset, options):
    assert not [text for text in told(dataset, **options) if "no effect" in text]


def test_a_copy_says_nothing_twice():
    with pytest.warns(UserWarning, match="memory_budget"):
        loader = DataLoader(ROWS, 4, memory_budget=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(copy.copy(loader))
