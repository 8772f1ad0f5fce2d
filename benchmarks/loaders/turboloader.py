"""TurboLoader: photos in a tar file, read and decoded region by region by threads of its own, as many as the
process has CPUs; crop, flip and normalising are one pass.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import tarfile

from benchmarks.loaders import Job, Tolerance

ENVIRONMENT = "turboloader"
PACKAGES = ("turboloader", "torch", "numpy")
TOLERANCE = Tolerance(2, 255, "it has random crops alone: validation is refused")


def packed(samples: list[tuple[str, int]]) -> str:
    """The tar file with these samples, written at first use."""
    digest = hashlib.sha256(repr([(p, os.path.getsize(p)) for p, _ in samples]).encode()).hexdigest()[:16]
    folder = os.path.join(os.path.dirname(__file__), "..", "envs", "tars")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{digest}.tar")
    if not os.path.exists(path):
        with tarfile.open(path + ".part", "w", format=tarfile.USTAR_FORMAT) as tar:
            for number, (name, _) in enumerate(samples):
                with open(name, "rb") as file:
                    data = file.read()
                member = tarfile.TarInfo(f"{number:08}.jpg")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        os.rename(path + ".part", path)
    return path


def open_epochs(job: Job):
    import torch
    import turboloader

    if not job.scenario.train:
        raise NotImplementedError("its resize has no shorter side that keeps the proportions")
    torch.set_num_threads(1)
    labels = torch.tensor([label for _, label in job.samples])
    loader = turboloader.DataLoader(
        packed(job.samples),
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
