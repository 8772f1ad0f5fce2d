"""The loaders that are compared, one module each. Such a module is imported by the harness too, which lacks
the peer's
packages, so it imports them inside its functions. It has

    ENVIRONMENT   name under benchmarks/envs whose Python runs it; None: the harness's own Python
    PACKAGES      distributions whose versions are stored with the results
    TOLERANCE     how far its validation pixels may lie from the reference, and why
    open_epochs(job) -> epochs
                  epochs() begins one epoch and returns an iterable of (images, labels); all work of an epoch
                  happens between this call and the last batch, so that nothing is prepared on another
                  loader's time epochs.stats(), if there is one, is stored with each epoch
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType

from benchmarks.scenarios.imagenet import ImageScenario, epoch_indices, list_samples

NAMES = (
    "millrace",
    "torch_tv2",
    "torch_pil",
    "dali",
    "grain_opencv",
    "mlx_data",
    "pillow_simd",
    "ffcv_raw",
    "spdl",
    "tf_data",
    "torchcodec",
    "turboloader",
)


@dataclass(frozen=True)
class Tolerance:
    """Largest distance to the reference in levels of 8 bits: the mean over all pixels, and the worst single
    pixel.
    """

    mean_levels: float
    max_levels: float
    reason: str


@dataclass(frozen=True)
class Job:
    """What one loader has to do."""

    scenario: ImageScenario
    root: str
    workers: int
    epoch_images: int
    persistent: bool = True  # False: worker processes end with their epoch, as a DataLoader's do by default

    @property
    def indices(self) -> list[int]:
        """The epoch's samples as indices into the class folder."""
        return epoch_indices(len(list_samples(self.root)), self.epoch_images)

    @property
    def samples(self) -> list[tuple[str, int]]:
        """The epoch's samples as (path, label)."""
        samples = list_samples(self.root)
        return [samples[i] for i in epoch_indices(len(samples), self.epoch_images)]

    @property
    def batches(self) -> int:
        return -(-self.epoch_images // self.scenario.batch)


def load(name: str) -> ModuleType:
    """The adapter called `name`: one of NAMES, or the dotted path of any other module of this shape."""
    return importlib.import_module(name if "." in name else f"benchmarks.loaders.{name}")
