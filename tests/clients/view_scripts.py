"""Augmentations as the training scripts of DINO, SimCLR and MoCo arrange them. A module of its own, because
pytest rewrites test modules, and the source of functions there is not what was compiled.
"""

import random

import torch
from PIL import Image, ImageFilter, ImageOps
from torchvision import transforms

NORMALIZE = transforms.Compose(
    [transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
)


class Blurred:
    def __init__(self, p=0.5, radius_min=0.1, radius_max=2.0):
        self.prob, self.radius_min, self.radius_max = p, radius_min, radius_max

    def __call__(self, img):
        do_it = random.random() <= self.prob
        if not do_it:
            return img
        radius = random.uniform(self.radius_min, self.radius_max)
        return img.filter(ImageFilter.GaussianBlur(radius=radius))


class Solarized:
    def __init__(self, p):
        self.p = p

    def __call__(self, img):
        if random.random() < self.p:
            return ImageOps.solarize(img)
        else:
            return img


class DataAugmentationDINO:
    def __init__(self, global_crops_scale, local_crops_scale, local_crops_number):
        colours = transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)
        changes = transforms.Compose(
            [transforms.RandomHorizontalFlip(p=0.5), colours, transforms.RandomGrayscale(p=0.2)]
        )

        def crop(size, scale):
            return transforms.RandomResizedCrop(size, scale=scale, interpolation=Image.BICUBIC)

        whole = crop(224, global_crops_scale)
        self.global_transfo1 = transforms.Compose([whole, changes, Blurred(1.0), NORMALIZE])
        self.global_transfo2 = transforms.Compose([whole, changes, Blurred(0.1), Solarized(0.2), NORMALIZE])
        self.local_crops_number = local_crops_number
        part = crop(96, local_crops_scale)
        self.local_transfo = transforms.Compose([part, changes, Blurred(p=0.5), NORMALIZE])

    def __call__(self, image):
        crops = []
        crops.append(self.global_transfo1(image))
        crops.append(self.global_transfo2(image))
        for _ in range(self.local_crops_number):
            crops.append(self.local_transfo(image))
        return crops


class ContrastiveLearningViewGenerator:
    def __init__(self, base_transform, n_views=2):
        self.base_transform = base_transform
        self.n_views = n_views

    def __call__(self, x):
        return [self.base_transform(x) for i in range(self.n_views)]


def simclr_pipeline(size, s=1):
    jitter = transforms.ColorJitter(0.8 * s, 0.8 * s, 0.8 * s, 0.2 * s)
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(size=size),
            transforms.RandomHorizontalFlip(),
            transforms.RandomApply([jitter], p=0.8),
            transforms.RandomGrayscale(p=0.2),
            transforms.GaussianBlur(kernel_size=3),
            transforms.ToTensor(),
        ]
    )


class GaussianBlur:
    def __init__(self, sigma=[0.1, 2.0]):  # noqa: B006 -- as the script has it
        self.sigma = sigma

    def __call__(self, x):
        sigma = random.uniform(self.sigma[0], self.sigma[1])
        x = x.filter(ImageFilter.GaussianBlur(radius=sigma))
        return x


class TwoCropsTransform:
    def __init__(self, base_transform):
        self.base_transform = base_transform

    def __call__(self, x):
        q = self.base_transform(x)
        k = self.base_transform(x)
        return [q, k]


def moco_pipeline(size):
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(size, scale=(0.2, 1.0)),
            transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
            transforms.RandomGrayscale(p=0.2),
            transforms.RandomApply([GaussianBlur([0.1, 2.0])], p=0.5),
            transforms.RandomHorizontalFlip(),
            NORMALIZE,
        ]
    )


def collate_views(samples):
    """(first views, second views, labels)."""
    assert all(type(views) is list and len(views) == 2 for views, _ in samples)
    ones, others = zip(*(views for views, _ in samples))
    return torch.stack(ones), torch.stack(others), torch.tensor([label for _, label in samples])
