"""Chains of transforms."""

from millrace import transforms

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def train_chain(size=32):
    random = [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()]
    return transforms.Compose([*random, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
