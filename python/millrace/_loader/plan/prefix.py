"""What the engine can do of a loader whose transform it does not know to its end: the steps before the first
that it does not know, for datasets whose pictures it knows how to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ... import _core
from ..._common.lowering.prefix import Prefix, prefix_of
from ..._common.lowering.recognising import NotLowered
from ...datasets import pillow_decode
from ..engines.native import Files
from ..engines.prefix import KnownSteps, Prefixed, PrefixSpec
from .pictures import chains_of, counted, recognise_source
from .source import Source


@dataclass(frozen=True)
class KnownPart:
    """Of a source's samples, what the engine makes."""

    source: Source
    prefix: Prefix
    pipeline: _core.ImagePipeline
    names: list[str]
    files: Files
    counted: str

    tells_refusal: ClassVar[bool] = False

    def spec(self, engine: Any) -> PrefixSpec:
        """`engine`: the spec of what runs the rest."""
        maps, length = self.source.index_maps, len(self.files.files)
        return PrefixSpec(engine.engine, engine.follows_forks, prefixed, maps, length)


def known_part(source: Source) -> KnownPart:
    """NotLowered where there is none, or where samples might be others."""
    if source.form is not None or source.on_error is not None:
        raise NotLowered("samples are dicts, or errors are the dataset's own affair")
    if any(part.transform is not source.transform for part in source.parts):
        raise NotLowered("the parts have transforms of their own")
    prefix = prefix_of(source.transform)
    chains, names = chains_of(source, prefix.lowered)
    pipelines = prefix.lowered.pipelines(chains)
    files = source.make_files()
    if files.paths is None and not isinstance(files.files, _core.PixelFiles):
        raise NotLowered("shards are read by their dataset, in each worker")
    return KnownPart(source, prefix, pipelines[0], names, files, counted(source, files))


def prefixed(dataset: Any, seed: int, epoch: int, seeds: bool) -> Any:
    """A Prefixed in the place of `dataset`, whatever that is by now: worker_init_fn may have changed it. The
    dataset itself, where nothing is known.
    """
    try:
        part = known_part(recognise_source(dataset))
    except NotLowered:
        return dataset
    source, files = part.source, part.files
    steps = KnownSteps(files.files, files.labels, part.pipeline, part.prefix)

    def info(path: str) -> dict[Any, Any]:
        try:
            return pillow_decode.info_in(path, source.exif)
        except Exception:  # it went after it was read
            return {}

    return Prefixed(source.index_maps, files, info, dataset, steps, (seed, epoch), seeds)
