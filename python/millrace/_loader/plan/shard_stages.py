"""Recognises the stages of a WebDataset one by one: the engine does the steps of its pictures, the other
stages stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import _core
from ..._common.lowering.recognising import NotLowered, loaded
from ..._common.torch_private import default_collate
from ...datasets.webdataset import IndexedWebDataset, WebDataset
from ...datasets.webdataset.collation import default_collation_fn
from ...datasets.webdataset.flow import Stage
from ...datasets.webdataset.handlers import Handler, reraise_exception
from ...datasets.webdataset.holding import Batched, RandomSample, Shuffle, Slice
from ...datasets.webdataset.stages import (
    LEFT_OUT,
    Decode,
    Each,
    MapDict,
    MapTuple,
    Rename,
    Select,
    ToDict,
    ToTuple,
)
from ..engines.stream_engine import Picture, TwoHandlers, content_of, decoded, is_picture_name

_LABELS = frozenset(("cls", "cls2", "index", "inx", "id"))
"""Fields that decode() turns into whole numbers."""


@dataclass(frozen=True)
class _DecodeRest(Each):
    """Decode, for all fields except Pictures."""

    decode: Decode
    handler: Handler = reraise_exception

    def apply(self, sample: dict[str, Any]) -> dict[str, Any]:
        rest = self.decode.decoder(
            {name: value for name, value in sample.items() if type(value) is not Picture}
        )
        return {name: value if type(value) is Picture else rest[name] for name, value in sample.items()}


@dataclass(frozen=True)
class _ButPictures:
    """A function that the engine replaces for Pictures; other values go through it."""

    function: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        return value if type(value) is Picture else self.function(value)


class _Peeked(dict):
    """A sample for functions that look at it: reads a Picture on access, and decodes it if `decoded`; few
    functions access one.

    Changes by the functions stay: raw() is the sample after them, with its unread Pictures.
    """

    decoded = False

    def _value(self, value: Any) -> Any:
        if type(value) is not Picture:
            return value
        return decoded(value) if self.decoded else content_of(value)

    def __getitem__(self, name: str) -> Any:
        return self._value(super().__getitem__(name))

    def get(self, name: str, default: Any = None) -> Any:
        return self._value(super().get(name, default))

    def values(self) -> Any:
        return [self._value(value) for value in super().values()]

    def items(self) -> Any:
        return [(name, self._value(value)) for name, value in super().items()]

    def pop(self, *args: Any) -> Any:
        return self._value(super().pop(*args))

    def setdefault(self, name: str, default: Any = None) -> Any:
        return self._value(super().setdefault(name, default))

    def popitem(self) -> Any:
        name, value = super().popitem()
        return name, self._value(value)

    def raw(self) -> dict[str, Any]:
        return {name: super(_Peeked, self).__getitem__(name) for name in self.keys()}

    def __iter__(self) -> Any:
        # because of this method, dict(sample) and f(**sample) take the values from here, too
        return super().__iter__()


class _PeekedDecoded(_Peeked):
    decoded = True


@dataclass(frozen=True)
class _PeekingSelect(Each):
    """Select, for samples with Pictures."""

    predicate: Callable[[Any], bool]
    view: type[_Peeked]
    handler: Handler = reraise_exception

    def apply(self, sample: dict[str, Any]) -> Any:
        seen = self.view(sample)
        return seen.raw() if self.predicate(seen) else LEFT_OUT


class Recogniser:
    """Goes through the stages, and keeps track of the fields with pictures."""

    def __init__(self, stands_in: Callable[[Any], Any] = _ButPictures) -> None:
        """`stands_in`: returns the replacement of the pictures' function."""
        self._stands_in = stands_in
        self.stages: list[Stage] = []
        self.decoded = False
        self.names: dict[str, bool] = {}  # fields that were renamed: whether they are pictures
        self.tuple: list[bool] | None = None  # of tuples: which fields are pictures
        self.transform: Any = None
        self.mapped: str | None = None  # of dicts: the picture that goes through it
        self.handler: Handler | None = None  # of pictures that cannot be decoded; None: they raise
        self.batch: Batched | None = None

    def add(self, stage: Stage) -> None:
        if self.batch is not None:
            raise NotLowered(f"{stage} comes behind batched(); the engine batches last")
        adder = _ADDERS.get(type(stage))
        if adder is None:
            raise NotLowered(
                f"{stage} is Python code for whole samples; use map_tuple() or map_dict(), with a function"
                " for each field"
            )
        adder(self, stage)

    def is_picture(self, name: str) -> bool:
        return self.names.get(name, is_picture_name(name))

    def alternatives(self, names: tuple[str, ...]) -> bool:
        """Whether a field that is one of these is a picture."""
        kinds = set(map(self.is_picture, names))
        if len(kinds) > 1:
            raise NotLowered(f"the field {';'.join(names)!r} may be a picture or something else")
        return kinds.pop()

    def keep(self, stage: Stage) -> None:
        if self.handler is not None and stage.counts:
            raise NotLowered(
                f"{stage} comes behind decode() with a handler, and would count what cannot be decoded; put"
                " it in front"
            )
        self.stages.append(stage)

    def decode(self, stage: Decode) -> None:
        if self.decoded:
            raise NotLowered("there are two decode() stages")
        if (
            stage.handlers not in (("pil",), ("pilrgb",))
            or stage.pre is not None
            or stage.post is not None
            or stage.only is not None
        ):
            raise NotLowered(
                f'pictures are decoded natively by decode("pil") alone, and this is decode{stage.handlers};'
                " make tensors in map_tuple()"
            )
        if any(picture != is_picture_name(name) for name, picture in self.names.items()):
            raise NotLowered(
                "a picture is renamed before decode(), which goes by names; put rename() behind it"
            )
        self.decoded = True
        self.handler = None if is_reraise(stage.handler) else stage.handler
        self.stages.append(_DecodeRest(stage, stage.handler))

    def select(self, stage: Select) -> None:
        if self.tuple is not None:
            raise NotLowered(
                "select() comes behind to_tuple(), where it would see pictures; put it in front, where it"
                " sees dicts"
            )
        if self.transform is not None:
            raise NotLowered(
                "select() comes behind the pictures' function, and would see what that makes; put it in front"
            )
        self.stages.append(
            _PeekingSelect(
                stage.predicate,
                _PeekedDecoded if self.decoded else _Peeked,
                TwoHandlers(self.handler or reraise_exception, stage.handler),
            )
        )

    def rename(self, stage: Rename) -> None:
        self.names |= {new: self.alternatives(names) for new, names in stage.names.items()}
        if not stage.keep or any(self.mapped in names for names in stage.names.values()):
            self.mapped = None
        self.stages.append(stage)

    def to_dict(self, stage: ToDict) -> None:
        for names in stage.fields:
            self.names[names[0]] = self.alternatives(names)
        if stage.fields and (self.mapped,) not in stage.fields:
            self.mapped = None
        self.stages.append(stage)

    def to_tuple(self, stage: ToTuple) -> None:
        self.tuple = [self.alternatives(names) for names in stage.fields]
        self.stages.append(stage)

    def map_tuple(self, stage: MapTuple) -> None:
        if self.tuple is None:
            raise NotLowered("map_tuple() comes before to_tuple()")
        functions = [
            self.function(function, picture) for function, picture in zip(stage.functions, self.tuple)
        ]
        self.stages.append(MapTuple(tuple(functions), stage.handler))

    def map_dict(self, stage: MapDict) -> None:
        functions: dict[str, Any] = {
            name: self.function(function, self.is_picture(name)) for name, function in stage.functions.items()
        }
        self.mapped = next((name for name in stage.functions if self.is_picture(name)), self.mapped)
        self.stages.append(MapDict(functions, stage.handler))

    def function(
        self, function: Callable[[Any], Any] | None, of_picture: bool
    ) -> Callable[[Any], Any] | None:
        if function is None or not of_picture:
            return function
        if not self.decoded:
            raise NotLowered("pictures are changed before decode(), as bytes")
        if self.transform is not None:
            raise NotLowered("pictures go through two functions; make one of them, by Compose")
        self.transform = function
        return self._stands_in(function)

    def batched(self, stage: Batched) -> None:
        known = (default_collation_fn, default_collate, loaded("webdataset.filters", "default_collation_fn"))
        if stage.collation_fn is None or stage.collation_fn not in known:
            raise NotLowered(
                "batched() has a collation_fn of its own; leave it out, give torch's default_collate, or"
                " apply it to the finished batch"
            )
        self.batch = stage

    def finish(self) -> int | str:
        """The position of the picture in the tuples, or its name in dicts."""
        if not self.decoded:
            raise NotLowered(
                'no picture is decoded, and only streams of pictures are native: use decode("pil") where'
                " there are some"
            )
        if self.tuple is None and self.mapped is not None:
            return self.mapped
        if self.tuple is None or sum(self.tuple) != 1:
            raise NotLowered(
                "samples should be tuples with one picture: use to_tuple(); or dicts with one that map_dict()"
                " changes"
            )
        return self.tuple.index(True)


_ADDERS: dict[type, Callable[[Recogniser, Any], None]] = {
    Shuffle: Recogniser.keep,
    Slice: Recogniser.keep,
    RandomSample: Recogniser.keep,
    Decode: Recogniser.decode,
    Rename: Recogniser.rename,
    Select: Recogniser.select,
    ToDict: Recogniser.to_dict,
    ToTuple: Recogniser.to_tuple,
    MapTuple: Recogniser.map_tuple,
    MapDict: Recogniser.map_dict,
    Batched: Recogniser.batched,
}


def is_reraise(handler: Handler) -> bool:
    return handler is reraise_exception or handler is loaded("webdataset.handlers", "reraise_exception")


def recognise_indexed(
    dataset: IndexedWebDataset,
) -> tuple[Any, Callable[[], tuple[_core.SampleFiles, np.ndarray]]]:
    """(the transform, a function that makes the files and labels), for samples (picture, label); NotLowered
    for other samples.
    """
    recogniser = Recogniser()
    for stage in dataset.stages:
        recogniser.add(stage)
    position = recogniser.finish()
    fields = [stage.fields for stage in dataset.stages if isinstance(stage, ToTuple)][-1]
    others = [
        f
        for stage in dataset.stages
        if isinstance(stage, MapTuple)
        for f in stage.functions[1:]
        if f is not None
    ]
    if (
        position != 0
        or len(fields) != 2
        or others
        or not all(name.rpartition(".")[2] in _LABELS for name in fields[1])
    ):
        raise NotLowered(
            'samples should be (picture, label): use to_tuple("jpg;png", "cls"), and no function on the label'
        )
    if recogniser.names:
        raise NotLowered("fields are renamed; name them as they are in the shards, in to_tuple()")

    def files() -> tuple[_core.SampleFiles, np.ndarray]:
        labels = dataset.numbers(fields[1])
        if labels is None:
            raise NotLowered(f"not every sample has a whole number in {';'.join(fields[1])}")
        return dataset.files(fields[0]), labels

    return recogniser.transform, files


_DECISIVE = ("__iter__", "_items", "_flow", "_source", "stages", "iterate")


def check_dataset(dataset: Any) -> None:
    """NotLowered if the dataset's class may make other samples of its stages than WebDataset."""
    for name in _DECISIVE:
        if getattr(type(dataset), name) is not getattr(WebDataset, name):
            raise NotLowered(
                f"{type(dataset).__name__} overrides {name} of WebDataset; use WebDataset itself"
            )


def named(dataset: WebDataset) -> str:
    shards = len(dataset.urls)
    return f"WebDataset of {shards} shard{'s' * (shards != 1)}"
