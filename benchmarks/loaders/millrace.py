"""millrace.DataLoader over its ImageFolder; native="require" makes sure that its engine, not torch's, is what
is measured.
"""

from __future__ import annotations

from benchmarks.loaders import Job, Tolerance
from benchmarks.scenarios.imagenet import MEAN, STD, ImageScenario

ENVIRONMENT = None
PACKAGES = ("millrace-loader", "torch", "pillow", "numpy")
TOLERANCE = Tolerance(0.1, 1, "pixels are promised to lie within one level of torchvision's on Pillow")


def transform(scenario: ImageScenario):
    from millrace import transforms as T

    if scenario.train:
        crop = [T.RandomResizedCrop(scenario.size), T.RandomHorizontalFlip()]
    else:
        crop = [T.Resize(scenario.resize), T.CenterCrop(scenario.size)]
    return T.Compose([*crop, T.ToTensor(), T.Normalize(MEAN, STD)])


class Epochs:
    def __init__(self, job: Job) -> None:
        from millrace import DataLoader
        from millrace.datasets import ImageFolder
        from torch.utils.data import Subset

        dataset = ImageFolder(job.root, transform(job.scenario))
        self.loader = DataLoader(
            Subset(dataset, job.indices),
            job.scenario.batch,
            shuffle=job.scenario.train,
            native="require",
            num_workers=job.workers,
            persistent_workers=job.persistent and job.workers > 0,
        )

    def __call__(self):
        return self.loader

    def stats(self) -> dict:
        return self.loader.stats()


open_epochs = Epochs
