"""torch DataLoader with hand-written Pillow and numpy code: what a careful user gets without torchvision."""

from __future__ import annotations

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders._samples import pillow_sample
from benchmarks.loaders.torch_tv2 import torch_loader

ENVIRONMENT = None
PACKAGES = ("torch", "pillow", "numpy")
TOLERANCE = Tolerance(
    0.5, 8, "same decoder and filter; one resize out of a box instead of a resize and a crop"
)


class PillowDataset:
    def __init__(self, job: Job) -> None:
        self.scenario, self.samples = job.scenario, job.samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int):
        path, label = self.samples[index]
        return pillow_sample(self.scenario, path), label


def open_epochs(job: Job):
    loader = torch_loader(job, PillowDataset(job))
    return lambda: loader
