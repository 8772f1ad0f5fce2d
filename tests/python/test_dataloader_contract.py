"""What users and frameworks do with a loader besides iterating: subclass, inspect, rebuild, copy, pickle,
ask.
"""

import copy
import functools
import inspect
import pickle
import sys
import types
import warnings
from typing import Generic, TypeVar

import millrace
import pytest
import torch
from loader_data import SIZE, Indices, make_folder, pictures
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, Subset
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

COUNT = 10
TUNING = ["memory_budget", "tune_file", "remote", "remote_workers"]
RANKS = (
    "equal_steps",
    "auto_epoch",
    "process_group",
    "mesh_dim",
    "device",
    "prefetch_to_device",
    "decode",
    "history",
)
T = TypeVar("T")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("contract")
    make_folder(root, COUNT)
    return str(root)


@pytest.fixture
def dataset(root):
    return pictures(root)


def order(loader):
    return [labels.tolist() for _, labels in loader]


# -- the class
# ------------------------------------------------------------------------------------------------------------


def test_it_is_a_torch_loader_and_generic():
    assert issubclass(millrace.DataLoader, torch.utils.data.DataLoader)
    assert millrace.DataLoader[int](Indices(3)).batch_size == 1

    class Mine(millrace.DataLoader[T], Generic[T]):
        def __iter__(self):
            yield from super().__iter__()

    assert len(list(Mine[int](range(5), 2))) == 3


def test_the_signature_is_torchs_and_ours():
    torchs = inspect.signature(torch.utils.data.DataLoader.__init__).parameters
    ours = inspect.signature(millrace.DataLoader.__init__).parameters
    assert list(ours) == [
        *torchs,
        "native",
        "on_error",
        "worker_method",
        "pictures",
        "snapshot_every_n_steps",
        *RANKS,
        *TUNING,
    ]
    assert all(
        (ours[name].kind, ours[name].default) == (torchs[name].kind, torchs[name].default) for name in torchs
    )
    assert all(ours[name].kind is inspect.Parameter.KEYWORD_ONLY for name in ("native", "on_error"))


def test_every_parameter_is_an_attribute(dataset):
    loader = millrace.DataLoader(dataset, native="never", on_error="raise")
    for name in inspect.signature(millrace.DataLoader.__init__).parameters:
        if name not in ("self", "shuffle"):
            assert hasattr(loader, name), name
    assert (loader.native, loader.on_error) == ("never", "raise")


def test_default_samplers_are_exactly_torchs(dataset):
    assert type(millrace.DataLoader(dataset).sampler) is SequentialSampler
    loader = millrace.DataLoader(dataset, shuffle=True)
    assert type(loader.sampler) is RandomSampler and type(loader.batch_sampler) is BatchSampler


def test_auto_workers_are_a_number(monkeypatch):
    monkeypatch.setattr("millrace._core.cpu_budget", lambda: {"cpus": 3.0, "threads": 3, "reason": "test"})
    monkeypatch.setattr(torch._utils, "cpu_count", lambda: 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch's, of more workers than CPUs
        loader = millrace.DataLoader(range(3), num_workers="auto")
    assert (loader.num_workers, loader.prefetch_factor) == (8, 2)
    assert millrace.DataLoader(range(3), num_workers="auto", multiprocessing_context="spawn").num_workers == 3
    monkeypatch.setattr("millrace._core.cpu_budget", lambda: {"cpus": 1.5, "threads": 1, "reason": "test"})
    assert millrace.DataLoader(range(3), num_workers="auto").num_workers == 4
    monkeypatch.setattr("millrace._core.cpu_budget", lambda: {"cpus": 48.0, "threads": 48, "reason": "test"})
    assert millrace.DataLoader(range(3), num_workers="auto").num_workers == 48


# -- copies and rebuilding
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))]
)
def test_copies_of_a_used_loader_work(dataset, clone):
    loader = millrace.DataLoader(
        dataset, 3, shuffle=True, num_workers=1, generator=torch.Generator().manual_seed(1), native="require"
    )
    iterator = iter(loader)
    next(iterator)
    twin = clone(loader)
    assert (twin.seed, twin.epoch, twin.stats()["batches"]) == (loader.seed, 0, 1)
    assert sorted(sum(order(twin), [])) == list(range(COUNT))
    assert len(list(iterator)) == 3


def test_lightning_can_rebuild_it(dataset):
    """Lightning takes vars(loader), keeps what the signature knows, and makes a new one with another
    sampler.
    """
    loader = millrace.DataLoader(dataset, batch_size=4, num_workers=1, native="require", on_error="replace")
    list(loader)
    arguments = {k: v for k, v in vars(loader).items() if not k.startswith("_")}
    arguments["multiprocessing_context"] = loader.multiprocessing_context
    parameters = inspect.signature(type(loader).__init__).parameters
    arguments = {k: v for k, v in arguments.items() if k in parameters}
    arguments.update(sampler=SequentialSampler(range(6)), shuffle=False, batch_sampler=None)
    again = type(loader)(**arguments)
    assert order(again) == [[0, 1, 2, 3], [4, 5]]
    assert (again.native, again.on_error, again.num_workers) == ("require", "replace", 1)


def test_fabric_can_copy_its_dict(dataset):
    loader = millrace.DataLoader(dataset, 4)
    list(loader)
    wrapper = types.SimpleNamespace()
    wrapper.__dict__.update(loader.__dict__)
    assert wrapper.dataset is dataset and wrapper.native == "auto"


def test_timm_can_replace_its_batch_sampler(dataset):
    class Forever:
        def __init__(self, sampler):
            self.sampler = sampler

        def __iter__(self):
            while True:
                yield from iter(self.sampler)

    class MultiEpochs(millrace.DataLoader):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._DataLoader__initialized = False
            self.batch_sampler = Forever(self.batch_sampler)
            self._DataLoader__initialized = True
            self.iterator = super().__iter__()

        def __len__(self):
            return len(self.batch_sampler.sampler)

        def __iter__(self):
            for _ in range(len(self)):
                yield next(self.iterator)

    loader = MultiEpochs(dataset, 4, num_workers=2, native="require")
    assert order(loader) == order(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert loader.stats()["batches"] >= 6


def test_a_hook_may_patch_the_class(dataset):
    init = millrace.DataLoader.__init__

    @functools.wraps(init)
    def patched(self, *args, **kwargs):
        object.__setattr__(self, "__pl_saved_args", args)
        init(self, *args, **kwargs)

    millrace.DataLoader.__init__ = patched
    try:
        loader = millrace.DataLoader(dataset, 5)
    finally:
        millrace.DataLoader.__init__ = init
    assert len(order(loader)) == 2


# -- iterators
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "workers, kind", [(0, _SingleProcessDataLoaderIter), (2, _MultiProcessingDataLoaderIter)]
)
def test_iterators_are_torchs_kind(dataset, workers, kind):
    loader = millrace.DataLoader(dataset, 4, num_workers=workers, native="require")
    iterator = iter(loader)
    assert isinstance(iterator, kind) and isinstance(iterator, _BaseDataLoaderIter)
    assert iter(iterator) is iterator and iter(loader) is not iterator
    assert len(iterator) == 3 and iterator._workers == [] and iterator._num_yielded == 0
    assert iterator._profile_name == f"enumerate(DataLoader)#{kind.__name__}.__next__"
    batch = next(iterator)
    assert iterator._num_yielded == 1
    assert type(batch) is list and [type(part) for part in batch] == [torch.Tensor, torch.Tensor]
    assert batch[0].shape == (4, 3, SIZE, SIZE) and batch[0].dtype == torch.float32
    assert batch[1].tolist() == [0, 1, 2, 3] and batch[1].dtype == torch.int64
    with pytest.raises(NotImplementedError):
        pickle.dumps(iterator)
    assert len(list(iterator)) == 2
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)


def test_persistent_iterators_are_one(dataset):
    loader = millrace.DataLoader(
        dataset, 4, shuffle=True, num_workers=1, persistent_workers=True, native="require"
    )
    assert loader._iterator is None
    first, epochs = iter(loader), []
    seed = loader.seed
    for epoch in range(3):
        assert (iter(loader) if epoch else first) is first
        epochs.append([labels.tolist() for _, labels in first])
        assert (loader.epoch, loader.seed) == (epoch, seed)
    assert epochs[0] != epochs[1] != epochs[2]
    assert loader.stats()["samples"] == 3 * COUNT
    with pytest.raises(NotImplementedError):
        pickle.dumps(loader)


def test_reset_throws_away_what_was_prefetched(dataset):
    loader = millrace.DataLoader(dataset, 2, num_workers=2, persistent_workers=True, native="require")
    for _ in range(20):
        next(iter(loader))
    assert order(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_without_workers_nothing_starts_before_next(dataset, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("started")

    loader = millrace.DataLoader(dataset, 4, native="require")
    iterator = iter(loader)
    with monkeypatch.context() as patch:
        patch.setattr("millrace._core.Loader", refuse)
        iter(loader)
        with pytest.raises(AssertionError, match="started"):
            next(iter(loader))
    assert next(iterator)[1].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("workers", [0, 2])
def test_profiler_sees_torchs_range(dataset, workers):
    with torch.autograd.profiler.profile() as profile:
        list(millrace.DataLoader(dataset, 5, num_workers=workers, native="require"))
    names = {event.name for event in profile.function_events}
    assert any(name.startswith("enumerate(DataLoader)#") for name in names)


def test_stats_after_the_iterator_is_gone(dataset):
    loader = millrace.DataLoader(dataset, 4, num_workers=2, native="require")
    assert (loader.stats()["engine"], loader.stats()["samples"], loader.seed) == ("threads", 0, None)
    list(loader)
    stats = loader.stats()
    counts = {"samples", "batches", "bytes", "slots", "overflow_slots", "left_out"}
    assert set(stats) == {"engine", "seconds", "wait_seconds", "errors", "profile", *counts}
    assert set(stats["seconds"]) == {"read", "decode", "transform", "collate"}
    assert (stats["engine"], stats["samples"], stats["batches"], stats["errors"]) == ("threads", COUNT, 3, [])
    assert millrace.DataLoader(dataset).stats()["engine"] == "inline"
    assert millrace.DataLoader(dataset, num_workers=1, native="never").stats()["engine"] == "processes"


# -- samples
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_rows_are_those_of_at(root, workers, monkeypatch):
    """The engine's rows are what `at` says for (seed, epoch, index, occurrence), for every number of
    threads.
    """
    monkeypatch.setattr(torch._utils, "cpu_count", lambda: 3)
    crop = millrace.transforms.Compose(
        [millrace.transforms.RandomResizedCrop(8), millrace.transforms.ToTensor()]
    )
    dataset = pictures(root, transform=crop)
    part = Subset(Subset(dataset, [9, 1, 4, 7]), (3, 2, 0))
    loader = millrace.DataLoader(part, 2, sampler=[0, 1, 2, 0], num_workers=workers, native="require")
    (first, labels), (second, more) = list(loader)
    assert labels.tolist() + more.tolist() == [7, 4, 9, 7]
    expected = [
        dataset.at(index, loader.seed, 0, occurrence)[0]
        for index, occurrence in ((7, 0), (4, 0), (9, 0), (7, 1))
    ]
    assert torch.equal(torch.cat([first, second]), torch.stack(expected))
    assert not torch.equal(first[0], second[1])


def test_what_is_assigned_counts_from_the_next_iterator(dataset):
    loader = millrace.DataLoader(dataset, COUNT, num_workers=1, native="require")
    list(loader)
    dataset.samples = [(path, 100) for path, _ in dataset.samples]
    dataset.transform = millrace.transforms.Compose(
        [millrace.transforms.CenterCrop(4), millrace.transforms.PILToTensor()]
    )
    images, labels = next(iter(loader))
    assert images.shape == (COUNT, 3, 4, 4) and images.dtype == torch.uint8 and set(labels.tolist()) == {100}


def test_native_never_gives_the_same_batches(dataset):
    ours = list(millrace.DataLoader(dataset, 4, native="require"))
    plain = list(millrace.DataLoader(dataset, 4, native="never"))
    for (images, labels), (expected, expected_labels) in zip(ours, plain, strict=True):
        assert torch.equal(images, expected) and torch.equal(labels, expected_labels)


def test_importing_brings_no_optional_library():
    import subprocess

    code = (
        "import sys, millrace; print([m for m in ('torchvision', 'transformers', 'timm', 'lightning') if m in"
        " sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.parametrize("workers", [0, 1])
def test_pinning_is_torchs(dataset, workers, monkeypatch):
    """Where there is an accelerator; here its presence is only pretended."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    pinned = []
    monkeypatch.setattr(
        torch.utils.data._utils.pin_memory,
        "pin_memory",
        lambda batch, device: pinned.append(device) or (batch, device),
    )
    loader = millrace.DataLoader(dataset, 5, num_workers=workers, pin_memory=True, native="require")
    assert [(batch[1].tolist(), device) for batch, device in loader] == [
        ([0, 1, 2, 3, 4], "cuda"),
        ([5, 6, 7, 8, 9], "cuda"),
    ]
    assert pinned == ["cuda", "cuda"]


def test_nothing_stands_between_our_next_and_torchs():
    from millrace._loader.iterator import InlineIterator, LoaderIterator, WorkerIterator

    for shell in (InlineIterator, WorkerIterator):
        after = shell.__mro__[shell.__mro__.index(LoaderIterator) + 1 :]
        assert {each.__module__ for each in after if "__next__" in vars(each)} == {
            "torch.utils.data.dataloader"
        }, shell
