"""The planner: a loader's parts, looked at one by one, become one native job or none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch

from .. import _core
from ..datasets import decode_with_pillow
from .collate import recognise_collate
from .refusal import NotLowered
from .samplers import is_plain_shuffle, sampler_name
from .seeding import recognise_worker_init
from .sources import Files, Source, recognise_source
from .transforms import lower_transform

_LARGE_BATCH_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Stage:
    """One line of `explain()`."""

    name: str
    native: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {'native' if self.native else 'python'} — {self.reason}"


@dataclass(frozen=True)
class ImageJob:
    """All that the engine needs: files, their labels, the transforms, and the way from the sampler's indices to the files."""

    files: Files
    pipeline: _core.ImagePipeline
    index_maps: tuple[Sequence[int], ...]

    def dataset(self) -> _core.ImageDataset:
        return _core.ImageDataset(self.files.paths, self.files.labels, self.pipeline, decode_with_pillow)

    def slots(self, batch_size: Optional[int]) -> int:
        """Batches in memory at once, the consumer's included.

        Three, or two when one takes 64 MiB or more: for batches of 128 x 3 x 224 x 224 floats the third was measured to bring 2 %
        of speed at most, for half as much memory again.
        """
        shape = self.pipeline.fixed_shape
        if shape is None or batch_size is None:
            return 3
        batch_bytes = batch_size * math.prod(shape) * getattr(torch, self.pipeline.output_dtype).itemsize
        return 2 if batch_bytes >= _LARGE_BATCH_BYTES else 3

    def rows(self, batch: Iterable[Any]) -> Any:
        """File indices of one index list of the sampler, for `_core.Loader.submit`. Errors are those of indexing a list."""
        if isinstance(batch, np.ndarray) and batch.dtype.kind not in "iu":
            batch = batch.tolist()  # submit() would round floats; a list of them is refused
        for indices in self.index_maps:
            batch = [indices[i] for i in batch]
        return batch


@dataclass(frozen=True)
class Plan:
    """What runs where. `job` is None when torch's own iterator runs the loader."""

    stages: tuple[Stage, ...]
    job: Optional[ImageJob]

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))


class _Stages:
    """Collects the answers of the recognisers; a refusal of one does not stop the others, so that users see all at once."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[bool, str]] = {}

    def ask(self, name: str, recogniser: Callable[[], tuple[str, Any]]) -> Any:
        try:
            reason, value = recogniser()
        except NotLowered as refusal:
            self.answers[name] = False, str(refusal)
        except (
            Exception
        ) as error:  # on odd arguments: torch may know what to do with them, or will say what is wrong in its words
            self.answers[name] = False, f"could not be understood ({error!r})"
        else:
            self.answers[name] = True, reason
            return value
        return None

    def refusing(self) -> list[str]:
        return [name for name, (native, _) in self.answers.items() if not native]

    def finish(self) -> tuple[Stage, ...]:
        refusing = self.refusing()
        if not refusing:
            return tuple(Stage(name, native, reason) for name, (native, reason) in self.answers.items())
        ready = f"ready for the engine, but {' and '.join(refusing)} {'is' if len(refusing) == 1 else 'are'} not"
        return tuple(Stage(name, False, ready if native else reason) for name, (native, reason) in self.answers.items())


def make_plan(loader: Any) -> Plan:
    """The plan for the next iterator of `loader`, a millrace.DataLoader; draws nothing and reads no file."""
    if loader.native == "never":
        return Plan((Stage("loader", False, 'native="never" was asked for'),), None)

    stages = _Stages()
    source: Optional[Source] = stages.ask("dataset", lambda: _dataset(loader.dataset))
    pipeline = stages.ask("transform", lambda: _transform(source)) if source is not None else None
    stages.ask("sampler", lambda: _sampler(loader))
    stages.ask("collate_fn", lambda: (recognise_collate(loader.collate_fn), None))
    stages.ask("worker_init_fn", lambda: (recognise_worker_init(loader.worker_init_fn, loader.num_workers), None))
    files: Optional[Files] = None
    if source is not None and not stages.refusing():
        # Last, because the table of a big folder takes a while when it is first made.
        files = stages.ask("dataset", lambda: _files(source))
    job = None if files is None else ImageJob(files, pipeline, source.index_maps)
    return Plan(stages.finish(), job)


def _dataset(dataset: Any) -> tuple[str, Source]:
    source = recognise_source(dataset)
    return source.name, source


def _transform(source: Source) -> tuple[str, _core.ImagePipeline]:
    chain, names = lower_transform(source.transform)
    if source.exif:
        chain, names = [{"op": "exif_transpose"}, *chain], ["EXIF orientation", *names]
    try:
        return ", ".join(names), _core.ImagePipeline(chain)
    except ValueError as error:  # torch's own path then raises torch's own error
        raise NotLowered(str(error)) from None


def _files(source: Source) -> tuple[str, Files]:
    files = source.files()
    return f"{source.name} of {len(files.paths)} files", files


def _sampler(loader: Any) -> tuple[str, None]:
    if not loader._auto_collation:
        raise NotLowered("batch_size=None hands out single samples; give a batch_size to batch natively")
    index_sampler = loader._index_sampler
    if is_plain_shuffle(index_sampler):
        return f"{sampler_name(index_sampler)}, torch's order and draws", None
    return f"{sampler_name(index_sampler)} runs in the consumer's thread and feeds the engine", None
