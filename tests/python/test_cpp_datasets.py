"""The C++ library's token windows, packed documents, indexed shards and streams of shards give what Python's
give: the same samples in the same order, byte for byte, and states that cross over in both directions at
every batch.
"""

from __future__ import annotations

import io
import itertools
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import millrace
import numpy as np
import pytest
import torch
from cpp_states import PROGRAM, program, sums, without_torchs
from millrace import _core, transforms
from millrace.datasets import PackedSequences, Tokens, WebDataset
from PIL import Image

SAMPLES, SEED = 23, 1234567890123456789
KINDS = ["windows", "packed", "shards"]

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the C++ tests are not built (build/dev)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cpp_datasets")
    rng = np.random.default_rng(1)
    rng.integers(0, 50000, 1000, dtype=np.uint16).tofile(root / "ids.bin")
    for shard in range(2):
        with tarfile.open(root / f"s-{shard:02}.tar", "w") as tar:
            for label in range(shard * 12, min(SAMPLES, shard * 12 + 12)):
                picture = Image.fromarray(rng.integers(0, 255, (6, 5, 3), dtype=np.uint8))
                content = io.BytesIO()
                picture.resize((40 + label, 60 - label), Image.Resampling.BICUBIC).save(content, "JPEG")
                for suffix, data in (("jpg", content.getvalue()), ("cls", b"%d" % label)):
                    info = tarfile.TarInfo(f"{label:03}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return root


def data_of(kind: str, folder: Path) -> str:
    return f"{kind}:{folder}/{'s-{00..01}.tar' if kind == 'shards' else 'ids.bin'}"


def dataset_of(data: str) -> Any:
    """states_program.cpp has the same."""
    kind, _, path = data.partition(":")
    if kind == "windows":
        return Tokens([path, path], 16, "uint16", 13, max_token=49999)
    if kind == "packed":
        offsets = [0]
        while offsets[-1] + (len(offsets) - 1) % 29 <= 1000:
            offsets.append(offsets[-1] + (len(offsets) - 1) % 29)
        tokens = np.memmap(path, np.uint16, "r")
        options: Any = {"pad_id": 7, "ignore_index": -1, "document_ids": True, "seed": 5}
        return PackedSequences((tokens, offsets), 32, separator=50000, **options)
    chain = [
        transforms.RandomResizedCrop(24),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
    ]
    shards = WebDataset(path, shardshuffle=False).decode("pil").to_tuple("jpg;jpeg;png;webp", "cls")
    return shards.map_tuple(transforms.Compose(chain)).indexed()


def loader_of(data: str, threads: int) -> millrace.DataLoader[Any]:
    return millrace.DataLoader(
        dataset_of(data),
        batch_size=4,
        shuffle=True,
        num_workers=threads,
        generator=torch.Generator().manual_seed(SEED),
        native="require",
    )


def epoch_of(loader: millrace.DataLoader[Any], number: int) -> Any:
    if hasattr(loader.dataset, "set_epoch"):
        loader.dataset.set_epoch(number)
    return iter(loader)


def run_in_python(data: str, threads: int) -> tuple[list[list[int]], list[Any]]:
    """The sums of two epochs' batches, and the states behind each batch, with the epoch's number."""
    loader = loader_of(data, threads)
    batches, states = [], []
    for number in range(2):
        for batch in epoch_of(loader, number):
            batches.append(sums(batch))
            states.append((number, loader.state_dict()))
    return batches, states


@pytest.mark.parametrize("threads", [0, 1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_pythons(kind: str, threads: int, folder: Path) -> None:
    data = data_of(kind, folder)
    ours = [line["batch"]["sums"] for line in program(data, "shuffle", threads) if "batch" in line]
    batches, _ = run_in_python(data, threads)
    assert len(batches) > 10
    assert ours == batches


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_states_cross_over_at_every_batch(kind: str, threads: int, folder: Path) -> None:
    data = data_of(kind, folder)
    batches, states = run_in_python(data, threads)
    each = len(batches) // 2
    lines = "".join(json.dumps(state) + "\n" for _, state in states)
    for at, (there, (number, _)) in enumerate(
        zip(program(data, "shuffle", 2 - threads, "resume", lines=lines), states, strict=True), 1
    ):
        rest = [batch["sums"] for batch in there[0]]
        assert rest == batches[at : (number + 1) * each]
        if number == 0:
            assert [batch["sums"] for batch in there[1]] == batches[each:]
    ours = [line for line in program(data, "shuffle", threads) if "batch" in line]
    for at, line in enumerate(ours, 1):
        number = (at - 1) // each
        loader = loader_of(data, 2 - threads)
        loader.load_state_dict(line["state"])
        assert [sums(batch) for batch in epoch_of(loader, number)] == batches[at : (number + 1) * each]


def test_an_index_beside_its_shard_is_of_that_very_shard(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "s-00.tar"
    path.write_bytes((folder / "s-01.tar").read_bytes())
    data = f"shards:{path}"
    expected = [line["batch"] for line in program(data, "in_order", 0) if "batch" in line]
    _core.TarIndex.build(str(path)).save(str(path) + ".index")
    assert [line["batch"] for line in program(data, "in_order", 0) if "batch" in line] == expected
    for other in (b"damaged", (folder / "s-00.tar").read_bytes()[:600]):
        Path(f"{path}.index").write_bytes(other)
        assert [line["batch"] for line in program(data, "in_order", 0) if "batch" in line] == expected
    _core.TarIndex.build(str(folder / "s-00.tar")).save(str(path) + ".index")
    assert [line["batch"] for line in program(data, "in_order", 0) if "batch" in line] == expected


# Streams. Shards, buffers, batches, ranks and seeds are drawn at random; a failure shows the case.

SEED_OF_CASES = 1


def drawn_stream(draw: random.Random) -> dict[str, int]:
    ranks = draw.choice([1, 1, 2, 3])
    return {
        "batch": draw.randint(1, 6),
        "drop_last": draw.randint(0, 1),
        "shuffled": draw.randint(0, 1),
        "buffer": draw.choice([0, 1, 2, draw.randint(3, 22), 17, 200]),
        "seed": draw.choice([0, draw.randrange(2**40)]),
        "rank": draw.randrange(ranks),
        "ranks": ranks,
    }


def loader_of_stream(data: str, case: dict[str, int], threads: int) -> millrace.DataLoader[Any]:
    """states_program.cpp has the same."""
    chain = [transforms.RandomResizedCrop(24), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    shards = WebDataset(data.partition(":")[2], shardshuffle=bool(case["shuffled"]), seed=case["seed"])
    if case["buffer"]:
        shards = shards.shuffle(case["buffer"])
    shards = shards.decode("pil").to_tuple("jpg;jpeg;png;webp", "cls").map_tuple(transforms.Compose(chain))
    return millrace.DataLoader(
        shards,
        batch_size=case["batch"],
        drop_last=bool(case["drop_last"]),
        num_workers=threads,
        generator=torch.Generator().manual_seed(SEED),
        native="require",
    )


def run_stream_in_python(data: str, case: dict[str, int], threads: int) -> list[dict[str, Any]]:
    """Two epochs, as the program writes them."""
    loader = loader_of_stream(data, case, threads)
    lines: list[dict[str, Any]] = [{"state": loader.state_dict()}]
    for _ in range(2):
        for batch in loader:
            lines.append({"batch": {"sums": sums(batch)}, "state": loader.state_dict()})
        lines.append({"state": loader.state_dict()})
    return lines


def check_stream(data: str, case: dict[str, int], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", str(case["rank"]))
    monkeypatch.setenv("WORLD_SIZE", str(case["ranks"]))
    settings = [f"{key}={value}" for key, value in case.items()]

    ours, pythons = program(data, "in_order", threads, *settings), run_stream_in_python(data, case, threads)
    for mine, theirs in zip(ours[1:], pythons[1:], strict=True):  # before all, Python's may be one of workers
        assert mine.get("batch", {}).get("sums") == theirs.get("batch", {}).get("sums")
        assert without_torchs(mine["state"]) == without_torchs(theirs["state"])
    lines = "".join(json.dumps(line["state"]) + "\n" for line in pythons)
    there = program(data, "in_order", 2 - threads, "resume", *settings, lines=lines)
    # Behind each batch the rest of its epoch, behind the last one none; behind an epoch the whole next one.
    epochs: list[list[Any]] = [[]]
    for line in pythons[1:]:
        if "batch" in line:
            epochs[-1].append(line["batch"]["sums"])
        else:
            epochs.append([])
    rests = [epoch[count:] for epoch in epochs[:2] for count in range(len(epoch) + 1)]
    for line, epochs_there, rest in itertools.zip_longest(ours, there, rests):
        loader = loader_of_stream(data, case, threads)
        loader.load_state_dict(line["state"])
        back = [[sums(batch) for batch in loader] for _ in range(2)]
        assert [[batch["sums"] for batch in epoch] for epoch in epochs_there] == back
        assert rest is None or back[0] == rest


MANY = [pytest.param(number, marks=pytest.mark.slow) for number in range(16, 80)]


@pytest.mark.parametrize("number", [*range(16), *MANY])
def test_streams_and_their_states_cross_over_at_every_batch(
    number: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(f"{SEED_OF_CASES} streams {number}")
    case, threads = drawn_stream(draw), draw.choice([0, 2])
    try:
        check_stream(f"stream:{folder}/s-{{00..01}}.tar", case, threads, monkeypatch)
    except BaseException:
        print(f"SEED_OF_CASES={SEED_OF_CASES}: threads={threads} {case}")
        raise
