"""Transforms with FiveCrop and TenCrop, as they are written, for test_crops.py. Their functions' sources are
read, so they have a module without asserts, and a line each.
"""

import torch
from image_folder_cases import MEAN, STD


def stacked(t):
    """torchvision's documentation has it."""
    return lambda crops: torch.stack([t.ToTensor()(crop) for crop in crops])


def as_bytes(t):
    return lambda crops: torch.stack([t.PILToTensor()(crop) for crop in crops], dim=0)


def listed(t):
    to_tensor = t.ToTensor()
    return lambda crops: [to_tensor(crop) for crop in crops]


def normalized(t):
    normalize = t.Normalize(MEAN, STD)
    return lambda crops: torch.stack([normalize(crop) for crop in crops])


def only_stack(crops):
    return torch.stack(crops)


class Each:
    """A class of one's own around it."""

    def __init__(self, transform):
        self.transform = transform

    def __call__(self, crops):
        made = []
        for crop in crops:
            made.append(self.transform(crop))
        return torch.stack(made)


class Preset:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, picture):
        return self.transforms(picture)


NATIVE = {  # name: (the steps of a family, whether it is stacked, of how many)
    "five": (lambda t: [t.Resize(20), t.FiveCrop((12, 9)), stacked(t)], 5),
    "ten": (lambda t: [t.Resize(20), t.TenCrop(11), stacked(t)], 10),
    "ten upside down": (lambda t: [t.TenCrop((9, 12), vertical_flip=True), as_bytes(t)], 10),
    "two functions": (lambda t: [t.Resize(20), t.FiveCrop(11), stacked(t), normalized(t)], 5),
    "normalized as one": (lambda t: [t.FiveCrop(11), stacked(t), t.Normalize(MEAN, STD)], 5),
    "of one's own": (lambda t: [t.FiveCrop(11), Each(t.Compose([t.ToTensor(), t.Normalize(MEAN, STD)]))], 5),
    "behind the tensor": (lambda t: [t.ToTensor(), t.Normalize(MEAN, STD), t.TenCrop(11), only_stack], 10),
    "resized crops": (lambda t: [t.FiveCrop(11), Each(t.Compose([t.Resize((7, 8)), t.ToTensor()]))], 5),
    "list": (lambda t: [t.CenterCrop(33), t.FiveCrop(11), listed(t)], 0),
    "tensors": (lambda t: [t.ToTensor(), t.FiveCrop(11)], 0),
    "nested": (lambda t: [Preset(t.Compose([t.Compose([t.Resize(20), t.FiveCrop(9)]), stacked(t)]))], 5),
}


def as_floats(v2):
    return v2.ToDtype(torch.float32, scale=True)


V2 = {
    "pictures": lambda v2: [v2.Resize(20), v2.TenCrop(11), v2.ToImage(), as_floats(v2)],
    "images": lambda v2: [v2.ToImage(), v2.FiveCrop(11), as_floats(v2), v2.Normalize(MEAN, STD)],
    "flipped for sure": lambda v2: [v2.FiveCrop(11), v2.RandomHorizontalFlip(1.0), v2.ToImage()],
    "plain": lambda v2: [v2.ToImage(), v2.FiveCrop(11), v2.ToPureTensor()],
    "stack of images": lambda v2: [v2.ToImage(), v2.FiveCrop(11), only_stack, as_floats(v2)],
}


def counting(seen):
    def count(crops):
        seen.append(len(crops))
        return torch.stack([torch.as_tensor(crop.size) for crop in crops])

    return count


PYTHON = {  # what is not provably views
    "an unknown function": lambda t: [t.Resize(20), t.FiveCrop(9), counting([])],
    "a draw before": lambda t: [t.RandomHorizontalFlip(), t.FiveCrop(9), stacked(t)],
    "steps behind the stack": lambda t: [t.FiveCrop(9), stacked(t), t.RandomErasing()],
    "pictures": lambda t: [t.Resize(20), t.FiveCrop(9)],
}
