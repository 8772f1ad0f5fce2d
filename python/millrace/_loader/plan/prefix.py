"""Plans for a loader with a transform that the engine knows in part: the engine does the steps before the
first unknown one, for datasets with pictures that it can read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ... import _core
from ..._common.lowering.prefix import Prefix
from ...datasets import pillow_decode
from ..engines.native import Files
from ..engines.prefix import KnownSteps, Prefixed, PrefixSpec
from .source import Source

Measured = tuple[Sequence[Sequence[int]], Callable[[int], Any], Sequence[Callable[[Any], Any]]]
"""For measuring samples: maps of their indices, the function that does the known steps, the other steps."""


@dataclass(frozen=True)
class KnownPart:
    """The part of a source's samples that the engine makes."""

    source: Source
    prefix: Prefix
    pipeline: _core.ImagePipeline
    names: list[str]
    files: Files
    counted: str

    tells_refusal: ClassVar[bool] = False
    told: ClassVar[tuple[str, ...]] = ()

    def words_of_the_rest(self) -> str:
        return self.prefix.words_of_the_rest()

    def measured(self, dataset: Any) -> Measured:
        make = partial(self.stand_in(dataset, (0, 0), False).known, occurrence=0)
        return self.source.index_maps, make, self.prefix.rest

    def spec(self, engine: Any, opens: Any) -> PrefixSpec:
        """`engine`: runs the rest. `opens`: PrefixSpec's."""
        return PrefixSpec(engine, opens, self.source.index_maps, len(self.files.files))

    def stand_in(self, dataset: Any, place: tuple[int, int], seeds: bool) -> Prefixed:
        source, files = self.source, self.files
        steps = KnownSteps(files.files, files.labels, [self.pipeline], [self.prefix])

        def info(path: str) -> dict[Any, Any]:
            try:
                return pillow_decode.info_in(path, source.exif)
            except Exception:  # it went after it was read
                return {}

        return Prefixed(source.index_maps, files, info, dataset, steps, place, seeds)
