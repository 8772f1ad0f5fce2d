"""What the tests of `millrace pack` share: photos, packed once, and what is in a folder of shards."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from millrace import _core
from millrace_tools.pack import pack
from pictures import make_jpeg_folder
from PIL import Image


def pixels(data):
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def samples_of(folder):
    return [
        sample for shard in sorted(Path(folder).glob("*.tar")) for sample in _core.ShardReader(str(shard))
    ]


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_jpeg_folder(tmp_path_factory.mktemp("pack") / "photos", per_class=8)


@pytest.fixture(scope="module")
def packed(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pack") / "packed"
    report = pack(photos, folder, samples_per_shard=7, workers=2, verify=True)
    return folder, report
