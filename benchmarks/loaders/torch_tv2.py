"""torch DataLoader over torchvision's ImageFolder with v2 transforms on Pillow images: the training script as
usually written.
"""

from __future__ import annotations

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders._torchvision import import_torchvision
from benchmarks.scenarios.imagenet import MEAN, STD, ImageScenario

ENVIRONMENT = None
PACKAGES = ("torch", "torchvision", "pillow", "numpy")
TOLERANCE = Tolerance(0, 0, "this is the reference")


def transform(scenario: ImageScenario):
    import torch

    import_torchvision()
    from torchvision.transforms import v2

    if scenario.train:
        crop = [v2.RandomResizedCrop(scenario.size, antialias=True), v2.RandomHorizontalFlip()]
    else:
        crop = [v2.Resize(scenario.resize, antialias=True), v2.CenterCrop(scenario.size)]
    return v2.Compose(
        [*crop, v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    )


def torch_loader(job: Job, dataset):
    """The DataLoader of all torch adapters. More than torch's defaults: persistent workers, as every guide
    recommends.
    """
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    return DataLoader(
        dataset,
        job.scenario.batch,
        shuffle=job.scenario.train,
        num_workers=job.workers,
        persistent_workers=job.persistent and job.workers > 0,
    )


def open_epochs(job: Job):
    from torch.utils.data import Subset

    torchvision = import_torchvision()
    dataset = torchvision.datasets.ImageFolder(job.root, transform(job.scenario))
    loader = torch_loader(job, Subset(dataset, job.indices))
    return lambda: loader
