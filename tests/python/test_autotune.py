"""num_workers="auto", prefetch_factor="auto" in real loaders: the same data whatever is chosen, budgets, the
file, what is told.
"""

from __future__ import annotations

import copy
import itertools
import json
import logging
import os
import pickle
import random
import stat
import threading
import warnings

import millrace
import numpy as np
import pytest
import torch
from millrace._loader.arguments import Auto
from millrace._loader.tuning import Budget, Setting
from millrace._loader.tuning.tune_file import fingerprint, read_choice, write_choice
from torch.utils.data import Dataset, IterableDataset, TensorDataset, get_worker_info

AUTO = {"num_workers": "auto", "prefetch_factor": "auto"}


class Drawing(Dataset):
    """Samples that depend on the worker's generators, and on how many tasks it has had."""

    def __len__(self):
        return 160

    def __getitem__(self, index):
        worker = get_worker_info()
        return index, worker.id, torch.rand(3), random.random(), np.random.rand()


class Counting(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        return iter([(worker.id, i) for i in range(30 + 7 * worker.id)])


@pytest.fixture(autouse=True)
def four_cpus(monkeypatch):
    monkeypatch.setattr("millrace._core.cpu_budget", lambda: {"cpus": 4.0, "threads": 4, "reason": "test"})
    monkeypatch.setattr(torch._utils, "cpu_count", lambda: 4)
    monkeypatch.delenv("MILLRACE_TUNE_FILE", raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)


def epoch(loader, disturb=False):
    """An epoch's batches; `disturb`: other limits are in force behind each batch."""
    torch.manual_seed(3)
    settings = itertools.cycle([(1, 2), (8, 17), (2, 3), (5, 9), (1, 12)])
    batches = []
    for batch in loader:
        batches.append(batch)
        if disturb:
            loader._millrace_tuning._apply(*next(settings))
    return batches


def same(first, second):
    assert len(first) == len(second) > 0
    for a, b in zip(first, second):
        for x, y in zip(a, b):
            assert torch.equal(x, y)


# -- arguments
# ------------------------------------------------------------------------------------------------------------


def test_auto_is_a_number_that_remembers():
    loader = millrace.DataLoader(range(8), **AUTO)
    assert (loader.num_workers, loader.prefetch_factor) == (8, 2) and isinstance(loader.num_workers, int)
    assert str(loader.num_workers) == "8" and json.dumps(loader.num_workers) == "8"
    prefetch = pickle.loads(pickle.dumps(loader.prefetch_factor))
    again = millrace.DataLoader(range(8), num_workers=loader.num_workers, prefetch_factor=prefetch)
    assert isinstance(again.num_workers, Auto) and isinstance(again.prefetch_factor, Auto)
    assert millrace.DataLoader(range(8), prefetch_factor="auto").prefetch_factor is None


def test_without_auto_nothing_is_tuned():
    loader = millrace.DataLoader(torch.rand(64, 4), 8, num_workers=2)
    list(loader)
    assert "tuned" not in loader.stats() and "tuning" not in loader.explain()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_workers": "many"}, 'neither a number nor "auto"'),
        ({"num_workers": 2, "prefetch_factor": "all"}, 'neither a number nor "auto"'),
        ({"memory_budget": 0}, "neither a number of bytes nor a share"),
        ({"memory_budget": 1.5}, "neither a number of bytes nor a share"),
        ({"memory_budget": True}, "neither a number of bytes nor a share"),
        ({"memory_budget": "1 GB"}, "neither a number of bytes nor a share"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        millrace.DataLoader(range(8), **arguments)


# -- the same data
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("method", ["process", "thread"])
def test_workers_batches_do_not_depend_on_what_is_chosen(method):
    options = {
        "batch_size": 4,
        "shuffle": True,
        "worker_method": method,
        "persistent_workers": method == "process",
    }
    fixed = millrace.DataLoader(Drawing(), num_workers=8, prefetch_factor=2, **options)
    tuned = millrace.DataLoader(Drawing(), **AUTO, **options)
    if method == "process":
        for _ in range(2):
            same(epoch(fixed), epoch(tuned, disturb=True))
    else:  # threads share their generators
        for a, b in zip(epoch(fixed), epoch(tuned, disturb=True)):
            assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
    assert tuned.stats()["tuned"]["tunes"] == ["threads", "slots"]


def test_an_epoch_that_is_left_early_does_not_hold_up_the_next():
    loader = millrace.DataLoader(Drawing(), 4, persistent_workers=True, **AUTO)
    for _ in range(3):
        iterator = iter(loader)
        next(iterator)
        loader._millrace_tuning._apply(1, 2)
    assert len(list(loader)) == 40


def test_streams_of_python_end_as_without_tuning():
    batches = [
        list(millrace.DataLoader(Counting(), 4, **options))
        for options in ({"num_workers": 4}, {"num_workers": "auto"}, AUTO)
    ]
    for other in batches[1:]:
        assert sorted(str(b) for b in batches[0]) == sorted(str(b) for b in other)


@pytest.mark.parametrize("kind", ["rows", "pictures", "pool"])
def test_native_batches_do_not_depend_on_what_is_chosen(kind, tmp_path):
    if kind == "rows":
        dataset, size = TensorDataset(torch.rand(400, 20_000), torch.arange(400)), 16
    elif kind == "pictures":
        from PIL import Image

        (tmp_path / "a").mkdir()
        for i in range(60):
            Image.effect_noise((90, 70), i + 1).convert("RGB").save(tmp_path / "a" / f"{i:03}.jpg")
        chain = millrace.transforms.Compose(
            [millrace.transforms.RandomResizedCrop(32), millrace.transforms.ToTensor()]
        )
        dataset, size = millrace.datasets.ImageFolder(str(tmp_path), chain), 3
    else:
        pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        pq.write_table(
            pa.table({"x": np.arange(4000), "y": np.random.rand(4000)}),
            tmp_path / "t.parquet",
            row_group_size=500,
        )
        dataset, size = millrace.datasets.Parquet(str(tmp_path / "t.parquet")), 50
    fixed = millrace.DataLoader(dataset, size, shuffle=True, num_workers=4, native="require")
    tuned = millrace.DataLoader(dataset, size, shuffle=True, native="require", **AUTO)
    values = [
        [list(b.values()) if isinstance(b, dict) else b for b in epoch(*arguments)]
        for arguments in ((fixed,), (tuned, True))
    ]
    same(*values)


def test_a_resumed_epoch_goes_on_where_it_was():
    options = {"batch_size": 4, "shuffle": True}
    whole = epoch(millrace.DataLoader(torch.arange(200.0).reshape(100, 2), **AUTO, **options))
    loader = millrace.DataLoader(torch.arange(200.0).reshape(100, 2), **AUTO, **options)
    torch.manual_seed(3)
    iterator = iter(loader)
    first = [next(iterator) for _ in range(7)]
    state = loader.state_dict()
    again = millrace.DataLoader(torch.arange(200.0).reshape(100, 2), **AUTO, **options)
    again.load_state_dict(state)
    assert torch.equal(torch.cat(first + list(again)), torch.cat(whole))


# -- budgets
# ------------------------------------------------------------------------------------------------------------


class Concurrent(Dataset):
    """Counts batches that are begun and not handed out: by threads, so that the test sees it."""

    def __init__(self):
        self.lock, self.active, self.most = threading.Lock(), 0, 0

    def __len__(self):
        return 400

    def __getitem__(self, index):
        with self.lock:
            self.active += 1
            self.most = max(self.most, self.active)
        data = torch.full((5000,), float(index))
        with self.lock:
            self.active -= 1
        return data


def test_memory_is_never_more_than_the_budget():
    batch = 8 * 5000 * 4
    loader = millrace.DataLoader(
        Concurrent(), 8, worker_method="thread", memory_budget=5 * batch + 10, **AUTO
    )
    for _ in range(3):
        iterator = iter(loader)
        for handed, _ in enumerate(iterator):
            engine = iterator._engine
            assert engine._schedule.sent - len(engine._held) - handed <= 5  # the one in our hands included
    tuned = loader.stats()["tuned"]
    assert tuned["batch_bytes"] == batch and tuned["peak_bytes"] <= 5 * batch and tuned["slots"] <= 5
    assert "781 KiB at most" in loader.explain() and "budget: 4 CPUs, 781 KiB of memory" in loader.explain()


def test_native_slots_stay_within_the_budget():
    rows = torch.rand(600, 30_000)
    loader = millrace.DataLoader(rows, 20, native="require", memory_budget=3 * 20 * 30_000 * 4, **AUTO)
    list(loader)
    for _ in loader:
        assert 2 <= loader.stats()["slots"] <= 3
    assert loader.stats()["overflow_slots"] == 0


def test_two_batches_must_fit():
    loader = millrace.DataLoader(torch.rand(64, 1000), 8, memory_budget=50_000, **AUTO)
    with pytest.raises(ValueError, match=r"leaves 50000 bytes .* two of them take 64000: give at least that"):
        list(loader)


def test_ranks_of_a_node_share(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert Budget.of_machine(4000).memory_bytes == 1000 and Budget.of_machine(4000).pinned_bytes == 500
    monkeypatch.setattr("millrace._core.memory_budget", lambda: (80_000, "the test"))
    assert Budget.of_machine(None).memory_bytes == 2000 and Budget.of_machine(0.5).memory_bytes == 10_000
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "none")
    assert Budget.of_machine(None).memory_bytes == 8000


# -- the file
# ------------------------------------------------------------------------------------------------------------


def settle(loader):
    """Times that no machine decides: the consumer is the limit."""
    tuning = loader._millrace_tuning
    for _ in range(3000):
        tuning.controller.note(0.0, 0.02)
        if tuning.controller.settled:
            break
    tuning._keep()
    return tuning.controller.setting


def test_what_was_found_is_where_the_next_run_begins(tmp_path, caplog):
    path = tmp_path / "runs" / "tune.json"
    data = torch.rand(256, 4)
    first = millrace.DataLoader(data, 8, tune_file=path, **AUTO)
    with caplog.at_level(logging.DEBUG, "millrace.tuning"):
        list(first)
        found = settle(first)
    assert found.threads == 1 and [
        r.message for r in caplog.records if r.message.startswith("tuned: 1 of 8 threads")
    ]
    second = millrace.DataLoader(data, 8, tune_file=str(path), **AUTO)
    assert "from the file of tuned settings" in second.explain()
    list(second)
    tuned = second.stats()["tuned"]
    assert (tuned["threads"], tuned["slots"], tuned["from_file"], tuned["searches"]) == (
        found.threads,
        found.slots,
        True,
        0,
    )
    other = millrace.DataLoader(data, 16, tune_file=path, **AUTO)
    list(other)
    assert not other.stats()["tuned"]["from_file"]
    entry = next(iter(json.loads(path.read_text())["runs"].values()))
    assert entry["what"]["dataset"] == "torch.Tensor" and entry["what"]["batch_size"] == 8


def test_the_file_may_be_named_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MILLRACE_TUNE_FILE", str(tmp_path / "tune.json"))
    loader = millrace.DataLoader(torch.rand(64, 4), 8, **AUTO)
    list(loader)
    settle(loader)
    assert (tmp_path / "tune.json").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 9, "runs": {}}', '{"version": 1}'])
def test_a_file_that_is_not_ours_is_left_alone(tmp_path, text):
    path = tmp_path / "tune.json"
    path.write_text(text)
    loader = millrace.DataLoader(torch.rand(64, 4), 8, tune_file=path, **AUTO)
    with pytest.warns(UserWarning, match="is not used"):
        list(loader)
    with pytest.warns(UserWarning, match="not kept"):
        settle(loader)
    assert path.read_text() == text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader._millrace_tuning._keep()  # said once


def test_an_entry_that_is_damaged_is_searched_anew(tmp_path):
    path, what = tmp_path / "tune.json", {"dataset": "x"}
    write_choice(path, what, Setting(2, 3), 10, 5.0)
    content = json.loads(path.read_text())
    content["runs"][fingerprint(what)]["threads"] = "many"
    path.write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="no tuned setting"):
        assert read_choice(path, what) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.warns(UserWarning, match="not kept"):
        assert not write_choice(tmp_path / "tune.json", {}, Setting(1, 2), None, 1.0)
    tmp_path.chmod(0o700)


def test_a_folder_that_cannot_be_made_costs_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="not kept"):
        assert not write_choice(tmp_path / "file" / "tune.json", {}, Setting(1, 2), None, 1.0)


def test_writers_at_once_lose_nothing(tmp_path):
    path = tmp_path / "tune.json"
    threads = [
        threading.Thread(target=write_choice, args=(path, {"n": i}, Setting(1 + i, 3), i, 1.0))
        for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [read_choice(path, {"n": i}) for i in range(12)] == [Setting(1 + i, 3) for i in range(12)]


# -- what is told, and copies
# ----------------------------------------------------------------------------------------------------


def test_explain_says_what_is_fixed_and_why():
    assert millrace.DataLoader(Drawing(), in_order=False, **AUTO).num_workers == 4  # all of which work
    assert "in_order=False" in millrace.DataLoader(Drawing(), in_order=False, **AUTO).explain()
    assert 'on_error="skip"' in millrace.DataLoader(Drawing(), 4, on_error="skip", **AUTO).explain()
    only = millrace.DataLoader(Drawing(), 4, num_workers=3, prefetch_factor="auto").explain()
    assert "tuning: 3 worker processes, " in only


def test_threads_alone_leave_the_queue_as_it_was_asked_for():
    loader = millrace.DataLoader(Drawing(), 4, num_workers="auto", prefetch_factor=3)
    list(loader)
    tuned = loader.stats()["tuned"]
    assert tuned["tunes"] == ["threads"] and tuned["slots"] == 3 * tuned["threads"] + 1


def test_copies_of_a_tuned_loader_work():
    loader = millrace.DataLoader(torch.rand(64, 4), 8, **AUTO)
    iterator = iter(loader)
    next(iterator)
    for twin in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert len(list(twin)) == 8 and twin.stats()["tuned"]["batch_bytes"] == 128
    assert len(list(iterator)) == 7


def test_reports_are_json():
    loader = millrace.DataLoader(Drawing(), 4, **AUTO)
    list(loader)
    assert json.loads(json.dumps(loader.stats()["tuned"])) == loader.stats()["tuned"]
