"""An engine is a class and a line: one that is written here serves a loader, its states and its errors."""

from __future__ import annotations

import re
import threading
from collections import deque
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from millrace import DataLoader, _core
from millrace._loader.engine import Delivered, Engine, PythonSpec, Setup
from millrace._loader.engines.batches import BatchPool, BatchSpec
from millrace._loader.engines.core import Core
from millrace._loader.engines.inline import InlineEngine
from millrace._loader.engines.native import DeviceCore, DeviceImageSpec, ImageSpec, NativeEngine
from millrace._loader.engines.prefix import PrefixSpec
from millrace._loader.engines.processes import ProcessEngine
from millrace._loader.engines.python import PYTHON
from millrace._loader.engines.rows import RowsCore, RowsSpec
from millrace._loader.engines.stream import StreamSpec
from millrace._loader.engines.stream_engine import StreamEngine
from millrace._loader.engines.threads import ThreadEngine
from millrace._loader.remote.core import RemoteCore
from millrace.datasets.batches import BatchMaker
from torch.utils.data import Dataset

README = (Path(__file__).resolve().parents[2] / "src/README.md").read_text()
PROTOCOLS = {
    Engine: [NativeEngine, StreamEngine, ProcessEngine, ThreadEngine, InlineEngine],
    Core: [_core.Loader, DeviceCore, RowsCore, BatchPool, RemoteCore],
}


def calls(protocol):
    """What is a method or property of it."""
    return {name for name, value in vars(protocol).items() if name[0] != "_" and not isinstance(value, str)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_map_has_the_calls_and_the_classes(protocol):
    """That each class has the calls, with their arguments, mypy says of all but those that C++ makes."""
    heading = "| call of a core |" if protocol is Core else "| call |"
    table, _, behind = README.partition(heading)[2].partition("\n\n")
    named = set(re.findall(r"`(\w+)", "".join(row.split("|")[1] for row in table.splitlines()[2:])))
    assert named == calls(protocol) - {"outstanding"}
    for cls in PROTOCOLS[protocol]:
        assert f"{cls.__name__}` |" in behind.partition("\n\n")[0]
        assert protocol is Engine or calls(protocol) <= set(dir(cls))


class Negative:
    """Batches of negated indices, made when they are asked for; index 13 is an error."""

    lists_ahead = 0
    fetcher = None
    pins = False
    set_limits = rows = None

    def __init__(self, setup: Setup) -> None:
        self.workers = []
        self.lists = deque()
        self.made = 0
        self.closed = False

    @property
    def outstanding(self):
        return len(self.lists)

    def start_epoch(self, seed, epoch, shared_seed=None):
        self.lists.clear()

    def submit(self, index):
        self.lists.append(index)

    def end_epoch(self):
        pass

    def next(self, timeout):
        if not self.lists:
            return None
        index = self.lists.popleft()
        self.made += 1
        if 13 in index:
            return Delivered(None, error=LookupError("no 13"))
        return Delivered(-torch.tensor(index))

    def close(self):
        self.closed = True

    def stats(self):
        return {"samples": 0, "batches": self.made, "bytes": 0, "left_out": 0, "errors": []} | {
            "seconds": {}, "wait_seconds": 0.0, "slots": 0, "overflow_slots": 0
        }  # fmt: skip

    def uncount(self):
        pass

    def snapshot(self, stacks):
        return {"workers": [], "queue": {"outstanding": self.outstanding}}


class Numbers(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        raise AssertionError("the engine does not ask for samples")


@pytest.mark.parametrize("workers", [0, 2])
def test_it_serves_a_loader(monkeypatch, workers):
    engine: Engine = Negative(None)  # mypy compares it with the protocol where it is run over this file
    assert engine.outstanding == 0
    monkeypatch.setitem(PYTHON, "processes" if workers else "inline", PythonSpec(Negative))
    loader = DataLoader(Numbers(), 4, num_workers=workers)
    iterator = iter(loader)
    assert [next(iterator).tolist() for _ in range(3)] == [[-4 * k - r for r in range(4)] for k in range(3)]
    with pytest.raises(LookupError, match="no 13"):
        next(iterator)
    state = loader.state_dict()
    assert next(iterator).tolist() == [-16, -17, -18, -19]
    with pytest.raises(StopIteration):
        next(iterator)
    assert loader.stats()["batches"] == 5 and loader.dump_state()["loaders"][0]["iterator"] == "shut down"
    resumed = DataLoader(Numbers(), 4, num_workers=workers)
    resumed.load_state_dict(state)
    assert [batch.tolist() for batch in resumed] == [[-16, -17, -18, -19]]


def test_a_native_engine_of_ones_own(monkeypatch):
    from millrace._loader.plan import Plan

    class Spec(PythonSpec):
        native = True

    monkeypatch.setattr("millrace._loader.plan.make_plan", lambda loader, explained: Plan((), Spec(Negative)))
    loader = DataLoader(Numbers(), 10, native="require")
    assert next(iter(loader)).tolist() == [-n for n in range(10)] and loader.stats()["engine"] == "inline"


@pytest.mark.parametrize(
    "spec", [PythonSpec, PrefixSpec, ImageSpec, DeviceImageSpec, RowsSpec, BatchSpec, StreamSpec]
)
def test_three_flags_at_most_say_how_a_spec_is_treated(spec):
    of_its_own = {field.name for field in fields(spec)}
    flags = {name for name in dir(spec) if type(getattr(spec, name)) is bool} - of_its_own
    assert {"native", "leaves_out"} <= flags and len(flags) <= 3


class Locked(BatchMaker):
    """Batches made under a lock, where the garbage collector finds the pool."""

    def __init__(self) -> None:
        self.lock, self.waiting = threading.Lock(), threading.Event()
        self.ended = threading.Event()

    def make(self, ticket: Any) -> Any:
        if ticket[0] == 1:
            self.waiting.set()
        with self.lock:
            if ticket[0] == 0:
                self.waiting.wait()
                self.pool.close()
                self.out = True
            return ticket

    def close(self) -> None:
        assert self.out
        self.ended.set()


def test_a_pool_that_is_closed_inside_of_its_maker_waits_for_nobody():
    maker = Locked()
    maker.pool = BatchPool(maker, 2, 4)
    maker.pool.start_epoch(0, 0)
    for number in range(2):
        maker.pool.submit(np.array([number]))
    assert maker.ended.wait(60)
