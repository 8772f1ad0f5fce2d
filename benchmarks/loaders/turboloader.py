"""TurboLoader: photos in a tar file, read and decoded region by region by threads of its own, as many as the
process has CPUs; crop, flip and normalising are one pass.
"""

from __future__ import annotations

import itertools
import os
import tarfile
from functools import partial

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders._packed import packed

ENVIRONMENT = "turboloader"
PACKAGES = ("turboloader", "torch", "numpy")
TOLERANCE = Tolerance(2, 255, "it has random crops alone: validation is refused")


def write(samples: list[tuple[str, int]], path: str) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, (name, _) in enumerate(samples):
            member = tarfile.TarInfo(f"{number:08}.jpg")
            member.size = os.path.getsize(name)
            with open(name, "rb") as file:
                tar.addfile(member, file)


def open_epochs(job: Job):
    import torch
    import turboloader

    if not job.scenario.train:
        raise NotImplementedError("its resize has no shorter side that keeps the proportions")
    torch.set_num_threads(1)
    labels = torch.tensor([label for _, label in job.samples])
    loader = turboloader.DataLoader(
        packed(job.samples, "tar", partial(write, job.samples)),
        job.scenario.batch,
        num_workers=job.workers,
        shuffle=True,
        transform=turboloader.Compose([turboloader.ImageNetNormalize()]),
        image_size=job.scenario.size,
        output_format="pytorch",
        antialias=True,
        train_aug=True,
    )
    number = itertools.count()

    def epochs():
        loader.set_epoch(next(number))  # it has the same order otherwise
        for images, facts in loader:
            assert not facts["decode_failures"], f"{facts['decode_failures']} photos were not decoded"
            yield torch.from_numpy(images), labels[facts["indices"]]

    return epochs
