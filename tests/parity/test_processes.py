"""Worker processes against torch's: the same batches, order, errors, and generators' states."""

import dataclasses
import itertools
import random
import warnings
from functools import partial

import millrace
import numpy as np
import process_data
import pytest
import torch
from loader_data import generator_states
from process_data import SAMPLES, AtOnce, Failing, Made, Noisy, Restarted, Stream
from thinned import thinned
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import (
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class only_ours:
    """While it is entered, torch's own worker loop and iterator cannot run."""

    def __enter__(self):
        self.patch = pytest.MonkeyPatch()

        def refuse(*args, **kwargs):
            raise AssertionError("torch's own iterator was used")

        self.patch.setattr(torch.utils.data._utils.worker, "_worker_loop", refuse)
        self.patch.setattr(torch.utils.data.dataloader._MultiProcessingDataLoaderIter, "__init__", refuse)

    def __exit__(self, *_):
        self.patch.undo()


def plain(value):
    """A value with its types, comparable with ==."""
    if isinstance(value, torch.Tensor):
        layout = (tuple(value.shape), value.stride()) if value.layout == torch.strided else tuple(value.shape)
        return (
            type(value).__name__,
            str(value.dtype),
            layout,
            value.requires_grad,
            repr(value.to_dense().tolist()),
        )
    if isinstance(value, np.ndarray):
        return (
            "ndarray",
            value.dtype.str,
            value.shape,
            value.strides,
            value.flags.writeable,
            repr(value.tolist()),
        )
    if isinstance(value, dict):
        return type(value).__name__, [(key, plain(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part) for part in value]
    if dataclasses.is_dataclass(value):
        return type(value).__name__, plain(vars(value))
    return type(value).__name__, value


def first_lines(error):
    return (
        type(error).__name__,
        str(error).split("Original Traceback")[0],
        [
            line
            for line in str(error).splitlines()[-3:]
            if not line.startswith(" ") and "(raised by dataset[" not in line
        ][-1:],
    )


def walk(loader, epochs, stop_after):
    seen = []
    for _ in range(epochs):
        iterator, failures = iter(loader), 0
        for step in itertools.count():
            if step == stop_after:
                break
            try:
                seen.append(plain(next(iterator)))
            except StopIteration:
                seen.append("end")
                break
            except Exception as error:
                seen.append(first_lines(error))
                failures += 1
                if failures > 20:
                    raise
    return seen


def both(dataset, epochs=2, stop_after=None, **arguments):
    """What torch's loader and ours give, with the generators' states; ours is checked to be ours."""
    results = []
    for loader_class in (TorchLoader, millrace.DataLoader):
        torch.manual_seed(5), random.seed(5), np.random.seed(5)
        given = {
            key: value() if callable(value) and key in ("sampler", "generator", "batch_sampler") else value
            for key, value in arguments.items()
        }
        loader = loader_class(dataset, **given)
        if loader_class is TorchLoader:
            seen = walk(loader, epochs, stop_after)
        elif given.get("num_workers", 0) == 0:
            seen = walk(loader, epochs, stop_after)
        else:
            with only_ours():
                seen = walk(loader, epochs, stop_after)
            assert loader.stats()["engine"] == "processes"
        results.append((seen, generator_states()))
    return results


def check(*args, **kwargs):
    torchs, ours = both(*args, **kwargs)
    assert ours[0] == torchs[0]
    assert ours[1] == torchs[1]


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_kind_of_sample(kind):
    check(Made(kind), epochs=1, batch_size=4, num_workers=2)


@pytest.mark.parametrize("kind", ["dict", "tuple", "missing key", "array", "str"])
def test_samples_fetched_at_once(kind):
    check(AtOnce(kind), epochs=1, batch_size=4, num_workers=2)


@pytest.mark.parametrize(
    "kind", ["dict", "array", "tensor", "namedtuple", "str", "None", "dataclass", "sparse", "transposed"]
)
def test_without_batches(kind):
    check(Made(kind), epochs=1, batch_size=None, num_workers=2)


def as_list(samples):
    return samples


def stacked(samples):
    return torch.stack([torch.as_tensor(sample) for sample in samples]), len(samples)


def views(samples):
    base = torch.arange(24.0).reshape(4, 6) + float(samples[0])
    return {
        "t": base.t(),
        "slice": base[:, 1:3],
        "expanded": base[:1].expand(5, 6),
        "same": [base, base],  # fmt: skip
        "array": np.arange(5000.0)[::2],
        "large": np.arange(4000),
        "nothing": None,
        "set": {1, 2},
    }


def failing_collate(samples):
    if 4 in samples:
        raise RuntimeError("collate failed")
    return samples


@pytest.mark.parametrize("collate", [as_list, stacked, views, failing_collate])
@pytest.mark.parametrize("workers", [1, 2])
def test_own_collate_functions(collate, workers):
    check(Made("int"), epochs=1, batch_size=4, num_workers=workers, collate_fn=collate)


def own_generator():
    return torch.Generator().manual_seed(9)


@thinned(
    4,
    drop_last=[False, True],
    workers=[0, 1, 2, 4],
    shuffle=[False, True],
    generator=[None, own_generator],
    persistent=[False, True],
)
def test_map_style(drop_last, workers, shuffle, generator, persistent):
    if persistent and workers == 0:
        pytest.skip("torch refuses it")
    check(
        Noisy(),
        epochs=3,
        batch_size=3,
        drop_last=drop_last,
        num_workers=workers,
        shuffle=shuffle,
        generator=generator,
        persistent_workers=persistent,
    )


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("batch_size, drop_last", [(4, False), (4, True), (None, False)])
@pytest.mark.parametrize("persistent", [False, True])
def test_iterable_style(workers, batch_size, drop_last, persistent):
    if persistent and workers == 0:
        pytest.skip("torch refuses it")
    check(
        Stream(),
        epochs=2,
        batch_size=batch_size,
        drop_last=drop_last,
        num_workers=workers,
        persistent_workers=persistent,
    )


SAMPLERS = {
    "random with replacement": lambda: RandomSampler(range(13), replacement=True, num_samples=9),
    "subset": lambda: SubsetRandomSampler([1, 5, 7, 2]),
    "weighted": lambda: WeightedRandomSampler([1.0, 2.0, 3.0] * 4, 10),
    "distributed": lambda: DistributedSampler(range(13), num_replicas=2, rank=1, shuffle=True),
    "list": lambda: [3, 1, 2],
    "generator expression": lambda: (i for i in (4, 5, 6)),
}


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("prefetch", [1, 3])
def test_samplers(sampler, workers, prefetch):
    check(
        Noisy(),
        batch_size=2,
        num_workers=workers,
        sampler=SAMPLERS[sampler],
        prefetch_factor=prefetch if workers else None,
    )


@pytest.mark.parametrize("stop_after", [0, 1, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_early_ends(stop_after, persistent):
    check(
        Noisy(),
        epochs=3,
        stop_after=stop_after,
        batch_size=2,
        num_workers=2,
        shuffle=True,
        persistent_workers=persistent,
    )


def seeding(worker_id):
    torch.manual_seed(100 + worker_id), random.seed(worker_id), np.random.seed(worker_id)
    torch.utils.data.get_worker_info().dataset.extra = worker_id


def failing_init(worker_id):
    if worker_id == 1:
        raise ValueError("no such worker")


@pytest.mark.parametrize("init", [seeding, pytest.param(failing_init, marks=pytest.mark.slow)])
def test_worker_init_fn(init):
    # After the first error torch's worker goes on without a fetcher; ours reports the same error again.
    check(
        Noisy(),
        batch_size=2,
        num_workers=2,
        worker_init_fn=init,
        stop_after=2 if init is failing_init else None,
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_methods(method):
    check(Noisy(), epochs=1, batch_size=5, num_workers=2, shuffle=True, multiprocessing_context=method)


@pytest.mark.parametrize("how", ["KeyError", "ValueError", "OwnError", "Unicode", "Stop"])
@pytest.mark.parametrize("workers", [1, 2])
def test_errors(how, workers):
    check(Failing(how), epochs=1, batch_size=2, num_workers=workers)


def test_an_epoch_that_cannot_start_is_an_error_and_the_next_one_starts():
    loader = millrace.DataLoader(Restarted(), batch_size=None, num_workers=1, persistent_workers=True)
    assert len(list(loader)) == 3
    with pytest.raises(
        OSError, match="Caught OSError in DataLoader worker process 0(.|\n)*the stream is gone"
    ):
        list(loader)
    assert len(list(loader)) == 3


def test_errors_name_the_sample():
    loader = millrace.DataLoader(Failing("ValueError"), batch_size=2, num_workers=1)
    with pytest.raises(
        ValueError,
        match=r"Caught ValueError in DataLoader worker process 0(.|\n)*wrong\n\(raised by dataset\[3\]\)",
    ):
        list(loader)


def test_length_warnings_of_iterable_datasets():
    def warnings_of(loader_class):
        loader = loader_class(process_data.StreamWithLen(), batch_size=2, num_workers=2)
        len(loader)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(loader)
        return [
            str(w.message).replace(hex(id(loader.dataset)), "")
            for w in caught
            if "Length of IterableDataset" in str(w.message)
        ]

    torchs, ours = warnings_of(TorchLoader), warnings_of(millrace.DataLoader)
    assert len(ours) == len(torchs) > 0


def test_out_of_order():
    loader = millrace.DataLoader(Noisy(), batch_size=2, num_workers=3, in_order=False)
    assert sorted(i for batch in loader for i in batch["index"].tolist()) == list(range(13))


class Share(torch.utils.data.IterableDataset):
    """Each worker's part of 13 numbers."""

    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, 13, info.num_workers))


@pytest.mark.parametrize("method", ["process", "thread"])
@pytest.mark.parametrize("left_at", range(7))
def test_an_epoch_of_a_stream_that_is_left_early(left_at, method):
    """Workers that stay answer what they were asked before, also behind the next epoch's beginning."""
    options = {"batch_size": 3, "num_workers": 2, "persistent_workers": True}
    seen = []
    for loader in (
        TorchLoader(Share(), **options),
        millrace.DataLoader(Share(), **options, worker_method=method),
    ):
        epochs = []
        for _ in range(2):
            iterator = iter(loader)
            for _ in range(left_at):
                next(iterator, None)
            epochs.append([batch.tolist() for batch in loader])
        seen.append(epochs)
    assert seen[0] == seen[1]
    state = loader.state_dict()
    resumed = millrace.DataLoader(Share(), **options, worker_method=method)
    resumed.load_state_dict(state)
    assert [batch.tolist() for batch in resumed] == epochs[0]


class FailsAtFirst(IterableDataset):
    """Its first iter() raises."""

    tries = 0

    def __iter__(self):
        self.tries += 1
        if self.tries == 1:
            raise ValueError("at first")
        return iter(range(4))


@pytest.mark.parametrize("method", [None, "process", "thread"])
def test_workers_that_stay_try_again_what_iter_raised(method):
    make = TorchLoader if method is None else partial(millrace.DataLoader, worker_method=method)
    loader = make(FailsAtFirst(), 2, num_workers=1, persistent_workers=True)
    with pytest.raises(ValueError, match="at first"):
        list(loader)
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
