"""The webdataset package with torch's worker processes, Pillow and torchvision's v2 transforms, as its users
write it.
"""

from __future__ import annotations

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders.torch_tv2 import transform
from benchmarks.scenarios.tars import BUFFER, shards_of

ENVIRONMENT = None
PACKAGES = ("webdataset", "torch", "torchvision", "pillow", "numpy")
TOLERANCE = Tolerance(0, 0, "this is the reference")


def same(value):
    return value


def open_epochs(job: Job):
    import torch
    import webdataset

    torch.set_num_threads(1)  # torch does so itself in its worker processes
    shards, train = shards_of(job.root), job.scenario.train
    dataset = webdataset.WebDataset(shards, shardshuffle=len(shards) if train else False, empty_check=False)
    dataset = dataset.shuffle(BUFFER) if train else dataset
    dataset = (
        dataset.decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(transform(job.scenario), same)
        .batched(job.scenario.batch)
    )
    loader = webdataset.WebLoader(
        dataset,
        batch_size=None,
        num_workers=job.workers,
        persistent_workers=job.persistent and job.workers > 0,
    )
    return lambda: loader
