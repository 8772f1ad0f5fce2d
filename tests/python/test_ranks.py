"""Several ranks: real processes under torchrun, and what a single one can tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import millrace
import pytest
import torch
from millrace import DataLoader, samplers
from ranks_script import BATCH, CUT, SIZE, Squares
from torch.utils.data import DistributedSampler, IterableDataset

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("ranks_script.py")


def torchrun(ranks: int, folder: Path, phase: str) -> dict:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
        str(SCRIPT),
        str(folder),
        phase,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / f"{phase}.json").read_text())


@pytest.fixture(scope="module")
def four_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    return folder, torchrun(4, folder, "first")


def rounds(parts):
    return [index for step in zip(*parts) for index in step]


@pytest.mark.parametrize("kind", ["torch", "ours"])
def test_cover_is_disjoint_and_steps_are_equal(four_ranks, kind):
    parts = [seen + rest for seen, rest in four_ranks[1][kind]]
    assert {len(part) for part in parts} == {-(-SIZE // 4)}
    order = rounds(parts)
    assert sorted(order[:SIZE]) == list(range(SIZE)) and order[SIZE:] == order[: len(order) - SIZE]


@pytest.mark.parametrize("ranks", [2, 3])
def test_resume_on_other_ranks(four_ranks, ranks):
    folder, first = four_ranks
    second = torchrun(ranks, folder, f"on {ranks}")
    for kind in ("torch", "ours"):
        seen = rounds([seen for seen, _ in first[kind]])
        assert len(seen) == 4 * CUT * BATCH
        read = rounds(second[kind])
        left = SIZE - len(seen)
        assert sorted(seen + read[:left]) == list(range(SIZE)) and len(read) - left < ranks
        assert read[:left] == rounds([rest for _, rest in first[kind]])[:left], "in the same order"


def test_equal_steps(four_ranks):
    found = four_ranks[1]["uneven"]
    own = [[10 * rank + i for i in range(rank + 2)] for rank in range(4)]
    for name, expected in {
        "drop": [lists[:2] for lists in own],
        "repeat": [(lists * 3)[:5] for lists in own],
        "pad": [lists + lists[-1:] * (5 - len(lists)) for lists in own],
    }.items():
        assert found[name] == [[each, each] for each in expected], name


def test_tensor_parallel_ranks_read_the_same(four_ranks):
    found = four_ranks[1]["groups"]
    for name in ("mesh", "group"):
        (a, seed_a), (b, seed_b), (c, seed_c), (d, seed_d) = found[name]
        assert a == b and c == d and seed_a == seed_b and seed_c == seed_d, name
        for epoch in range(2):
            assert sorted(rounds([a[epoch], c[epoch]])[:SIZE]) == list(range(SIZE))
        assert a[0] != a[1], "auto_epoch shuffles anew"
    parts = [epochs[0] for epochs, _ in found["both dimensions"]]
    assert sorted(rounds(parts)[:SIZE]) == list(range(SIZE))


def test_report_says_who_reads_what(four_ranks):
    report = four_ranks[1]["report"]
    lines = report.splitlines()
    assert len(lines) == 6 and lines[1].split()[:3] == ["0", "26", "7"]
    assert "101 of 101 samples are read" in lines[-1] and "3 more than once" in lines[-1]


# -- one process
# ------------------------------------------------------------------------------------------------------------


def distributed(rank=0, ranks=2, **options):
    return DistributedSampler(Squares(), num_replicas=ranks, rank=rank, **options)


@pytest.mark.parametrize("workers, persistent", [(0, False), (1, False), (1, True)])
def test_forgotten_set_epoch_is_noticed_once(workers, persistent):
    loader = DataLoader(
        Squares(), 10, sampler=distributed(), num_workers=workers, persistent_workers=persistent
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(iter(loader))
        list(loader)
    with pytest.warns(UserWarning, match="epoch is still 0.*auto_epoch=True") as noticed:
        for _ in range(4):
            list(loader)
    assert len(noticed) == 1


def test_forgotten_set_epoch_of_a_sampler_of_ours_is_noticed_on_one_rank():
    loader = DataLoader(Squares(), 10, sampler=samplers.PermutationSampler(SIZE))
    list(loader)
    with pytest.warns(UserWarning, match="epoch is still 0") as noticed:
        list(loader)
    assert noticed[0].filename == __file__, "it shows the line that iterates"


@pytest.mark.parametrize("options", [{"shuffle": False}, {"ranks": 1}])
def test_nothing_to_notice(options):
    for set_epoch in (False, True) if not options else (False,):
        sampler = distributed(**options)
        loader = DataLoader(Squares(), 10, sampler=sampler)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for epoch in range(3):
                if set_epoch:
                    sampler.set_epoch(epoch)
                list(loader)


@pytest.mark.parametrize("workers, persistent", [(0, False), (1, True)])
def test_auto_epoch(workers, persistent):
    def order(loader):
        return [index for batch in loader for index in batch.tolist()]

    sampler = distributed()
    expected = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        expected.append(list(sampler))
    loader = DataLoader(
        Squares(),
        10,
        sampler=distributed(),
        auto_epoch=True,
        num_workers=workers,
        persistent_workers=persistent,
    )
    assert [order(loader) for _ in range(2)] == expected[:2]
    state = loader.state_dict()
    assert order(loader) == expected[2]
    resumed = DataLoader(
        Squares(),
        10,
        sampler=distributed(),
        auto_epoch=True,
        num_workers=workers,
        persistent_workers=persistent,
    )
    resumed.load_state_dict(state)
    assert order(resumed) == expected[2]
    own = DataLoader(Squares(), 10, sampler=distributed(), auto_epoch=True)
    for epoch in (0, 2, 1):
        own.sampler.set_epoch(epoch)
        assert order(own) == expected[epoch], "who sets it is not corrected"


def test_bad_ranks_are_refused():
    with pytest.raises(ValueError, match="equal_steps='even' is unknown"):
        DataLoader(Squares(), equal_steps="even")
    with pytest.raises(ValueError, match="names a dimension of a mesh"):
        DataLoader(Squares(), mesh_dim="data")

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    with pytest.raises(millrace.UnavailableError, match="has no len"):
        iter(DataLoader(Stream(), equal_steps="drop"))
    with pytest.raises(ValueError, match=r"interval \[0, 1\]"):
        samplers.PermutationSampler(10, num_replicas=2, rank=2)


def test_report_of_a_single_rank():
    report = millrace.rank_report(DataLoader(range(10), 4, shuffle=True))
    assert "10 of 10 samples are read" in report
    before = torch.get_rng_state()
    millrace.rank_report(DataLoader(range(10), 4, shuffle=True))
    assert torch.equal(before, torch.get_rng_state())


class EagerBatches(torch.utils.data.Sampler):
    """A batch sampler that looks at its epoch in iter(), as those without `yield` do."""

    def __init__(self):
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 13

    def __iter__(self):
        order = torch.randperm(100, generator=torch.Generator().manual_seed(self.epoch))
        return iter([part.tolist() for part in order.split(8)])


LABELS = [0] * 60 + [1] * 30 + [2] * 10
OF_EPOCHS = {
    "theirs": lambda: {"batch_sampler": EagerBatches()},
    "stratified": lambda: {"batch_sampler": samplers.StratifiedBatchSampler(LABELS, 8)},
    "of similar length": lambda: {
        "batch_sampler": samplers.LengthGroupedSampler(range(1, 101), batch_size=8)
    },
    "permutation": lambda: {"sampler": samplers.PermutationSampler(100), "batch_size": 8},
    "mixed in order": lambda: {
        "sampler": samplers.MixtureSampler([50, 50], [0.7, 0.3], shuffle=False),
        "batch_size": 8,
    },
    "single indices": lambda: {"sampler": samplers.PermutationSampler(100), "batch_size": None},
    "through a buffer": lambda: {"sampler": samplers.ShuffleBuffer(10)(distributed(0, 1)), "batch_size": 8},
}


@pytest.mark.parametrize("kind", OF_EPOCHS)
@pytest.mark.parametrize("native", ["auto", "never"])
@pytest.mark.parametrize("auto_epoch", [True, False])
def test_epochs_of_a_resumed_run_are_those_of_the_run_that_was_left(kind, native, auto_epoch):
    rows = torch.utils.data.TensorDataset(torch.arange(SIZE if kind == "through a buffer" else 100))

    def make():
        return DataLoader(rows, **OF_EPOCHS[kind](), native=native, auto_epoch=auto_epoch)

    loader, epochs, behind = make(), [], []
    for epoch in range(3):
        epochs.append([])
        for step, batch in enumerate(loader):
            epochs[-1].append(batch[0].tolist())
            if (epoch, step) == (1, 4):
                middle = json.dumps(loader.state_dict())
        behind.append(json.dumps(loader.state_dict()))
    assert (epochs[0] != epochs[1] and epochs[1] != epochs[2]) == auto_epoch

    for state, expected in ((middle, [epochs[1][5:], epochs[2]]), (behind[0], epochs[1:])):
        resumed = make()
        resumed.load_state_dict(json.loads(state))
        assert [[batch[0].tolist() for batch in resumed] for _ in range(2)] == expected


def test_states_of_batch_samplers_merge():
    rows = torch.utils.data.TensorDataset(torch.arange(100))

    def make(rank, ranks):
        return DataLoader(
            rows, batch_sampler=samplers.StratifiedBatchSampler(LABELS, 8, num_replicas=ranks, rank=rank)
        )

    whole = [index for batch in make(0, 1) for index in batch[0].tolist()]
    loaders = [make(rank, 2) for rank in range(2)]
    iterators = [iter(loader) for loader in loaders]
    for _ in range(2):
        for iterator in iterators:
            next(iterator)
    alone = make(0, 1)
    alone.load_state_dict(millrace.merge_states([loader.state_dict() for loader in loaders]))
    assert [index for batch in alone for index in batch[0].tolist()] == whole[32:]
