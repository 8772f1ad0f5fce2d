"""Shards of pictures and labels, and WebDatasets over them that the native engine runs."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess

import millrace.transforms as T
import pytest
from millrace import DataLoader
from millrace.datasets import WebDataset
from pictures import jpeg_bytes, make_picture
from shard_data import numbered_shards, same, write_tar

LENGTHS = (7, 5, 1, 6)
COUNT = sum(LENGTHS)
FIXED = T.Compose([T.Resize((12, 16)), T.ToTensor()])
RANDOM = T.Compose([T.RandomResizedCrop(12), T.RandomHorizontalFlip(), T.ToTensor()])


def encoded(picture, form):
    buffer = io.BytesIO()
    picture.save(buffer, form)
    return buffer.getvalue()


def members_of(number):
    picture = make_picture(24 + number % 5, 20 + number % 3, seed=number)
    form = ("jpg", "png", "webp")[number % 3]
    data = jpeg_bytes(picture, quality=90) if form == "jpg" else encoded(picture, form)
    return [
        (f"d/{number:03d}.{form}", data),
        (f"d/{number:03d}.cls", b"%d" % number),
        (f"d/{number:03d}.txt", b"t" * number),
    ]


def write_shards(folder, damaged=()):
    """s-0.tar .. s-3.tar, and the same packed by gzip and, where there is its program, zstd."""
    number = 0
    for shard, length in enumerate(LENGTHS):
        members = []
        for i in range(number, number + length):
            picture, *others = members_of(i)
            members += [(picture[0], b"no picture") if i in damaged else picture, *others]
        number += length
        path = write_tar(folder / f"s-{shard}.tar", members)
        with open(path, "rb") as file:
            data = file.read()
        (folder / f"s-{shard}.tar.gz").write_bytes(gzip.compress(data))
        if shutil.which("zstd"):
            subprocess.run(["zstd", "-q", "-f", path, "-o", f"{path}.zst"], check=True)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("streams"))


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Of numbers, of these lengths."""
    return numbered_shards(tmp_path_factory.mktemp("numbers"), LENGTHS)


def stream(folder, transform=FIXED, ending="tar", **options):
    return images(WebDataset(f"{folder}/s-{{0..3}}.{ending}", **options), transform)


def images(dataset, transform=FIXED):
    return dataset.decode("pil").to_tuple("jpg;png;webp", "cls").map_tuple(transform)


def loaded(dataset, **options):
    """All batches, by the engine and nothing else."""
    loader = DataLoader(dataset, **options)
    assert "python —" not in str(loader.explain()), str(loader.explain())
    return list(loader)


def by_python(dataset, **options):
    options.pop("num_workers", None)
    return list(DataLoader(dataset, native="never", **options))


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        assert same(one, other)
