"""Transforms whose source is read, as public repositories have them, and functions that tests change.

They have a module of their own because pytest rewrites the asserts of test modules: functions there are not
what their source compiles to, and then nothing is read.
"""

import random

import numpy as np
import torch
from PIL import ImageFilter, ImageOps


class Step:
    """Holds two transforms and what the classes below look at."""

    def __init__(self, t, u=None):
        self.t, self.u = t, u
        self.p, self.n, self.count = 0.3, 2, 0
        self.sigma = [0.1, 2.0]
        self.seen = []
        self.off = False


class Blur(Step):
    """DINO's."""

    def __call__(self, img):
        do_it = random.random() <= self.p
        if not do_it:
            return img

        return img.filter(ImageFilter.GaussianBlur(radius=random.uniform(self.sigma[0], self.sigma[1])))


class MocoBlur(Step):
    def __call__(self, x):
        sigma = random.uniform(self.sigma[0], self.sigma[1])
        x = x.filter(ImageFilter.GaussianBlur(radius=sigma))
        return x


class VicregBlur(Step):
    def __call__(self, img):
        if np.random.rand() < self.p:
            sigma = np.random.rand() * 1.9 + 0.1
            return img.filter(ImageFilter.GaussianBlur(sigma))
        else:
            return img


class Solarize(Step):
    def __call__(self, img):
        if random.random() < self.p:
            return ImageOps.solarize(img)
        else:
            return img


class TorchCoin(Step):
    def __call__(self, img):
        if torch.rand(1) < self.p:
            img = ImageOps.invert(img)
        return img


class TwoCoins(Step):
    def __call__(self, img):
        if random.random() < self.p:
            img = ImageOps.equalize(img)
        if random.random() > 0.75:
            img = ImageOps.solarize(img, 99)
        return img


class Ternary(Step):
    def __call__(self, img):
        img = self.t(img) if np.random.uniform() < self.p else img
        return self.u(img)


class TwoCrops(Step):
    """MoCo's."""

    def __call__(self, x):
        q = self.t(x)
        k = self.t(x)
        return [q, k]


class Generated(Step):
    """SimCLR's."""

    def __call__(self, x):
        return [self.t(x) for i in range(self.n)]


class Pair(Step):
    """Barlow Twins' and VICReg's."""

    def __call__(self, sample):
        x1 = self.t(sample)
        x2 = self.u(sample)
        return x1, x2


class Each(Step):
    """lightly's."""

    def __init__(self, t, u):
        self.transforms = [t, u]

    def __call__(self, image):
        return [transform(image) for transform in self.transforms]


class Dino(Step):
    def __init__(self, t, u, local=8):
        self.global_transfo1, self.global_transfo2, self.local_transfo = t, t, u
        self.local_crops_number = local

    def __call__(self, image):
        crops = []
        crops.append(self.global_transfo1(image))
        crops.append(self.global_transfo2(image))
        for _ in range(self.local_crops_number):
            crops.append(self.local_transfo(image))
        return crops


class DinoV2:
    """Its teacher's views are the student's."""

    def __init__(self, whole, part, one, other, local=3):
        self.geometric_augmentation_global, self.geometric_augmentation_local = whole, part
        self.global_transfo1, self.global_transfo2, self.local_transfo = one, other, one
        self.local_crops_number = local

    def __call__(self, image):
        output = {}

        # global crops:
        im1_base = self.geometric_augmentation_global(image)
        global_crop_1 = self.global_transfo1(im1_base)

        im2_base = self.geometric_augmentation_global(image)
        global_crop_2 = self.global_transfo2(im2_base)

        output["global_crops"] = [global_crop_1, global_crop_2]
        output["global_crops_teacher"] = [global_crop_1, global_crop_2]

        local_crops = [
            self.local_transfo(self.geometric_augmentation_local(image))
            for _ in range(self.local_crops_number)
        ]
        output["local_crops"] = local_crops
        output["offsets"] = ()

        return output


class Prepared(Step):
    """A fixed step, then views."""

    def __call__(self, image):
        image = self.t(image.convert("RGB"))
        return {"one": self.u(image), "other": (self.u(image),)}


# ---------------------------------------------------------------- for the tests that change something


def invert(img):
    return ImageOps.invert(img)


def equalize(img):
    return ImageOps.equalize(img)


def autocontrast(img):
    return ImageOps.autocontrast(img)


class Threshold:
    def __init__(self, threshold):
        self.threshold = threshold

    def __call__(self, img):
        return ImageOps.solarize(img, self.threshold)


class Bits:
    def __init__(self, bits):
        self.bits = bits

    def __call__(self, img):
        return ImageOps.posterize(img, bits=self.bits)


def by_builtin(img):
    return [ImageOps.invert(img) for _ in range(2)]


one_line, other = (lambda x: ImageOps.invert(x)), (lambda x: ImageOps.equalize(x))
alone = lambda x: ImageOps.invert(x)  # noqa: E731


def nested(t):
    def inner(x):
        return [t(x), t(x)]

    return inner


def with_transform(t, x):
    return [t(x), t(x)]


class Module(torch.nn.Module):
    def __init__(self, t):
        super().__init__()
        self.t = t

    def forward(self, x):
        return [self.t(x), self.t(x)]


class Overrides(TwoCrops):
    def __call__(self, x):
        self.count += 1
        return super().__call__(x)
