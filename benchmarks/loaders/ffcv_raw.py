"""FFCV on uncompressed pixels: no JPEG is decoded at all, for five times the disk space. A bound, not a like
for like peer.
"""

from __future__ import annotations

from functools import partial

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders._packed import packed
from benchmarks.loaders._torchvision import import_torchvision
from benchmarks.scenarios.imagenet import MEAN, STD

ENVIRONMENT = "ffcv"
PACKAGES = ("ffcv", "numba", "torch", "numpy")
TOLERANCE = Tolerance(
    10, 255, "its crop is resized with area averages; photos are stored with a longer side of 500 at most"
)
MAX_SIDE = 500


class Pictures:
    def __init__(self, samples: list[tuple[str, int]]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int):
        from PIL import Image

        path, label = self.samples[index]
        return Image.open(path).convert("RGB"), label


def write(samples: list[tuple[str, int]], path: str) -> None:
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    fields = {"image": RGBImageField(write_mode="raw", max_resolution=MAX_SIDE), "label": IntField()}
    # Its writer hangs on a picture larger than a page, and the default page holds 8 MB.
    DatasetWriter(path, fields, num_workers=2, page_size=1 << 26).from_indexed_dataset(Pictures(samples))


def open_epochs(job: Job):
    import_torchvision()
    import numpy as np
    import torch
    from ffcv.fields.decoders import IntDecoder
    from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage

    torch.set_num_threads(1)
    scenario = job.scenario
    size = (scenario.size, scenario.size)
    if scenario.train:
        decode = [RandomResizedCropRGBImageDecoder(size), RandomHorizontalFlip()]
    else:
        decode = [CenterCropRGBImageDecoder(size, ratio=scenario.size / scenario.resize)]
    normalise = NormalizeImage(np.array(MEAN) * 255, np.array(STD) * 255, np.float32)
    finish = [normalise, ToTensor(), ToTorchImage(convert_back_int16=False)]
    unique = sorted(set(job.samples))
    position = {sample: i for i, sample in enumerate(unique)}
    loader = Loader(
        packed(unique, "beton", partial(write, unique)),
        batch_size=scenario.batch,
        num_workers=job.workers,
        os_cache=True,
        drop_last=False,
        order=OrderOption.RANDOM if scenario.train else OrderOption.SEQUENTIAL,
        indices=[position[sample] for sample in job.samples],
        pipelines={"image": decode + finish, "label": [IntDecoder(), ToTensor(), Squeeze()]},
    )
    # It hands out views of memory that it uses again, channels last: a copy makes them NCHW batches like the
    # others'.
    return lambda: ((images.contiguous(), labels.clone()) for images, labels in loader)
