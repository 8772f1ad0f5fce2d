"""torch DataLoader over torchcodec's decoded tensors, and torchvision's v2 transforms on them.

Its wheels are built for CUDA alone, so its environment has a torch that is.
"""

from __future__ import annotations

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders._torchvision import import_torchvision
from benchmarks.loaders.torch_tv2 import torch_loader, transform

ENVIRONMENT = "torchcodec"
PACKAGES = ("torchcodec", "torch", "torchvision", "numpy")
TOLERANCE = Tolerance(2, 255, "libjpeg's choices are not Pillow's, and torch resizes the whole photo")


class Photos:
    def __init__(self, samples: list[tuple[str, int]], scenario) -> None:
        from torchvision.transforms import v2

        chain = transform(scenario).transforms
        self.samples = samples
        self.transform = v2.Compose([step for step in chain if not isinstance(step, v2.PILToTensor)])

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int):
        from torchcodec.decoders import decode_image

        path, label = self.samples[index]
        return self.transform(decode_image(path, mode="RGB")), label


def open_epochs(job: Job):
    import_torchvision()
    loader = torch_loader(job, Photos(job.samples, job.scenario))
    return lambda: loader
