"""Scripts for the webdataset package give the same with `from millrace.datasets import webdataset as wds`."""

from __future__ import annotations

import io
import json
import warnings
import wave

import millrace
import numpy as np
import pytest
import torch
import wds_scripts
from loader_data import torchvision_or_skip
from millrace.datasets import webdataset as ours
from pictures import jpeg_bytes, make_picture
from shard_data import same

wds = pytest.importorskip("webdataset")

COUNT = 23  # in four shards, the last one shorter


def sample(i):
    """As img2dataset writes them, with an array, a label and sound beside."""
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000 if i % 5 else 16000)
        file.writeframes((np.arange(40 + i) * i).astype(np.int16).tobytes())
    return {
        "__key__": f"{i:09d}",
        "jpg": jpeg_bytes(make_picture(20 + i % 5, 18, seed=i)),
        "txt": f"a photo, number {i}",
        "json": json.dumps({"caption": f"photo {i}", "width": 20 + i % 5, "status": "success"}).encode(),
        "cls": i % 7,
        "action.npy": np.arange(3, dtype=np.float32) * i,
        "wav": sound.getvalue(),
    }


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    with wds.ShardWriter(f"{folder}/%05d.tar", maxcount=6, verbose=0) as writer:
        for i in range(COUNT):
            writer.write(sample(i))
    return sorted(map(str, folder.glob("*.tar")))


def run(script, package, loader, shards, workers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return script(package, loader, shards, workers)


def rows(batches):
    """The samples of batches, in an order that does not depend on theirs."""
    found = []
    for batch in batches:
        fields = list(batch.values()) if isinstance(batch, dict) else batch
        found += [
            tuple(str(value.tolist() if hasattr(value, "tolist") else value) for value in row)
            for row in zip(*fields)
        ]
    return sorted(found)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("script", wds_scripts.ORDERED, ids=lambda script: script.__name__)
def test_a_script_gives_the_same(script, workers, shards):
    expected = run(script, wds, torch.utils.data.DataLoader, shards, workers)
    seen = run(script, ours, millrace.DataLoader, shards, workers)
    assert len(seen) == len(expected) > 0
    assert same(seen, expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffled_between_workers(workers, shards):
    script = wds_scripts.mixed_between_workers
    expected = run(script, wds, torch.utils.data.DataLoader, shards, workers)
    seen = run(script, ours, millrace.DataLoader, shards, workers)
    assert len(seen) == len(expected) and rows(seen) == rows(expected)
    keys = [key for batch in seen for key in batch[2]]
    assert keys != sorted(keys)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "name", ["with_transforms", "contrastive_with_transforms", "diffusion_with_transforms"]
)
def test_natively(name, workers, shards):
    """The same pixels; with workers, by one reader, in the shards' order."""
    T = torchvision_or_skip().transforms
    transform = T.Compose([T.Resize(16), T.CenterCrop(16), T.ToTensor(), T.Normalize([0.5] * 3, [0.5] * 3)])
    script = getattr(wds_scripts, name)
    loader = script(ours, millrace.DataLoader, shards, workers, transform)
    assert "python —" not in loader.explain(), loader.explain()
    seen = list(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = list(script(wds, torch.utils.data.DataLoader, shards, workers, transform))
    if workers == 0:
        assert same(seen, expected)
    elif (
        name == "contrastive_with_transforms"
    ):  # an epoch of so many batches: which samples are in it depends on who reads
        assert len(seen) == len(expected) == 8
    else:
        assert rows(seen) == rows(expected)
