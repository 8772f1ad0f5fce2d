"""The stages that treat sample by sample and hold none: decode, map, select, to_tuple, rename and the like,
in webdataset's meaning.

A `handler` decides about what their functions raise (handlers.py).
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from typing import Any, Union

from . import utils
from .decoders import AllowPickle, Decoder, PickleRefused, SampleDecoder
from .flow import Stage
from .handlers import LEFT_OUT, Handler, handled, reraise_exception

Fields = Union[str, list[str], tuple[str, ...]]  # alternatives: "jpg;png", or a list of names


def alternatives(fields: Fields) -> tuple[str, ...]:
    """The names that are tried, in order."""
    if not isinstance(fields, str):
        return tuple(fields)
    if " " in fields:
        raise ValueError(
            f"{fields!r} has a space: give alternatives as 'jpg;png', and several fields one by one"
        )
    return tuple(fields.split(";"))


class MissingField(ValueError, KeyError):
    """A sample lacks a field: a ValueError, as webdataset's to_tuple() and rename() raise it, and its
    map_dict()'s KeyError.
    """

    __str__ = ValueError.__str__  # a KeyError shows its message in quotes


def field_of(sample: dict[str, Any], names: tuple[str, ...], missing_is_error: bool = True) -> Any:
    """The first of these fields that the sample has. ValueError, or None, when it has none."""
    for name in names:
        if name in sample:
            return sample[name]
    if missing_is_error:
        raise MissingField(
            f"{_of(sample)} has no field {' or '.join(map(repr, names))}, only {_fields(sample)}"
        )
    return None


def _of(sample: dict[str, Any]) -> str:
    url = sample.get("__url__")
    return f"sample {sample.get('__key__')!r}" if url is None else f"{url}: sample {sample.get('__key__')!r}"


def _fields(sample: dict[str, Any]) -> str:
    return ", ".join(repr(name) for name in sample if not str(name).startswith("__")) or "none"


class Each(Stage):
    """A stage that is a function of one sample: what apply() returns is given, `LEFT_OUT` is not."""

    # of stages that have no such field; a bare function would become a method
    handler: Handler = staticmethod(reraise_exception)

    def apply(self, sample: Any) -> Any:
        raise NotImplementedError

    def generate(self, samples: Iterator[Any]) -> Iterator[Any]:
        return handled(self.apply, samples, self.handler)


@dataclass(frozen=True)
class Map(Each):
    """function(sample); None leaves the sample out. A dict made of a dict keeps its `__key__`."""

    function: Callable[[Any], Any]
    handler: Handler = reraise_exception

    def apply(self, sample: Any) -> Any:
        result = self.function(sample)
        if result is None:
            return LEFT_OUT
        if isinstance(sample, dict) and isinstance(result, dict):
            result["__key__"] = sample.get("__key__")
        return result


@dataclass(frozen=True)
class Associate:
    """What Map calls for associate(): further fields, by the sample's key."""

    associator: Callable[[str], Any] | dict[str, Any]

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        key = sample["__key__"]
        sample.update(self.associator(key) if callable(self.associator) else self.associator.get(key, {}))
        return sample


@dataclass(frozen=True)
class Decode(Each):
    """Fields decoded by their extensions. `handlers`: names of picture forms, and functions (decoders.py)."""

    handlers: tuple[str | Decoder, ...] = ()
    pre: tuple[Decoder, ...] | None = None
    post: tuple[Decoder, ...] | None = None
    only: frozenset[str] | None = None
    partial: bool = False
    allow_pickle: AllowPickle = False
    handler: Handler = reraise_exception

    def __post_init__(self) -> None:
        self.decoder  # noqa: B018  (complains about wrong arguments here, not in a worker)

    @cached_property
    def decoder(self) -> SampleDecoder:
        """What does it, sample by sample."""
        return SampleDecoder(self.handlers, self.pre, self.post, self.only, self.partial, self.allow_pickle)

    def apply(self, sample: dict[str, Any]) -> dict[str, Any]:
        return self.decoder(sample)


@dataclass(frozen=True)
class ToTuple(Each):
    """The named fields as a tuple; each entry of `fields` is a tuple of alternatives."""

    fields: tuple[tuple[str, ...], ...]
    missing_is_error: bool = True
    none_is_error: bool = True
    handler: Handler = reraise_exception

    def apply(self, sample: dict[str, Any]) -> tuple[Any, ...]:
        result = tuple([field_of(sample, names, self.missing_is_error) for names in self.fields])
        if self.none_is_error:
            for names, value in zip(self.fields, result):
                if value is None:
                    raise ValueError(f"{_of(sample)}: field {';'.join(names)!r} is None")
        return result


@dataclass(frozen=True)
class ToDict(Each):
    """A dict with the named fields only, by the first of their alternatives' names; with none named, all but
    those of `__`.
    """

    fields: tuple[tuple[str, ...], ...] = ()
    missing_is_error: bool = True
    handler: Handler = reraise_exception

    def apply(self, sample: dict[str, Any]) -> dict[str, Any]:
        if not self.fields:
            return {name: value for name, value in sample.items() if not name.startswith("__")}
        return {names[0]: field_of(sample, names, self.missing_is_error) for names in self.fields}


@dataclass(frozen=True)
class MapTuple(Each):
    """functions[i](sample[i]); None leaves a field as it is, and so do fewer functions than fields."""

    functions: tuple[Callable[[Any], Any] | None, ...]
    handler: Handler = reraise_exception

    def apply(self, sample: Any) -> tuple[Any, ...]:
        if not isinstance(sample, (list, tuple)):
            raise TypeError(
                f"map_tuple() takes tuples, as to_tuple() makes them, not {type(sample).__name__}"
            )
        result = list(sample)
        for number, function in enumerate(self.functions[: len(result)]):
            if function is not None:
                result[number] = function(result[number])
        return tuple(result)


@dataclass(frozen=True)
class MapDict(Each):
    """functions[name](sample[name]) in place of the field."""

    functions: dict[str, Callable[[Any], Any]]
    handler: Handler = reraise_exception

    def apply(self, sample: Any) -> Any:
        if not isinstance(sample, dict):
            raise TypeError(
                f"map_dict() takes samples that are dicts, not {type(sample).__name__}; put it before"
                " to_tuple()"
            )
        for name, function in self.functions.items():
            sample[name] = function(field_of(sample, (name,)))
        return sample


@dataclass(frozen=True)
class Select(Each):
    """The samples of which `predicate` is true."""

    predicate: Callable[[Any], bool]
    handler: Handler = reraise_exception

    def apply(self, sample: Any) -> Any:
        return sample if self.predicate(sample) else LEFT_OUT


@dataclass(frozen=True)
class Rename(Each):
    """names[new] are the alternatives that come to be called so. `keep`: the other fields, too."""

    names: dict[str, tuple[str, ...]]
    keep: bool = True
    handler: Handler = reraise_exception

    @cached_property
    def _replaced(self) -> set[str]:
        return {name for names in self.names.values() for name in names}

    def apply(self, sample: dict[str, Any]) -> dict[str, Any]:
        renamed = {new: field_of(sample, names) for new, names in self.names.items()}
        if not self.keep:
            return renamed
        return {name: value for name, value in sample.items() if name not in self._replaced} | renamed


@dataclass(frozen=True)
class RenameKeys(Each):
    """Renames fields with a name that fits a pattern (fnmatch); the last pattern that fits counts. Other
    fields go.
    """

    patterns: tuple[tuple[str, str], ...]  # (new name, pattern)
    keep_unselected: bool = False
    must_match: bool = True
    duplicate_is_error: bool = True

    def apply(self, sample: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        unmatched = {pattern for _, pattern in self.patterns}
        for path, value in sample.items():
            name = path.rpartition("/")[2].lower()
            new, pattern = next(
                (pair for pair in reversed(self.patterns) if fnmatch(name, pair[1])), (None, None)
            )
            unmatched.discard(pattern)  # type: ignore[arg-type]
            if new is None:
                if self.keep_unselected:
                    result[path] = value
            elif new not in result:
                result[new] = value
            elif self.duplicate_is_error:
                raise ValueError(f"{_of(sample)}: two fields would be called {new!r}, of {_fields(sample)}")
        if self.must_match and unmatched:
            raise ValueError(f"{_of(sample)}: no field fits {sorted(unmatched)}, only {_fields(sample)}")
        return result


@dataclass(frozen=True)
class ExtractKeys(Each):
    """A tuple of the fields that fit each pattern (fnmatch, with or without a leading dot); alternatives in
    one string with ";".
    """

    patterns: tuple[tuple[str, ...], ...]
    duplicate_is_error: bool = True
    ignore_missing: bool = False

    def apply(self, sample: dict[str, Any]) -> tuple[Any, ...]:
        result = []
        for patterns in self.patterns:
            fitting = [
                name for name in sample if any(fnmatch("." + name, p) or fnmatch(name, p) for p in patterns)
            ]
            if not fitting:
                if self.ignore_missing:
                    continue
                raise ValueError(
                    f"{_of(sample)} has no field that fits {';'.join(patterns)!r}, only {_fields(sample)}"
                )
            if len(fitting) > 1 and self.duplicate_is_error:
                raise ValueError(
                    f"{_of(sample)}: {', '.join(map(repr, fitting))} all fit {';'.join(patterns)!r}"
                )
            result.append(sample[fitting[0]])
        return tuple(result)


@dataclass(frozen=True)
class DecodeByPattern(Each):
    """Decodes each field by the function of the last pattern that fits its name; the function gets a file.
    False leaves bytes.
    """

    patterns: tuple[tuple[str, Any], ...]
    must_decode: bool = True

    def apply(self, sample: dict[str, Any]) -> dict[str, Any]:
        result = {}
        for path, value in sample.items():
            if path.startswith("__"):
                result[path] = value
                continue
            name = re.sub(r".*/", "", path).lower()
            decode = next(
                (d for p, d in reversed(self.patterns) if fnmatch(name, p) or fnmatch("." + name, p)), None
            )
            if decode is None and self.must_decode:
                raise ValueError(
                    f"{_of(sample)}: xdecode() has no decoder for field {path!r}; give one, or"
                    " must_decode=False"
                )
            result[path] = (
                decode(io.BytesIO(value) if isinstance(value, bytes) else value) if decode else value
            )
        return result


def _read_text(stream: Any) -> str:
    return stream.read().decode("utf-8")


def _read_pickle(stream: Any) -> Any:
    if utils.enforce_security is False:
        return pickle.load(stream)
    raise PickleRefused(
        "a pickle can run any code when it is read; if you trust this data: xdecode(..., pyd=pickle.load)"
    )


DEFAULT_PATTERNS: tuple[tuple[str, Any], ...] = (
    ("*.bin", io.BytesIO.read),
    ("*.txt", _read_text),
    ("*.pyd", _read_pickle),
)


@dataclass(frozen=True)
class LogKeys(Stage):
    """Appends a line to `logfile` for each sample that passes: its number, `__worker__`, `__rank__`,
    `__key__`, with tabs between.
    """

    logfile: str

    def generate(self, samples: Iterator[Any]) -> Iterator[Any]:
        with open(
            self.logfile, "ab", buffering=0
        ) as file:  # one write each: lines of several workers do not mix
            for number, sample in enumerate(samples):
                columns = (number, *(sample.get(name) for name in ("__worker__", "__rank__", "__key__")))
                file.write(("\t".join(map(str, columns)) + "\n").encode(errors="surrogateescape"))
                yield sample
