"""The same pictures as files and in tar shards: what imagenet.py asks for, read from shards.

A folder made here has `files/`, a class folder with one class per photo, so that labels are the photos'
numbers and an epoch can be checked photo by photo, and `shards/`, tars of NNNNNN.jpg and NNNNNN.cls as
Python's tarfile writes them.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarks.scenarios.imagenet import IMAGENET_TRAIN, IMAGENET_VAL, epoch_indices, list_samples

TAR_TRAIN = replace(IMAGENET_TRAIN, name="tar_train", ragged=True)
TAR_VAL = replace(IMAGENET_VAL, name="tar_val", ragged=True)
PER_SHARD = 100
BUFFER = 200  # samples of the shuffle buffer


def shards_of(root: str | os.PathLike) -> list[str]:
    """The shards beside the class folder `root` of make_folder()."""
    return sorted(map(str, (Path(root).parent / "shards").glob("*.tar")))


def make_folder(images: str, cache: Path, count: int, per_shard: int = PER_SHARD) -> Path:
    """The class folder of `count` photos of the class folder `images`, with its shards beside it; made
    once.
    """
    paths = [path for path, _ in list_samples(images)]
    name = hashlib.sha256(f"{os.path.abspath(images)} {len(paths)} {count} {per_shard}".encode()).hexdigest()[
        :12
    ]
    folder = cache / f"tars-{count}-{name}"
    if not folder.exists():
        part = cache / f"{folder.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        chosen = [os.path.abspath(paths[index]) for index in epoch_indices(len(paths), count)]
        for number, path in enumerate(chosen):
            (part / "files" / f"{number:06}").mkdir(parents=True)
            (part / "files" / f"{number:06}" / "photo.jpg").symlink_to(path)
        write_shards(part / "shards", (Path(path).read_bytes() for path in chosen), per_shard)
        part.rename(folder)
    return folder / "files"


def write_shards(folder: Path, pictures: Iterable[bytes], per_shard: int) -> list[str]:
    """Shards of samples {"jpg": a picture, "cls": its number}."""
    folder.mkdir(parents=True)
    numbered, shards = enumerate(pictures), []
    while some := list(islice(numbered, per_shard)):
        shards.append(str(folder / f"shard-{len(shards):04}.tar"))
        with tarfile.open(shards[-1], "w", format=tarfile.USTAR_FORMAT) as tar:
            for number, picture in some:
                for extension, content in ("jpg", picture), ("cls", b"%d" % number):
                    entry = tarfile.TarInfo(f"{number:06}.{extension}")
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))
    return shards
