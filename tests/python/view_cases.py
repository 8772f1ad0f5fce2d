"""What the tests of several views share: transforms as public repositories have them, batches by torch."""

import seen_classes as seen
import torch
from image_folder_cases import MEAN, STD
from millrace import transforms as t
from PIL import Image


def chain(size, *more):
    """A random view of size x size."""
    last = [t.ToTensor(), t.Normalize(MEAN, STD)]
    return t.Compose([t.RandomResizedCrop(size), t.RandomHorizontalFlip(), *more, *last])


def _dino():
    return seen.Dino(chain(16, seen.Blur(None), seen.Solarize(None)), chain(8, seen.Blur(None)), local=3)


def _dinov2():
    whole, part = (t.Compose([t.RandomResizedCrop(size), t.RandomHorizontalFlip()]) for size in (16, 8))
    last = t.Compose([t.ToTensor(), t.Normalize(MEAN, STD)])
    one, other = t.Compose([seen.Blur(None), last]), t.Compose([seen.Solarize(None), last])
    return seen.DinoV2(whole, part, one, other)


VIEWS = {  # name: (transform, how many tensors it makes of a picture)
    "dino": (_dino, 5),
    "dinov2": (_dinov2, 7),
    "simclr": (lambda: seen.Generated(chain(16)), 2),
    "moco": (lambda: seen.TwoCrops(chain(16, seen.MocoBlur(None))), 2),
    "lightly": (lambda: seen.Each(chain(16), chain(8)), 2),
    "tuple": (lambda: seen.Pair(chain(16, seen.VicregBlur(None)), chain(16)), 2),
    "nested": (lambda: t.MultiView({"large": (chain(16), chain(12)), "small": [chain(8)] * 3}), 5),
    "alone": (lambda: t.MultiView([chain(16)]), 1),
    "prepared": (lambda: seen.Prepared(t.Resize(20), chain(16)), 2),
}


def flat(sample):
    """Its tensors, in order."""
    if torch.is_tensor(sample):
        return [sample]
    parts = sample.values() if isinstance(sample, dict) else sample
    return [tensor for part in parts for tensor in flat(part)]


def structure(value):
    """Types, keys and what tensors are, comparable with ==."""
    if torch.is_tensor(value):
        return type(value), value.dtype, tuple(value.shape), value.stride(), value.is_contiguous()
    if isinstance(value, dict):
        return dict, [(key, structure(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [structure(part) for part in value]
    return type(value)


class InPython(torch.utils.data.Dataset):
    """The same pictures, transformed by calling the transform."""

    def __init__(self, dataset):
        self.samples, self.transform = list(dataset.samples), dataset.transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        with Image.open(path) as picture:
            return self.transform(picture.convert("RGB")), label
