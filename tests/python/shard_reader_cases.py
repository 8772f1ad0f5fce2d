"""Shards, and what the readers of them give."""

from __future__ import annotations

import io
import os
import tarfile

import pytest


def write(path, members, tar_format=tarfile.PAX_FORMAT, mode="w"):
    with tarfile.open(path, mode, format=tar_format, encoding="utf-8", errors="surrogateescape") as tar:
        for member in members:
            name, data, changes = (*member, {})[:3]
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for attribute, value in changes.items():
                setattr(info, attribute, value)
            tar.addfile(info, io.BytesIO(data) if data else None)
    return str(path)


@pytest.fixture
def shard(tmp_path):
    members = []
    for i in range(6):
        members += [
            (f"d/{i}.jpg", os.urandom(6000 * i)),
            (f"d/{i}.cls", str(i).encode()),
            (f"d/{i}.txt", b"t" * 5000),
        ]
    return write(tmp_path / "shard.tar", members)
