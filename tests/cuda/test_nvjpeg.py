"""nvJPEG on a GPU against Pillow: pixels, regions, what comes back, and the way on to a batch."""

import io

import millrace
import numpy as np
import pytest
import torch
from batch_cases import images
from millrace._loader.plan.decoding import GpuDecoder
from millrace.transforms.batch import Augmentation, augment
from PIL import Image


@pytest.fixture(scope="module")
def decoder():
    try:
        return GpuDecoder()
    except millrace.UnavailableError as error:
        pytest.skip(str(error))


def jpeg(h, w, seed=0, mode="RGB", **options):
    picture = images(1, 3, h, w, seed=seed)[0].permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(picture).convert(mode).save(file, "JPEG", quality=90, **options)
    return file.getvalue()


def by_pillow(data):
    return torch.from_numpy(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).copy())


FILES = [
    jpeg(100, 131, 1, subsampling="4:4:4"),
    jpeg(333, 200, 2, subsampling="4:2:0"),
    jpeg(64, 64, 3, subsampling="4:2:2"),
    jpeg(211, 97, 4, progressive=True),
    jpeg(50, 60, 5, mode="L"),
]


def near(a, b):
    """nvJPEG's inverse transform and its upsampling of colours round in other ways than libjpeg's."""
    difference = (a.cpu().int() - b.int()).abs()
    return difference.float().mean() < 1.5 and (difference <= 6).float().mean() > 0.97


def test_pixels_are_near_pillows(decoder):
    for _ in range(3):  # buffers are used again
        for data, picture in zip(FILES, decoder(FILES)):
            assert not isinstance(picture, str), picture
            assert picture.shape == by_pillow(data).shape and near(picture, by_pillow(data))


def test_regions(decoder):
    regions = [(10, 20, 64, 50), None, (0, 0, 16, 16), (5, 7, 80, 100), (1, 1, 40, 40)]
    for data, region, picture in zip(FILES, regions, decoder(FILES, regions)):
        if isinstance(picture, str):
            continue  # a kind whose regions nvJPEG leaves to the CPU
        left, top, width, height = region or (0, 0, *by_pillow(data).shape[1::-1])
        assert near(picture, by_pillow(data)[top : top + height, left : left + width])


def test_what_it_cannot_decode_comes_back(decoder):
    cut = FILES[0][:40]
    good, cmyk, damaged, nothing = decoder([FILES[1], jpeg(40, 40, mode="CMYK"), cut, b""])
    assert near(good, by_pillow(FILES[1]))
    assert "4 colour components" in cmyk and isinstance(damaged, str) and isinstance(nothing, str)
    small = GpuDecoder(memory_ceiling_bytes=600 << 20)
    assert all(not isinstance(picture, str) for picture in small(FILES))


def test_decoded_pictures_become_a_batch(decoder):
    pictures = decoder(FILES)
    todo = [Augmentation(flip_horizontal=i % 2 == 0) for i in range(len(FILES))]
    on_gpu = augment(pictures, todo, (48, 48), dtype=torch.uint8).cpu()
    on_cpu = augment([by_pillow(data) for data in FILES], todo, (48, 48), dtype=torch.uint8)
    assert near(on_gpu, on_cpu)
