"""A native WebDataset with persistent workers: epochs are whole, in their own order, and resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from millrace import DataLoader
from millrace import transforms as T
from millrace.datasets import WebDataset
from pictures import jpeg_bytes, make_picture
from shard_data import write_tar

TOTAL = 12


@pytest.fixture
def make(tmp_path: Path):
    for shard in range(3):
        files = []
        for number in range(shard * 4, shard * 4 + 4):
            files += [
                (f"{number}.jpg", jpeg_bytes(make_picture(40, 30, number))),
                (f"{number}.cls", b"%d" % number),
            ]
        write_tar(tmp_path / f"s-{shard}.tar", files)

    def loader(**options: bool) -> DataLoader:
        chain = T.Compose([T.Resize(16), T.CenterCrop(16), T.ToTensor()])
        dataset = WebDataset(str(tmp_path / "s-{0..2}.tar"), shardshuffle=True).shuffle(5, initial=3)
        dataset = dataset.decode("pil").to_tuple("jpg", "cls").map_tuple(chain)
        return DataLoader(dataset, 5, num_workers=2, native="require", **options)

    return loader


def numbers(batches) -> list[list[int]]:
    return [labels.tolist() for _, labels in batches]


def test_epochs_are_those_of_a_loader_whose_workers_do_not_stay(make) -> None:
    kept, fresh = make(persistent_workers=True), make()
    epochs = [numbers(kept) for _ in range(3)]
    assert epochs == [numbers(fresh) for _ in range(3)]
    assert all(sorted(sum(epoch, [])) == list(range(TOTAL)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_an_epoch_that_was_left_is_followed_by_a_whole_one(make) -> None:
    kept = make(persistent_workers=True)
    next(iter(kept))
    assert sorted(sum(numbers(kept), [])) == list(range(TOTAL))


def test_a_second_epoch_is_resumed(make) -> None:
    kept, resumed = make(persistent_workers=True), make(persistent_workers=True)
    numbers(kept)
    batches = iter(kept)
    next(batches)
    state, rest = kept.state_dict(), numbers(batches)
    resumed.load_state_dict(state)
    assert numbers(resumed) == rest
    assert numbers(resumed) == numbers(kept)
