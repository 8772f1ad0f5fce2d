"""Runs that are cut anywhere and go on with other ranks, workers or batch sizes: the global order goes on as
if nothing had happened.
"""

from __future__ import annotations

import json
import warnings

import millrace
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from millrace import DataLoader, samplers
from torch.utils.data import Dataset, DistributedSampler, TensorDataset

pytestmark = pytest.mark.slow

SIZE = 53
SHARDS = [10, 20, 23]


class Squares(Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return torch.tensor(index)


ROWS = TensorDataset(torch.arange(SIZE))
KINDS = {
    "torch's DistributedSampler": lambda **ranks: DistributedSampler(ROWS, seed=5, **ranks),
    "in order": lambda **ranks: DistributedSampler(ROWS, shuffle=False, **ranks),
    "drop_last": lambda **ranks: samplers.DistributedSampler(ROWS, drop_last=True, **ranks),
    "permutation": lambda **ranks: samplers.PermutationSampler(SIZE, seed=3, **ranks),
    "mixture": lambda **ranks: samplers.MixtureSampler([20, 33], [1, 2], num_samples=60, seed=1, **ranks),
    "shuffle buffer": lambda **ranks: samplers.ShuffleBuffer(7, seed=2)(
        samplers.PermutationSampler(SIZE, seed=3, **ranks)
    ),
    "shards": lambda **ranks: samplers.ShardShuffle(SHARDS, seed=2, **ranks),
    "shards and a buffer": lambda **ranks: samplers.TwoTierShuffle(SHARDS, 5, seed=2, **ranks),
    "chunks": lambda **ranks: samplers.ChunkShuffle(SHARDS, 2, seed=2, streams=2, **ranks),
    "weighted": lambda **ranks: samplers.DistributedWeightedSampler(torch.arange(1.0, SIZE + 1), 60, **ranks),
}
_seconds_that_do_not_matter = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
}


def loaders(kind, ranks, batch_size, epoch, dataset=ROWS, **options):
    made = []
    for rank in range(ranks):
        sampler = KINDS[kind](num_replicas=ranks, rank=rank)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        made.append(DataLoader(dataset, batch_size, sampler=sampler, **options))
    return made


def indices(batch):
    return (batch[0] if isinstance(batch, (list, tuple)) else batch).flatten().tolist()


def global_order(kind, epoch):
    return [index for batch in loaders(kind, 1, 1, epoch)[0] for index in indices(batch)]


def rounds(parts):
    """The parts' first entries, then their second ones, ...: the global order that ranks read together."""
    assert len({len(part) for part in parts}) == 1, "ranks differ in length"
    return [index for step in zip(*parts) for index in step]


def cut_and_go_on(kind, epoch, before, cut, after, dataset=ROWS):
    """Both (ranks, batch size, options); returns what the second run read, and what was left of the order."""
    first = loaders(kind, before[0], before[1], epoch, dataset, **before[2])
    cut = min(cut, len(first[0]))
    for loader in first:
        iterator = iter(loader)
        for _ in range(cut):
            next(iterator)
        loader.cut = loader.state_dict()
    merged = json.loads(json.dumps(millrace.merge_states([loader.cut for loader in first])))
    second = loaders(kind, after[0], after[1], epoch, dataset, **after[2])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the loader's batch_size was")
        for loader in second:
            loader.load_state_dict(merged)
    read = rounds([[index for batch in loader for index in indices(batch)] for loader in second])
    taken = before[0] * min(cut * before[1], len(first[0].sampler))
    return read, global_order(kind, epoch)[taken:]


def check(kind, read, left, ranks):
    if kind == "drop_last":
        assert read == left[: len(left) // ranks * ranks]
    else:
        assert read[: len(left)] == left
        assert 0 <= len(read) - len(left) < ranks


inline = st.tuples(st.integers(1, 5), st.integers(1, 6), st.just({"num_workers": 0}))
anyhow = st.tuples(
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from([{"num_workers": 0}, {"num_workers": 1}, {"num_workers": 3, "prefetch_factor": 4}]),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120, **_seconds_that_do_not_matter)
@given(epoch=st.integers(0, 5), before=inline, cut=st.integers(0, 60), after=inline)
def test_any_cut_any_ranks(kind, epoch, before, cut, after):
    check(kind, *cut_and_go_on(kind, epoch, before, cut, after), after[0])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, **_seconds_that_do_not_matter)
@given(epoch=st.integers(0, 5), before=anyhow, cut=st.integers(0, 60), after=anyhow)
def test_with_native_threads_running_ahead(kind, epoch, before, cut, after):
    check(kind, *cut_and_go_on(kind, epoch, before, cut, after), after[0])


@pytest.mark.parametrize("method", ["process", "thread"])
@settings(max_examples=12, **_seconds_that_do_not_matter)
@given(
    kind=st.sampled_from(list(KINDS)),
    epoch=st.integers(0, 5),
    before=anyhow,
    cut=st.integers(0, 20),
    after=anyhow,
)
def test_with_python_workers_running_ahead(method, kind, epoch, before, cut, after):
    for _, _, options in (before, after):
        options["worker_method"] = method
    check(kind, *cut_and_go_on(kind, epoch, before, cut, after, Squares()), after[0])


def test_every_batch_of_an_epoch():
    for kind in KINDS:
        for cut in range(60 // 6 + 2):
            check(kind, *cut_and_go_on(kind, 1, (2, 3, {}), cut, (3, 4, {})), 3)


def test_cut_twice():
    """A run on other ranks can be saved and merged again."""
    kind, epoch = "permutation", 2
    order, seen, state = global_order(kind, epoch), 0, None
    for ranks, batch_size, cut in ((4, 3, 2), (3, 2, 2), (1, 5, 1), (2, 4, 99)):
        run = loaders(kind, ranks, batch_size, epoch)
        parts = []
        for loader in run:
            if state is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    loader.load_state_dict(state)
            iterator = iter(loader)
            parts.append([index for _ in range(cut) for index in indices(next(iterator, [torch.empty(0)]))])
        read = rounds(parts)
        assert read[: len(order) - seen] == order[seen : seen + len(read)]
        seen += len(read)
        state = millrace.merge_states([loader.state_dict() for loader in run])


def test_behind_an_epoch():
    run = loaders("permutation", 4, 3, epoch=0)
    for loader in run:
        list(loader)
    merged = millrace.merge_states([loader.state_dict() for loader in run])
    after = loaders("permutation", 3, 3, epoch=1)
    for loader in after:
        loader.load_state_dict(merged)
        loader.sampler.set_epoch(1)
    assert rounds([[i for batch in loader for i in indices(batch)] for loader in after])[
        :SIZE
    ] == global_order("permutation", 1)


def states(count=2, cuts=(1, 1), **options):
    made = []
    for loader, cut in zip(loaders("permutation", count, 3, 0), cuts):
        iterator = iter(loader)
        for _ in range(cut):
            next(iterator)
        made.append(loader.state_dict())
    return made


class Stateful(Squares):
    def state_dict(self):
        return {"x": 1}

    def load_state_dict(self, state):
        pass


def test_states_that_cannot_be_merged():
    with pytest.raises(ValueError, match="no state"):
        millrace.merge_states([])
    with pytest.raises(ValueError, match="ranks 0 and 1 differ in number of batches: 1 and 2"):
        millrace.merge_states(states(cuts=(1, 2)))
    with pytest.raises(ValueError, match="of 2 ranks, and 1 were given"):
        millrace.merge_states(states()[:1])
    shuffled = DataLoader(ROWS, 4, shuffle=True)
    next(iter(shuffled))
    with pytest.raises(ValueError, match="BatchSampler of RandomSampler has no order that its 2 ranks share"):
        millrace.merge_states([shuffled.state_dict()] * 2)
    with pytest.raises(ValueError, match="not from millrace"):
        millrace.merge_states([{key: value for key, value in states()[0].items() if key != "millrace"}] * 2)
    loader = DataLoader(Stateful(), 4)
    next(iter(loader))
    with pytest.raises(ValueError, match="dataset's own state"):
        millrace.merge_states([loader.state_dict()])
    merged = millrace.merge_states(states())
    with pytest.raises(ValueError, match="this loader has 10"):
        DataLoader(
            range(10), 3, sampler=samplers.PermutationSampler(10, num_replicas=2, rank=0)
        ).load_state_dict(merged)


def test_another_epoch_was_set():
    merged = millrace.merge_states(states())
    loader = loaders("permutation", 1, 3, 0)[0]
    loader.load_state_dict(merged)
    loader.sampler.set_epoch(4)
    with pytest.warns(UserWarning, match="middle of epoch 0, and set_epoch.4. was called"):
        read = [i for batch in loader for i in indices(batch)]
    assert read == global_order("permutation", 4)


def test_gather_state_alone_is_merge_states():
    loader = loaders("permutation", 1, 3, 0)[0]
    next(iter(loader))
    assert millrace.gather_state(loader) == millrace.merge_states([loader.state_dict()])
