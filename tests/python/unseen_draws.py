"""Transforms like those of seen_classes.py whose draws are other than they look: one decides two things, or
comes from elsewhere. None may be read.
"""

import random

import numpy as np
import torch
from PIL import ImageFilter, ImageOps
from seen_classes import Step


class Hostile(Step):
    pass


class OneDrawTwoTests(Hostile):
    def __call__(self, img):
        r = random.random()
        if r < 0.5:
            return self.t(img)
        if r < 0.7:
            return self.u(self.t(img))
        return img


class ElifOfOneDraw(Hostile):
    def __call__(self, img):
        r = random.random()
        if r < 0.5:
            img = ImageOps.invert(img)
        elif r < 0.7:
            img = ImageOps.invert(ImageOps.equalize(img))
        return img


class CoinTwice(Hostile):
    def __call__(self, img):
        coin = random.random() < self.p
        if coin:
            img = ImageOps.invert(img)
        if coin:
            img = ImageOps.equalize(img)
        return img


class CoinAndItsContrary(Hostile):
    def __call__(self, img):
        coin = random.random() < self.p
        img = ImageOps.invert(img) if coin else img
        img = ImageOps.equalize(img) if not coin else img
        return img


class CoinOfTwoViews(Hostile):
    def __call__(self, img):
        coin = random.random() < self.p
        one = self.t(img) if coin else img
        other = self.t(img) if coin else img
        return [self.u(one), self.u(other)]


class BranchBeforeViews(Hostile):
    def __call__(self, img):
        if random.random() < self.p:
            return [self.t(img), self.t(img)]
        return [self.u(img), self.u(img)]


class SigmaOfTwoViews(Hostile):
    def __call__(self, img):
        sigma = random.uniform(0.1, 2.0)
        one = img.filter(ImageFilter.GaussianBlur(sigma))
        other = img.filter(ImageFilter.GaussianBlur(sigma))
        return [self.t(one), self.t(other)]


class FilterOfTwoViews(Hostile):
    def __call__(self, img):
        blur = ImageFilter.GaussianBlur(random.uniform(0.1, 2.0))
        return [self.t(img.filter(blur)), self.t(img.filter(blur))]


class FilterInALoop(Hostile):
    def __call__(self, img):
        blur = ImageFilter.GaussianBlur(random.uniform(0.1, 2.0))
        for _ in range(2):
            img = img.filter(blur)
        return img


class DrawForCoinAndSigma(Hostile):
    def __call__(self, img):
        r = random.random()
        if r < self.p:
            img = img.filter(ImageFilter.GaussianBlur(r))
        return img


class ShiftedDrawTwice(Hostile):
    def __call__(self, img):
        r = random.random()
        img = img.filter(ImageFilter.GaussianBlur(r + 1))
        return img.filter(ImageFilter.GaussianBlur(r * 2))


class PictureOfBeforeInAnArm(Hostile):
    """One view has the result of the draw that another one may have."""

    def __call__(self, img):
        drawn = self.t(img)
        maybe = drawn if random.random() < self.p else img
        return [self.u(drawn), self.u(maybe)]


class ArmsSwapped(Hostile):
    def __call__(self, img):
        drawn = self.t(img)
        maybe = img if random.random() < self.p else drawn
        return [self.u(maybe), self.u(drawn)]


class Chained(Hostile):
    def __call__(self, img):
        return self.t(img) if 0 < random.random() < self.p else img


class Raises(Hostile):
    def __call__(self, img):
        if random.random() < self.p:
            raise ValueError
        return self.t(img)


class While(Hostile):
    def __call__(self, img):
        while random.random() < self.p:
            img = self.t(img)
        return img


class WrongArguments(Hostile):
    def __call__(self, img):
        return self.t(img) if random.random(3) < self.p else img


class OfAGenerator(Hostile):
    def __call__(self, img):
        return self.t(img) if torch.rand(1, generator=torch.default_generator) < self.p else img


class ArrayAsRadius(Hostile):
    def __call__(self, img):
        return img.filter(ImageFilter.GaussianBlur(np.random.rand(1)))


class NegativeRadius(Hostile):
    def __call__(self, img):
        return img.filter(ImageFilter.GaussianBlur(random.uniform(-1.0, 2.0)))


class HugeRadius(Hostile):
    def __call__(self, img):
        return img.filter(ImageFilter.GaussianBlur(1e300))


class NoNumber(Hostile):
    def __init__(self, t, u=None):
        super().__init__(t, u)
        self.p = float("nan")

    def __call__(self, img):
        return self.t(img) if random.random() > self.p else img


SEEDED = np.random.default_rng(3)
OWN = random.Random(3)


class SeededNumpy(Hostile):
    def __call__(self, img):
        return self.t(img) if SEEDED.random() < self.p else img


class SeededPython(Hostile):
    def __call__(self, img):
        return self.t(img) if OWN.random() < self.p else img


class Seeds(Hostile):
    def __call__(self, img):
        random.seed(3)
        return self.t(img) if random.random() < self.p else img


class Nothing(Hostile):
    def __call__(self, img):
        if random.random() < self.p:
            return self.t(img)


HOSTILE = Hostile.__subclasses__()
