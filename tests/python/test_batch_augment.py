"""millrace.transforms.batch.augment on the CPU against Pillow's resize and torchvision's colours of PIL
images.
"""

import numpy as np
import pytest
import torch
from batch_cases import augmentations, augmented, pictures
from millrace.transforms.batch import Augmentation, augment
from PIL import Image

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def by_pillow(TF, picture, a, size, interpolation):
    """What the transforms of single pictures make of it: (3, h, w) uint8."""
    left, top, width, height = a.crop or (0, 0, picture.shape[1], picture.shape[0])
    image = Image.fromarray(np.ascontiguousarray(picture[..., :3].numpy())).crop(
        (left, top, left + width, top + height)
    )
    resized = a.size or size
    image = image.resize((resized[1], resized[0]), FILTERS[interpolation])
    y, x = a.offset
    image = image.crop((x, y, x + size[1], y + size[0]))  # black where it is outside
    image = TF.horizontal_flip(image) if a.flip_horizontal else image
    image = TF.vertical_flip(image) if a.flip_vertical else image
    functions = [TF.adjust_brightness, TF.adjust_contrast, TF.adjust_saturation, TF.adjust_hue]
    for op in a.order:
        image = functions[op](image, float(a.factors[op])) if op < 4 else image
    image = TF.to_grayscale(image, num_output_channels=3) if a.grayscale else image
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("channels", [3, 4])
def test_pixels_are_pillows(torchvision, interpolation, channels):
    from torchvision.transforms.v2 import functional as TF

    out = augmented(channels=channels, dtype=torch.uint8, interpolation=interpolation)
    for i, (picture, a) in enumerate(zip(pictures(channels=channels), augmentations())):
        wanted = by_pillow(TF, picture, a, (56, 70), interpolation)
        assert torch.equal(out[i], wanted), (i, (out[i].int() - wanted.int()).abs().max())


def test_values_are_normalised():
    whole = augmented(dtype=torch.uint8)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    wanted = (whole.float() / 255 - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    for channels_last in (False, True):
        out = augmented(mean=mean, std=std, channels_last=channels_last)
        assert (out - wanted).abs().max() <= 1e-5
        assert out.is_contiguous(
            memory_format=torch.channels_last if channels_last else torch.contiguous_format
        )
        assert torch.equal(
            augmented(mean=mean, std=std, dtype=torch.bfloat16, channels_last=channels_last), out.bfloat16()
        )
    assert (augmented() - whole / 255).abs().max() <= 1e-6


def test_bad_input():
    picture = torch.zeros(20, 30, 3, dtype=torch.uint8)
    whole = Augmentation()
    bad = [
        ([], [], {}, "at least one picture"),
        ([picture], [whole, whole], {}, "2 augmentations were given for 1"),
        ([picture.float()], [whole], {}, "must be uint8"),
        ([picture[..., 0]], [whole], {}, "shape"),
        ([picture.permute(1, 0, 2)], [whole], {}, "contiguous"),
        (
            [picture],
            [Augmentation(crop=(1, 0, 30, 20))],
            {},
            "picture 0: the crop does not lie inside its 20 x 30",
        ),
        ([picture], [Augmentation(size=(0, 3))], {}, "resized to nothing"),
        ([picture], [Augmentation(order=(9, 4, 4, 4))], {}, "order has 9"),
        ([picture], [whole], {"mean": [0.5]}, "both three, or none"),
        ([picture], [whole], {"dtype": torch.float64}, "float64"),
        (
            [picture],
            [whole],
            {"dtype": torch.uint8, "mean": [0.5] * 3, "std": [0.5] * 3},
            "none for a uint8 result",
        ),
        ([picture], [whole], {"interpolation": "nearest"}, "nearest"),
        ([torch.zeros(2, 60000, 3, dtype=torch.uint8)], [whole], {}, "too large"),
    ]
    for items, done, options, words in bad:
        with pytest.raises(ValueError, match=words):
            augment(items, done, (8, 8), **options)
