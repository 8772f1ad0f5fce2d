"""Shows WebDataset shards: read, shuffled, divided among workers, taken up again in the middle, and mixed.

    python examples/webdataset_shards.py

Makes eight small shards of its own in a temporary folder. With the webdataset package installed, its samples
are compared, too.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from millrace import DataLoader
from millrace.datasets import Mixture, WebDataset, ignore_and_continue
from PIL import Image

SAMPLES, SHARDS = 400, 8


def make_shards(folder: Path) -> str:
    """Tars with 000123.jpg, 000123.cls and 000123.json for each sample; returns their URL."""
    for shard in range(SHARDS):
        with tarfile.open(folder / f"train-{shard:03d}.tar", "w") as tar:
            for number in range(shard, SAMPLES, SHARDS):
                for ending, data in files_of(number):
                    info = tarfile.TarInfo(f"{number:06d}.{ending}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return f"{folder}/train-{{000..{SHARDS - 1:03d}}}.tar"


def files_of(number: int) -> Iterator[tuple[str, bytes]]:
    picture = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((96, 64), Image.Resampling.BICUBIC).save(picture, "JPEG")
    yield "jpg", picture.getvalue()
    yield "cls", str(number % 10).encode()
    yield "json", json.dumps({"number": number}).encode()


def number_of(sample: dict[str, Any]) -> int:
    return int(sample["json"]["number"])


def numbers(loader: DataLoader[Any]) -> list[int]:
    return [number for batch in loader for number in batch.tolist()]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        show(make_shards(Path(folder)))


def show(urls: str) -> None:
    pictures = WebDataset(urls).decode("torchrgb8").to_tuple("jpg;png", "cls").batched(32)
    loader = DataLoader(pictures, batch_size=None, num_workers=2)
    sizes = [len(labels) for _, labels in loader]
    print(f"read:        {sum(sizes)} pictures in {len(sizes)} batches")
    compare(urls)

    print(WebDataset(urls).describe_split(num_workers=2, ranks=2))
    few = WebDataset(urls.replace(f"{SHARDS - 1:03d}", "001"))
    share = few.describe_split(num_workers=4, ranks=2).splitlines()[-1].strip()
    print(f"few shards:  {share.rpartition(':')[0]}")

    # A training run is stopped in the middle of its second epoch, and a new process goes on from the state.
    def make_loader() -> DataLoader[Any]:
        dataset = WebDataset(urls, shardshuffle=True, seed=7).shuffle(100).decode(only="json").map(number_of)
        return DataLoader(dataset, batch_size=16, num_workers=2)

    loader = make_loader()
    first = numbers(loader)
    iterator = iter(loader)
    before = [number for _ in range(5) for number in next(iterator).tolist()]
    state = json.dumps(loader.state_dict())
    resumed = make_loader()
    resumed.load_state_dict(json.loads(state))
    rest = numbers(resumed)
    once = sorted(before + rest) == list(range(SAMPLES))
    print(f"epochs:      {'in other orders' if first[:80] != before else 'ALIKE'}")
    print(
        f"resumed:     behind {len(before)} samples, from a state of {len(state)} bytes; the other"
        f" {len(rest)} came, {'each once' if once else 'NOT EACH ONCE'}"
    )

    # Three quarters from one stream, a quarter from the other, in epochs of 200 samples for each worker.
    even = (
        WebDataset(urls, shardshuffle=True)
        .decode(only="json")
        .map(number_of)
        .select(lambda number: number % 2 == 0)
    )
    odd = (
        WebDataset(urls, shardshuffle=True)
        .decode(only="json")
        .map(number_of)
        .select(lambda number: number % 2 == 1)
    )
    mixed = numbers(
        DataLoader(Mixture([even.repeat(), odd.repeat()], weights=[3, 1]).with_epoch(200), batch_size=20)
    )
    print(
        f"a mixture:   {sum(number % 2 == 0 for number in mixed) / len(mixed):.0%} even numbers of"
        f" {len(mixed)}"
    )

    # A sample that cannot be decoded is an error that names it, or is left out.
    def fails(key: str, data: bytes) -> Any:
        return int(data) // 0 if key == ".cls" and data == b"3" else None

    try:
        list(WebDataset(urls).decode(fails))
    except OSError as error:
        print(f"an error:    {str(error).rpartition('/')[2]}")
    print(
        f"skipped:     {SAMPLES - len(list(WebDataset(urls).decode(fails, handler=ignore_and_continue)))} of"
        f" {SAMPLES} samples"
    )


def compare(urls: str) -> None:
    try:
        import webdataset
    except ImportError:
        return
    ours = WebDataset(urls).decode("torchrgb8").to_tuple("jpg", "cls", "json")
    theirs = (
        webdataset.WebDataset(urls, shardshuffle=False).decode("torchrgb8").to_tuple("jpg", "cls", "json")
    )
    same = all(torch.equal(a[0], b[0]) and a[1:] == b[1:] for a, b in zip(ours, theirs, strict=True))
    print(f"webdataset:  {'gives the same' if same else 'GIVES OTHERS'}")


if __name__ == "__main__":
    main()
