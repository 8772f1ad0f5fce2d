"""The C++ library gives what Python gives: the same samples in the same order, byte for byte, and states that
cross over in both directions at every batch, for each sampler, with threads and without.
"""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any
from zlib import crc32

import millrace
import numpy as np
import pytest
import torch
from millrace import samplers, transforms
from millrace._common.states import unpacked
from PIL import Image
from torch.utils.data import DistributedSampler, TensorDataset

PROGRAM = Path(__file__).parents[2] / "build/dev/tests/cpp/api/api_states"
SAMPLES, BATCH, SEED = 23, 4, 1234567890123456789

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the C++ tests are not built (build/dev)")

SAMPLERS = [
    "in_order",
    "shuffle",
    "shuffle_drop",
    "distributed",
    "in_ranks",
    "permutation",
    "weighted",
    "weighted_once",
    "shards",
    "two_tier",
    "stratified",
    "proportional",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture in each of its classes, so that labels are indices."""
    root = tmp_path_factory.mktemp("cpp_states")
    rng = np.random.default_rng(1)
    for label in range(SAMPLES):
        (root / f"{label:02}").mkdir()
        picture = rng.integers(0, 255, (6, 5, 3), dtype=np.uint8)
        size = 40 + label, 60 - label
        Image.fromarray(picture).resize(size, Image.Resampling.BICUBIC).save(root / f"{label:02}/x.jpg")
    return root


def sampler_named(name: str) -> dict[str, Any]:
    """states_program.cpp has the same."""
    weights = [float(i % 5) for i in range(SAMPLES)]
    labels = [7 if i % 3 == 0 else i % 2 for i in range(SAMPLES)]
    options: dict[str, Any] = {"batch_size": BATCH}
    if name in ("shuffle", "shuffle_drop", "skip"):
        options |= {"shuffle": True, "drop_last": name == "shuffle_drop"}
    if name == "skip":
        options["on_error"] = "skip"
    if name in ("distributed", "in_ranks"):
        shuffle = name == "distributed"
        options["sampler"] = DistributedSampler(
            range(SAMPLES),  # type: ignore[arg-type]
            num_replicas=2,
            rank=1,
            shuffle=shuffle,
            seed=3 if shuffle else 0,
        )
    if name == "permutation":
        options["sampler"] = samplers.PermutationSampler(SAMPLES, 5, 2, 0, drop_last=True)
    if name == "weighted":
        options["sampler"] = samplers.DistributedWeightedSampler(weights, 30, True, 2, 1, seed=9)
    if name == "weighted_once":
        options["sampler"] = samplers.DistributedWeightedSampler(weights, 15, False, 1, 0, seed=9)
    if name == "shards":
        options["sampler"] = samplers.ShardShuffle([5, 0, 11, 7], 2, 1, 0)
    if name == "two_tier":
        options["sampler"] = samplers.TwoTierShuffle([5, 0, 11, 7], 4, 2, 3, 0)
    if name == "stratified":
        options = {
            "batch_sampler": samplers.StratifiedBatchSampler(labels, BATCH, "balanced", 4, 2, 1),
        }
    if name == "proportional":
        options = {"batch_sampler": samplers.StratifiedBatchSampler(labels, BATCH, "proportional", 4, 1, 0)}
    return options


def loader_of(data: str, sampler: str, threads: int, stays: bool = False) -> millrace.DataLoader[Any]:
    dataset: Any
    if data == "arrays":
        x = torch.arange(SAMPLES * 3, dtype=torch.float32).reshape(SAMPLES, 3)
        dataset = TensorDataset(x, torch.arange(SAMPLES))
    else:
        chain = [
            transforms.RandomResizedCrop(24),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.4, 0.4, 0.4),
            transforms.ToTensor(),
            transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
        ]
        dataset = millrace.datasets.ImageFolder(data, transforms.Compose(chain))
    return millrace.DataLoader(
        dataset,
        num_workers=threads,
        generator=torch.Generator().manual_seed(SEED),
        auto_epoch=True,
        native="require",
        persistent_workers=stays,
        **sampler_named(sampler),
    )


def written(batch: Any) -> dict[str, Any]:
    tensors = [tensor.contiguous().numpy() for tensor in batch]
    return {"indices": tensors[1].tolist(), "sums": [crc32(tensor.tobytes()) for tensor in tensors]}


def program(*arguments: object, lines: str = "") -> list[Any]:
    run = subprocess.run(
        [PROGRAM, *map(str, arguments)], input=lines, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def resumed(data: str, sampler: str, threads: int, states: list[Any]) -> list[Any]:
    """For each state what C++ gives from there on, the rest of its epoch and another one."""
    lines = "".join(json.dumps(state) + "\n" for state in states)
    return [
        [[{key: batch[key] for key in ("indices", "sums")} for batch in epoch] for epoch in epochs]
        for epochs in program(data, sampler, threads, "resume", lines=lines)
    ]


def resumed_in_python(data: str, sampler: str, threads: int, state: Any) -> list[Any]:
    loader = loader_of(data, sampler, threads)
    loader.load_state_dict(state)
    return [[written(batch) for batch in loader] for _ in range(2)]


def run_in_python(data: str, sampler: str, threads: int) -> list[dict[str, Any]]:
    """Two epochs, as the program writes them."""
    loader = loader_of(data, sampler, threads)
    lines: list[dict[str, Any]] = [{"state": loader.state_dict()}]
    for _ in range(2):
        for number, batch in enumerate(loader):
            lines.append({"batch": {"number": number, **written(batch)}, "state": loader.state_dict()})
        lines.append({"state": loader.state_dict()})
    return lines


def without_torchs(state: dict[str, Any]) -> dict[str, Any]:
    """What both write: not the state of torch's global generator, nor how a generator's state was packed."""
    state = copy.deepcopy(state)
    state.pop("checksum")
    state["millrace"]["order"]["generators"].pop("global", None)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, str) and len(value) > 1000:
            return unpacked(value).numpy().tobytes()
        return value

    return plain(state)  # type: ignore[no-any-return]


@pytest.fixture(params=["arrays", "folder"])
def data(request: pytest.FixtureRequest, folder: Path) -> str:
    return "arrays" if request.param == "arrays" else str(folder)


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samples_and_states_are_pythons(data: str, sampler: str, threads: int) -> None:
    ours, pythons = program(data, sampler, threads), run_in_python(data, sampler, threads)
    assert [line.get("batch") for line in ours] == [line.get("batch") for line in pythons]
    for mine, theirs in zip(ours, pythons, strict=True):
        assert without_torchs(mine["state"]) == without_torchs(theirs["state"])


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_states_cross_over_at_every_batch(data: str, sampler: str, threads: int) -> None:
    # from Python, with and without workers, to C++
    states = [line["state"] for line in run_in_python(data, sampler, threads)]
    for state, there in zip(states, resumed(data, sampler, 2 - threads, states), strict=True):
        assert there == resumed_in_python(data, sampler, threads, state)
    # and back
    states = [line["state"] for line in program(data, sampler, threads)]
    for state, there in zip(states, resumed(data, sampler, threads, states), strict=True):
        assert there == resumed_in_python(data, sampler, 2 - threads, state)


@pytest.mark.parametrize("sampler", ["in_order", "shuffle", "permutation"])
def test_workers_that_stay_keep_their_seed(data: str, sampler: str) -> None:
    """From behind an epoch, and from the middle of one."""
    loader = loader_of(data, sampler, 2, stays=True)
    list(loader)
    states = [loader.state_dict()]
    epochs = [[written(batch) for batch in loader]]
    next(iterator := iter(loader))
    states.append(loader.state_dict())
    rest = [written(batch) for batch in iterator]
    epochs.append([written(batch) for batch in loader])
    behind, middle = resumed(data, sampler, 0, states)
    assert behind[0] == epochs[0] and behind[1][1:] == rest
    assert middle == [rest, epochs[1]]
    assert resumed_in_python(data, sampler, 0, states[1]) == middle


@pytest.mark.parametrize("threads", [0, 2])
def test_samples_that_are_left_out_are_the_same(folder: Path, threads: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for label in range(SAMPLES):
        (root / f"{label:02}").mkdir(parents=True)
        content = (folder / f"{label:02}/x.jpg").read_bytes()
        (root / f"{label:02}/x.jpg").write_bytes(content[:90] if label in (3, 11, 12) else content)
    test_samples_and_states_are_pythons(str(root), "skip", threads)
    test_states_cross_over_at_every_batch(str(root), "skip", threads)


def test_a_state_that_was_changed_is_refused(folder: Path) -> None:
    state = loader_of("arrays", "shuffle", 0).state_dict()
    state["millrace"]["base_seed"] += 1
    run = subprocess.run(
        [PROGRAM, "arrays", "shuffle", "0", "resume"], input=json.dumps(state), capture_output=True, text=True
    )
    assert run.returncode == 1 and "checksum" in run.stderr
