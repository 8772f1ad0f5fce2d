"""The C++ library gives what Python gives: the same samples in the same order, byte for byte, and states that
cross over in both directions at every batch, for each sampler, with threads and without. Sizes, batches,
ranks and seeds are drawn at random: SEED_OF_CASES says from what, and a failure shows the case.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import millrace
import numpy as np
import pytest
import torch
from cpp_states import PROGRAM, program, sums, without_torchs
from millrace import samplers, transforms
from millrace._loader.states import progress
from PIL import Image
from torch.utils.data import (
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

SEED = 1234567890123456789
SEED_OF_CASES = 1
PICTURES = 23

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the C++ tests are not built (build/dev)")

SAMPLERS = [
    "in_order",
    "shuffle",
    "rounds",
    "replaced",
    "torch_weighted",
    "torch_weighted_once",
    "distributed",
    "in_ranks",
    "permutation",
    "weighted",
    "weighted_once",
    "mixture",
    "mixture_in_order",
    "shards",
    "two_tier",
    "stratified",
    "proportional",
]


@dataclass(frozen=True)
class Case:
    """states_program.cpp has the same."""

    samples: int = 23
    batch: int = 4
    drop_last: int = 0
    rank: int = 0
    ranks: int = 1
    rank_drop: int = 0
    num: int = 30
    buffer: int = 4
    seed: int = 3
    steps: int = -1  # of equal_steps, if 0 or more
    first: int = 0  # "repeat", not "pad"

    def settings(self) -> list[str]:
        return [f"{key}={value}" for key, value in asdict(self).items()]


def drawn(draw: random.Random, samples: int | None = None, steps: bool = False) -> Case:
    samples = samples or draw.randint(4, 30)
    ranks = draw.choice([1, 1, 2, 3])
    batch = draw.randint(1, 7)
    fewest = max(1, samples // (ranks * batch))
    return Case(
        samples=samples,
        batch=batch,
        drop_last=draw.randint(0, 1) if samples >= 3 * batch * ranks else 0,
        rank=draw.randrange(ranks),
        ranks=ranks,
        rank_drop=draw.randint(0, 1),
        num=draw.choice([draw.randint(1, 40), 32, 33, samples, 2 * samples]),
        buffer=draw.randint(1, 9),
        seed=draw.randrange(2**40),
        steps=draw.randint(max(0, fewest - 2), fewest + 4) if steps else -1,
        first=draw.randint(0, 1),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture in each of its classes, so that labels are indices."""
    root = tmp_path_factory.mktemp("cpp_states")
    rng = np.random.default_rng(1)
    for label in range(PICTURES):
        (root / f"{label:02}").mkdir()
        picture = rng.integers(0, 255, (6, 5, 3), dtype=np.uint8)
        size = 40 + label, 60 - label
        Image.fromarray(picture).resize(size, Image.Resampling.BICUBIC).save(root / f"{label:02}/x.jpg")
    return root


def sampler_named(name: str, case: Case, generator: torch.Generator) -> dict[str, Any]:
    """states_program.cpp has the same."""
    n, seed, part = case.samples, case.seed, (case.ranks, case.rank)
    dropping = {"drop_last": bool(case.rank_drop)}
    weights = [(i + 1) % 5 / 3 for i in range(n)]
    labels = [7 if i % 3 == 0 else i % 2 for i in range(n)]
    lengths = [n // 4, 0, n // 2, n - n // 4 - n // 2]
    indices: Any = range(n)
    options: dict[str, Any] = {"batch_size": case.batch, "drop_last": bool(case.drop_last)}
    if case.steps >= 0:
        options["equal_steps"] = "repeat" if case.first else "pad"
    if name in ("stratified", "proportional"):
        mode = "balanced" if name == "stratified" else "proportional"
        lists = samplers.StratifiedBatchSampler(labels, case.batch, mode, seed, *part, **dropping)
        return {"batch_sampler": lists} | {k: options[k] for k in options if k == "equal_steps"}
    if name in ("shuffle", "skip"):
        return options | {"shuffle": True} | ({"on_error": "skip"} if name == "skip" else {})
    mixture = samplers.MixtureSampler
    options["sampler"] = {
        "in_order": lambda: SequentialSampler(indices),
        "rounds": lambda: RandomSampler(indices, False, case.num, generator),
        "replaced": lambda: RandomSampler(indices, True, case.num, generator),
        "torch_weighted": lambda: WeightedRandomSampler(weights, case.num, True, generator),
        "torch_weighted_once": lambda: WeightedRandomSampler(weights, min(case.num, n), False, generator),
        "distributed": lambda: DistributedSampler(indices, *part, True, seed, **dropping),
        "in_ranks": lambda: DistributedSampler(indices, *part, False, **dropping),
        "permutation": lambda: samplers.PermutationSampler(n, seed, *part, **dropping),
        "weighted": lambda: samplers.DistributedWeightedSampler(
            weights, case.num, True, *part, seed, **dropping
        ),
        "weighted_once": lambda: samplers.DistributedWeightedSampler(
            weights, min(case.num, n // 2), False, *part, seed, **dropping
        ),
        "mixture": lambda: mixture(lengths, [0.5, 0, 0.3, 1.25], case.num, seed, True, *part, **dropping),
        "mixture_in_order": lambda: mixture(
            lengths, [2, 0, 1, math.pi], None, seed, False, *part, **dropping
        ),
        "shards": lambda: samplers.ShardShuffle(lengths, seed, *part, **dropping),
        "two_tier": lambda: samplers.TwoTierShuffle(lengths, case.buffer, seed, *part, **dropping),
    }[name]()
    return options


def loader_of(
    data: str, sampler: str, case: Case, threads: int, stays: bool = False
) -> millrace.DataLoader[Any]:
    dataset: Any
    if data in ("arrays", "own"):
        n = case.samples
        x = torch.arange(n * 3, dtype=torch.float32).reshape(n, 3)
        dataset = TensorDataset(x, torch.arange(n))
    else:
        chain = [
            transforms.RandomResizedCrop(24),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.4, 0.4, 0.4),
            transforms.ToTensor(),
            transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
        ]
        dataset = millrace.datasets.ImageFolder(data, transforms.Compose(chain))
    generator = torch.Generator().manual_seed(SEED)
    return millrace.DataLoader(
        dataset,
        num_workers=threads,
        generator=generator,
        auto_epoch=True,
        native="require",
        persistent_workers=stays,
        **sampler_named(sampler, case, generator),
    )


def written(batch: Any) -> dict[str, Any]:
    return {"indices": batch[1].tolist(), "sums": sums(batch)}


def resumed(data: str, sampler: str, case: Case, threads: int, states: list[Any]) -> list[Any]:
    """For each state what C++ gives from there on, the rest of its epoch and another one."""
    lines = "".join(json.dumps(state) + "\n" for state in states)
    return [
        [[{key: batch[key] for key in ("indices", "sums")} for batch in epoch] for epoch in epochs]
        for epochs in program(data, sampler, threads, "resume", *case.settings(), lines=lines)
    ]


def resumed_in_python(data: str, sampler: str, case: Case, threads: int, state: Any) -> list[Any]:
    loader = loader_of(data, sampler, case, threads)
    loader.load_state_dict(state)
    return [[written(batch) for batch in loader] for _ in range(2)]


def run_in_python(data: str, sampler: str, case: Case, threads: int) -> list[dict[str, Any]]:
    """Two epochs, as the program writes them."""
    loader = loader_of(data, sampler, case, threads)
    lines: list[dict[str, Any]] = [{"state": loader.state_dict()}]
    for _ in range(2):
        for number, batch in enumerate(loader):
            lines.append({"batch": {"number": number, **written(batch)}, "state": loader.state_dict()})
        lines.append({"state": loader.state_dict()})
    return lines


def check_that_they_agree(data: str, sampler: str, case: Case, threads: int) -> None:
    """The same batches and states; from each state on, either language gives what either gave from there."""
    ours = program(data, sampler, threads, *case.settings())
    pythons = run_in_python(data, sampler, case, threads)
    assert [line.get("batch") for line in ours] == [line.get("batch") for line in pythons]
    for mine, theirs in zip(ours, pythons, strict=True):
        assert without_torchs(mine["state"]) == without_torchs(theirs["state"])
    # from Python, with and without workers, to C++
    states = [line["state"] for line in pythons]
    there = resumed(data, sampler, case, 2 - threads, states)
    # and back
    back = [resumed_in_python(data, sampler, case, 2 - threads, line["state"]) for line in ours]
    assert there == back
    # of the first epoch's states, what comes is known
    ends = [number for number, line in enumerate(ours) if "batch" not in line]
    epochs = [
        [{key: line["batch"][key] for key in ("indices", "sums")} for line in ours[begin + 1 : end]]
        for begin, end in zip(ends, ends[1:])
    ]
    for number, (rest, following) in enumerate(there[: ends[1]]):
        assert (rest, following) == (epochs[0][number:], epochs[1])
    assert there[ends[1]][0] == epochs[1]


def check(monkeypatch: pytest.MonkeyPatch, data: str, sampler: str, case: Case, threads: int) -> None:
    monkeypatch.setattr(progress, "agreed_steps", lambda *_: case.steps)  # of ranks that are not there
    try:
        check_that_they_agree(data, sampler, case, threads)
    except BaseException:
        print(f"SEED_OF_CASES={SEED_OF_CASES}: {data} {sampler} threads={threads} {case}")
        raise


@pytest.fixture(params=["arrays", "folder"])
def data(request: pytest.FixtureRequest, folder: Path) -> str:
    return "arrays" if request.param == "arrays" else str(folder)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", ["arrays", "own", "folder"])
def test_states_cross_over_at_every_batch(
    kind: str, sampler: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"{SEED_OF_CASES} {kind} {sampler}")
    data, samples = (str(folder), PICTURES) if kind == "folder" else (kind, None)
    check(monkeypatch, data, sampler, drawn(draw, samples), draw.choice([0, 2]))
    if kind != "own":
        check(monkeypatch, data, sampler, drawn(draw, samples, steps=True), draw.choice([0, 2]))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", ["arrays", "own", "folder"])
def test_states_cross_over_in_many_cases(
    kind: str, sampler: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"many {SEED_OF_CASES} {kind} {sampler}")
    data, samples = (str(folder), PICTURES) if kind == "folder" else (kind, None)
    for number in range(12):
        check(monkeypatch, data, sampler, drawn(draw, samples, steps=number % 2 > 0), draw.choice([0, 2]))


@pytest.mark.parametrize("sampler", ["in_order", "shuffle", "permutation"])
def test_workers_that_stay_keep_their_seed(data: str, sampler: str) -> None:
    """From behind an epoch, and from the middle of one."""
    loader = loader_of(data, sampler, Case(), 2, stays=True)
    list(loader)
    states = [loader.state_dict()]
    epochs = [[written(batch) for batch in loader]]
    next(iterator := iter(loader))
    states.append(loader.state_dict())
    rest = [written(batch) for batch in iterator]
    epochs.append([written(batch) for batch in loader])
    behind, middle = resumed(data, sampler, Case(), 0, states)
    assert behind[0] == epochs[0] and behind[1][1:] == rest
    assert middle == [rest, epochs[1]]
    assert resumed_in_python(data, sampler, Case(), 0, states[1]) == middle


@pytest.mark.parametrize("threads", [0, 2])
def test_samples_that_are_left_out_are_the_same(folder: Path, threads: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for label in range(PICTURES):
        (root / f"{label:02}").mkdir(parents=True)
        content = (folder / f"{label:02}/x.jpg").read_bytes()
        (root / f"{label:02}/x.jpg").write_bytes(content[:90] if label in (3, 11, 12) else content)
    check_that_they_agree(str(root), "skip", Case(), threads)


def test_a_state_that_was_changed_is_refused() -> None:
    state = loader_of("arrays", "shuffle", Case(), 0).state_dict()
    state["millrace"]["base_seed"] += 1
    run = subprocess.run(
        [PROGRAM, "arrays", "shuffle", "0", "resume"], input=json.dumps(state), capture_output=True, text=True
    )
    assert run.returncode == 1 and "checksum" in run.stderr


def test_weights_that_were_changed_on_the_way_are_refused() -> None:
    case = Case()
    loader = loader_of("arrays", "mixture", case, 0)
    iterator = iter(loader)
    next(iterator)
    loader.sampler.set_weights([1, 0, 1, 1])  # type: ignore[attr-defined]
    next(iterator)
    run = subprocess.run(
        [PROGRAM, "arrays", "mixture", "0", "resume", *case.settings()],
        input=json.dumps(loader.state_dict()),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1 and "weights" in run.stderr
