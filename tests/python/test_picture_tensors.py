"""torchvision.io, torchcodec and what is built over Pillow, while a loader asks for samples: the same arrays
from the engine, and what it does not decode, with every error, from the package.
"""

from __future__ import annotations

import io

import millrace
import numpy as np
import pytest
import torch
from decoder_cases import (
    GREY,
    PLAIN,
    Read,
    encoded,
    odd,
    outcome,
    regular,
    written,
)
from loader_data import torchvision_or_skip
from millrace._pictures import asking
from millrace._pictures.counts import PictureCounts
from PIL import Image, ImageOps

pytestmark = pytest.mark.usefixtures("packages_as_before")

# ------------------------------------------------------------------ torchvision.io


def pillow_tensor(data: bytes, mode: str, turned: bool) -> torch.Tensor:
    picture = Image.open(io.BytesIO(data))
    picture = ImageOps.exif_transpose(picture) if turned else picture
    picture = picture.convert("RGB") if mode == "RGB" else picture
    pixels = np.array(picture)
    return torch.from_numpy(pixels if pixels.ndim == 3 else pixels[..., None]).permute(2, 0, 1)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("turned", [False, True])
def test_torchvision_through_a_loader(workers, turned, tmp_path):
    vision = torchvision_or_skip().io
    files = regular()
    paths = written(files, tmp_path)

    def read(path):
        with open(path, "rb") as file:
            data = encoded(file.read())
        return {
            "image": vision.decode_image(data, "RGB", apply_exif_orientation=turned),
            "path": vision.decode_image(path, apply_exif_orientation=turned),
            "jpeg": vision.decode_jpeg(data, device="cpu", apply_exif_orientation=turned),
            "read": vision.read_image(path, vision.ImageReadMode.RGB, turned),
        }

    loader = millrace.DataLoader(Read(paths, read), batch_size=None, num_workers=workers)
    for (name, data), ours in zip(files.items(), loader, strict=True):
        for key, tensor in ours.items():
            expected = pillow_tensor(data, "RGB" if key in ("image", "read") else "UNCHANGED", turned)
            assert tensor.dtype is torch.uint8 and torch.equal(tensor, expected), (name, key)
    told = loader.stats()["pictures"]
    assert told["opened"] == told["decoded_whole"] == 4 * len(files) and told["left_to_pillow"] == 0
    assert {call.partition("()")[0] for call in told["calls"]} == {
        "decode_image",
        "decode_jpeg",
        "read_image",
    }


def test_torchvision_decides_what_is_wrong():
    vision = torchvision_or_skip().io
    files = odd()
    calls = [
        *((vision.decode_image, encoded(files[name])) for name in ("cmyk", "cut short", "no picture")),
        (vision.decode_jpeg, encoded(PLAIN), "GRAY"),
        (vision.decode_jpeg, encoded(PLAIN), "nonsense"),
        (vision.decode_jpeg, encoded(PLAIN).to(torch.int16)),
        (vision.decode_jpeg, encoded(PLAIN)[None]),
        (vision.decode_jpeg,),
        (vision.decode_jpeg, []),
        (vision.read_image, "/nothing/here.jpg"),
        (vision.decode_image, encoded(files["xmp before"]), "RGB", True),
    ]
    names = [call[0].__name__ for call in calls]
    theirs = [outcome(*call) for call in calls]
    mine = PictureCounts()
    before = asking.asks(mine)
    try:
        ours = [outcome(getattr(vision, name), *call[1:]) for name, call in zip(names, calls)]
    finally:
        asking.stops_asking(before)
    assert ours == theirs and mine.opened == 0


def test_torchvision_is_as_before_behind_it(counts):
    vision = torchvision_or_skip().io
    asking.look_around()
    replaced = vision.decode_image if not vision.image._has_image_ops() else torch.ops.image.decode_image
    assert hasattr(replaced, "_original")
    asking.put_back()
    now = vision.decode_image if not vision.image._has_image_ops() else torch.ops.image.decode_image
    assert not hasattr(now, "_original")


# ------------------------------------------------------------------ torchcodec, imageio, scikit-image


def test_torchcodec(tmp_path):
    try:
        decoders = pytest.importorskip("torchcodec.decoders", exc_type=ImportError)
    except Exception as error:
        pytest.skip(f"torchcodec cannot be loaded: {type(error).__name__}")
    if not hasattr(decoders, "decode_image"):
        pytest.skip("this version of torchcodec decodes no pictures")
    files = {**regular(), **odd()}
    for data in files.values():
        calls = [(data, mode) for mode in ("UNCHANGED", "RGB", "GRAY", "RGB_ALPHA")]
        theirs = [outcome(decoders.decode_image, data, mode=mode) for data, mode in calls]
        before = asking.asks(PictureCounts())
        try:
            ours = [outcome(decoders.decode_image, data, mode=mode) for data, mode in calls]
        finally:
            asking.stops_asking(before)
            asking.put_back()
        assert ours == theirs


@pytest.mark.parametrize("package", ["imageio.v3", "imageio.v2", "skimage.io"])
@pytest.mark.parametrize("workers", [0, 2])
def test_packages_over_pillow_wait_as_pillow_does(package, workers, tmp_path):
    imread = pytest.importorskip(package, reason=f"{package} cannot be imported").imread
    files = {"plain": PLAIN, "grey": GREY}
    paths = written(files, tmp_path)
    theirs = [np.asarray(imread(path)) for path in paths]
    loader = millrace.DataLoader(
        Read(paths, lambda path: np.asarray(imread(path))), batch_size=None, num_workers=workers
    )
    for expected, ours in zip(theirs, loader, strict=True):
        assert torch.equal(ours, torch.from_numpy(expected))
    told = loader.stats()["pictures"]
    assert told["opened"] == told["decoded_whole"] == len(files) and told["left_to_pillow"] == 0
    assert all("in test_picture_tensors.py:" in call for call in told["calls"])
