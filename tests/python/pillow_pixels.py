"""What Pillow makes of a file's bytes, and whether the engine makes the same of them."""

import io
import warnings

import numpy as np
import pytest
import torch
from millrace import CorruptDataError, _core, transforms
from millrace.datasets import ImageFolder
from millrace.datasets.pillow_decode import decode_with_pillow
from PIL import Image

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # what makes a picture of that EXIF orientation upright


def by_pillow(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def decoded(data):
    """By the engine, which must not leave it to Pillow."""
    pixels = _core.decode_image(data)
    assert pixels is not None, "left to Pillow"
    return pixels


def compare_with_pillow(tmp_path, data, name="f.png"):
    """The data set's row is Pillow's picture, turned as it says, or both refuse. True: a picture."""
    folder = tmp_path / "pictures" / "class"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    dataset = ImageFolder(tmp_path / "pictures", transforms.PILToTensor(), exif=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pixels, orientation = decode_with_pillow(data, name)
    except Exception:
        with pytest.raises(CorruptDataError) as caught:
            dataset.at(0, 0, 0)
        assert name in str(caught.value)
        return False
    picture = Image.fromarray(pixels)
    if orientation in TURNS:
        picture = picture.transpose(TURNS[orientation])
    assert torch.equal(dataset.at(0, 0, 0)[0], transforms.PILToTensor()(picture))
    return True
