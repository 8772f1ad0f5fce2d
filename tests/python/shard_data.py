"""Shards for tests, written by hand or by the webdataset package, and equality of what comes out of them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import torch
from pictures import jpeg_bytes, make_picture
from PIL import Image


def write_tar(path, members):
    """A tar of (name, bytes) members, packed if the name ends in .gz."""
    with tarfile.open(path, "w:gz" if str(path).endswith(".gz") else "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return str(path)


def numbered_shards(folder, lengths):
    """A shard for each length; the samples have consecutive numbers as `cls`. Returns the paths."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths, number = [], 0
    for shard, length in enumerate(lengths):
        members = [(f"{i:05d}.cls", str(i).encode()) for i in range(number, number + length)]
        paths.append(write_tar(Path(folder) / f"n-{shard:03d}.tar", members))
        number += length
    return paths


def make_picture_shards(folder, lengths):
    """A shard train-000.tar, ... for each length, of jpg and cls."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    number = 0
    for shard, length in enumerate(lengths):
        members = []
        for i in range(number, number + length):
            members.append((f"{i:05d}.jpg", jpeg_bytes(make_picture(60, 50, seed=i))))
            members.append((f"{i:05d}.cls", str(i % 10).encode()))
        write_tar(Path(folder) / f"train-{shard:03d}.tar", members)
        number += length


def same(a, b, ordered=False):
    """Equality of trees of anything that a pipeline gives: types, shapes, dtypes and values; `ordered`: of
    dicts the order, too.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        keys_are_equal = list(a) == list(b) if ordered else a.keys() == b.keys()
        return keys_are_equal and all(same(a[key], b[key], ordered) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(one, other, ordered) for one, other in zip(a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, Image.Image):
        return a.mode == b.mode and a.size == b.size and a.tobytes() == b.tobytes()
    return a == b
