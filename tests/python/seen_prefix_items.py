"""Datasets whose __getitem__ takes steps that the engine does not know, in the forms that scripts have."""

import os

import numpy as np
import torch
from millrace import transforms
from PIL import Image, ImageOps
from seen_items import Base


def darker(picture):
    """PIL image, array or tensor. The loop makes its source one that is not read."""
    for _ in range(1):
        picture = ImageOps.solarize(picture, 90) if isinstance(picture, Image.Image) else picture // 2
    return picture


def scaled(tensor, factor, offset=0.0):
    return torch.add(tensor * factor, offset)


class ByName:
    """In the manner of Albumentations."""

    def __call__(self, *, image):
        return {"image": np.flip(image, 1).copy(), "replay": None}


class Known(Base):
    """The known steps alone."""

    def __init__(self, root, count, transform):
        super().__init__(root, count, transform)
        self.paths = [os.path.join(self.root, name) for name in self.names]
        self.by_name_alone, self.strength = ByName(), 0.5
        self.resize = transforms.Resize((16, 18))

    def open(self, index):
        return Image.open(self.paths[index]).convert("RGB")

    def __getitem__(self, index):
        return self.transform(self.open(index)), index


class Function(Known):
    def __getitem__(self, index):
        image = self.transform(self.open(index))
        image = darker(image)
        return image, index


class Between(Known):
    """A function in the middle, and one at the end."""

    def __getitem__(self, index):
        image = darker(self.resize(self.open(index)))
        return {"image": self.transform(image) * 2 - 1, "index": index}


class Method(Known):
    """A method of the dataset's own that is not read."""

    def augment(self, image):
        while image.shape[-1] > 16:
            image = image[..., :-1]
        return image.flip(-1)

    def __getitem__(self, index):
        return self.augment(self.transform(self.open(index))), self.labels[index]


class Methods(Known):
    def __getitem__(self, index):
        image = self.resize(self.open(index)).rotate(90, expand=True).quantize(16).convert("RGB")
        return self.transform(image).flip((0, 2)).clamp(0.1, max=0.8), index


class Arguments(Known):
    def __getitem__(self, index):
        return scaled(self.transform(self.open(index)), self.strength, offset=0.25), index


class Computed(Known):
    def __getitem__(self, index):
        image = self.transform(self.open(index))
        return 1 - (image - 0.5) / 0.25, index


class Named(Known):
    def __getitem__(self, index):
        array = np.array(self.open(index).resize((18, 16)))
        augmented = self.by_name_alone(image=array)
        image = augmented["image"]
        return torch.from_numpy(image.transpose(2, 0, 1)).float() / 255, index


class Masks(Known):
    """A picture whose steps are known in part, one of grey whose steps are known."""

    def __getitem__(self, index):
        image, mask = self.open(index), Image.open(self.paths[-1 - index]).convert("L")
        image, mask = self.transform(image), transforms.ToTensor()(self.resize(mask))
        return {"image": darker(image), "mask": mask, "path": self.paths[index]}


class Views(Known):
    def __getitem__(self, index):
        image = self.open(index)
        return darker(self.transform(image)), self.transform(image), index


class Stacks(Known):
    def __getitem__(self, index):
        frames = [darker(self.transform(self.open(i))) for i in (0, 1)]
        image = self.open(index)
        pair = torch.stack([self.transform(image), darker(self.transform(image))])
        return torch.stack(frames), pair


class Tries(Known):
    def __getitem__(self, index):
        try:
            return darker(self.transform(self.open(index))), index
        except ArithmeticError:
            return self[0]


SEEN = [Function, Between, Method, Methods, Arguments, Computed, Named, Masks, Views, Tries]


# -- what stays in Python
# ----------------------------------------------------------------------------------------------


class Decoded(Known):
    """Nothing but decoding is known, which pictures that wait have as well."""

    def __getitem__(self, index):
        return self.transform(darker(self.open(index))), index


class Shared(Known):
    def __getitem__(self, index):
        image = darker(self.resize(self.open(index)))
        return self.transform(image), self.transform(image)


class Alike(Known):
    """One view has no steps of its own in front of what is not known, which might change the other's."""

    def __getitem__(self, index):
        image = self.open(index).resize((18, 16))
        return self.transform(image), transforms.ToTensor()(darker(image))


class Turns(Known):
    """Steps of two pictures that take turns."""

    def __getitem__(self, index):
        image, other = self.transform(self.open(index)), self.transform(self.open(0))
        image, other = darker(image), darker(other)
        return darker(image), darker(other)


class Both(Known):
    """A step that gets more than the picture."""

    def __getitem__(self, index):
        return scaled(self.transform(self.open(index)), index), index


class Unused(Known):
    def __getitem__(self, index):
        image = self.transform(self.open(index))
        darker(image)
        return image, index


class Grey(Known):
    """The rest would get a picture in a mode that the engine does not give it."""

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("L")
        return transforms.ToTensor()(darker(self.resize(image))), index


PYTHON = [Decoded, Shared, Alike, Turns, Both, Unused, Grey]
