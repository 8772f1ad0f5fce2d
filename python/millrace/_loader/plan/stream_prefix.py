"""The engine's part of a stream that is not all native: the known steps of the pictures' function, up to the
first step or stage that is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ... import _core
from ..._common.lowering.prefix import Prefix, prefix_of
from ..._common.lowering.recognising import NotLowered
from ...datasets.webdataset.flow import Stage
from ...datasets.webdataset.handlers import Handler
from ..engines.prefix import KnownSteps, PrefixSpec
from ..engines.stream_prefix import PictureFunction, PrefixedStream
from .shard_stages import Recogniser, check_dataset, named


@dataclass(frozen=True)
class KnownStream:
    """`stages`: the dataset's; those up to the pictures' function leave pictures to the engine. `decoding`:
    the handler of decode().
    """

    stages: tuple[Stage, ...]
    decoding: Handler | None
    prefix: Prefix
    pipeline: _core.ImagePipeline
    names: list[str]
    counted: str

    tells_refusal: ClassVar[bool] = True
    """Whether explain() gives the reason for a refused transform instead of the steps that are left."""
    told: ClassVar[tuple[str, ...]] = ()

    def words_of_the_rest(self) -> str:
        return self.prefix.words_of_the_rest()

    def spec(self, engine: Any, opens: Any) -> PrefixSpec:
        """`engine`: runs the rest. `opens`: PrefixSpec's."""
        return PrefixSpec(engine, opens)

    def stand_in(self, dataset: Any, place: tuple[int, int], seeds: bool) -> PrefixedStream:
        tickets = _core.StreamSamples()
        steps = KnownSteps(tickets, np.empty(0, np.int64), [self.pipeline], [self.prefix])
        return PrefixedStream(self.stages, self.decoding, tickets, dataset, steps, place, seeds)


def known_stream(dataset: Any) -> KnownStream:
    """The known part of a stream; NotLowered if pictures have no known steps, or if samples might differ."""
    check_dataset(dataset)
    recogniser = Recogniser(PictureFunction)
    following = iter(dataset.stages)
    for stage in following:
        recogniser.add(stage)
        if recogniser.transform is not None:
            break
    else:
        raise NotLowered("pictures go through no function")
    prefix = prefix_of(recogniser.transform)
    lowered, stages = prefix.lowered, (*recogniser.stages, *following)
    pipeline = lowered.pipelines(lowered.chains)[0]
    return KnownStream(stages, recogniser.handler, prefix, pipeline, lowered.names, named(dataset))
