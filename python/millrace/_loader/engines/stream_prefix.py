"""Streams that run in Python, except for the known steps of their pictures' function: the engine decodes each
picture and does these steps inside map_tuple() or map_dict(), in the process or thread that makes the sample.

    shards ─▶ {"jpg": Picture, "cls": b"3"} ─▶ decode the rest, to_tuple ─▶ known steps ─▶ the rest

The stages are the dataset's own, one for one, so samples and positions are the same: a state fits the stream
that is all Python, and the other way round.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ... import _core
from ..._pictures.info import info_of
from ...datasets.webdataset.flow import Context, Stage
from ...datasets.webdataset.handlers import Handler, reraise_exception
from ...datasets.webdataset.shards import ShardFlow
from ...datasets.webdataset.stages import Each, MapDict, MapTuple
from .prefix import StandIn
from .stream_engine import Picture, PictureFlow, TwoHandlers, content_of, decoded


@dataclass(frozen=True)
class PictureFunction:
    """Replaces the function that the pictures go through."""

    function: Callable[[Any], Any]
    stand_in: PrefixedStream | None = None

    def __call__(self, value: Any) -> Any:
        if type(value) is not Picture:
            return self.function(value)
        assert self.stand_in is not None
        return self.stand_in.changed(value, self.function)


@dataclass(frozen=True)
class _Changing(Each):
    """map_tuple() or map_dict() of the pictures. Later stages see only decoded pictures."""

    stage: MapTuple | MapDict
    stand_in: PrefixedStream
    handler: Handler

    def apply(self, sample: Any) -> Any:
        self.stand_in.seed_for(sample.values() if isinstance(sample, dict) else sample)
        made = self.stage.apply(sample)
        if isinstance(made, dict):
            return {name: decoded(value) for name, value in made.items()}
        return tuple(map(decoded, made))


def _info(value: Picture) -> dict[Any, Any]:
    from PIL import Image

    try:
        return info_of(Image.open(io.BytesIO(content_of(value))))
    except Exception:  # its shard went after it was read
        return {}


class _Seeding(PictureFlow):
    """Seeds the generators for each sample that it gives, because stages before the pictures' function may
    draw, too.
    """

    def __init__(self, stand_in: PrefixedStream, *shards: Any) -> None:
        super().__init__(*shards)
        self._stand_in = stand_in

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for sample in super().__iter__():
            self._stand_in.seed_for(sample.values())
            yield sample


class PrefixedStream(StandIn):
    """Replaces a WebDataset. Its states are the dataset's."""

    def __init__(
        self,
        stages: tuple[Stage, ...],
        decoding: Handler | None,
        tickets: _core.StreamSamples,
        *options: Any,
    ) -> None:
        """`stages`: those up to the pictures' function as Recogniser makes them, with PictureFunction; then
        the dataset's. `decoding`: decode()'s handler. `tickets`: of the pictures that are read. `options`:
        StandIn's.
        """
        super().__init__(*options)
        self._tickets = tickets
        self._stages = tuple(self._bound(stage, decoding or reraise_exception) for stage in stages)

    def __iter__(self) -> Iterator[Any]:
        return self._dataset.iterate(self._source, self._stages, self._dataset.most)

    def state_dict(self) -> dict[str, Any]:
        return self._dataset.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._dataset.load_state_dict(state)

    def changed(self, value: Picture, function: Callable[[Any], Any]) -> Any:
        """The result of `function` for a picture; the engine does the known steps."""
        steps, tickets = self._steps, self._tickets
        ticket = tickets.add(value.content, value.url, value.key, value.number, value.number_of_pass)
        try:
            made = steps(ticket, (*self.place, 0), lambda: _info(value))
        finally:
            tickets.drop_before(ticket + 1)
        if made is None:
            return function(decoded(value))
        (picture,), (rest,) = made, steps.rests
        return picture if rest is None else rest(picture)

    def seed_for(self, values: Iterable[Any]) -> None:
        """Seed the generators for the sample with these values."""
        picture = next((value for value in values if type(value) is Picture), None)
        if picture is not None:
            self.seed(picture.number, picture.number_of_pass)

    def _source(self, context: Context, own: Any) -> ShardFlow:
        return _Seeding(self, self._dataset.shards, context, own)

    def _bound(self, stage: Stage, decoding: Handler) -> Stage:
        if not isinstance(stage, (MapTuple, MapDict)):
            return stage
        old: Any = stage.functions
        functions = {
            key: replace(function, stand_in=self) if isinstance(function, PictureFunction) else function
            for key, function in (old.items() if isinstance(old, dict) else enumerate(old))
        }
        if not any(isinstance(function, PictureFunction) for function in functions.values()):
            return stage
        made: Any = functions if isinstance(old, dict) else tuple(functions.values())
        return _Changing(replace(stage, functions=made), self, TwoHandlers(decoding, stage.handler))
