"""millrace.DataLoader over its WebDataset, shuffled as webdataset shuffles: shards in random order, a buffer
of samples.
"""

from __future__ import annotations

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders.millrace import transform
from benchmarks.scenarios.tars import BUFFER, shards_of

ENVIRONMENT = None
PACKAGES = ("millrace-loader", "torch", "pillow", "numpy")
TOLERANCE = Tolerance(
    0.1, 1, "pixels are promised to lie within one level of torchvision's on Pillow; measured: equal"
)


def pipeline(job: Job, shuffled: bool):
    from millrace.datasets import WebDataset

    dataset = WebDataset(shards_of(job.root), shardshuffle=shuffled)
    dataset = dataset.shuffle(BUFFER) if shuffled else dataset
    return dataset.decode("pil").to_tuple("jpg", "cls").map_tuple(transform(job.scenario))


class Epochs:
    def __init__(self, job: Job, dataset, **arguments) -> None:
        from millrace import DataLoader

        self.loader = DataLoader(
            dataset,
            job.scenario.batch,
            native="require",
            num_workers=job.workers,
            persistent_workers=job.persistent and job.workers > 0,
            **arguments,
        )

    def __call__(self):
        return self.loader

    def stats(self) -> dict:
        return self.loader.stats()


def open_epochs(job: Job) -> Epochs:
    return Epochs(job, pipeline(job, job.scenario.train))
