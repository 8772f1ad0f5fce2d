"""Values of reading a callable's source: pictures on their way, what is done to them, how ways meet again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_VIEWS = 256


class NotRead(Exception):
    """The source does something that is not understood."""


class MadeList(list):
    """A list that the function makes, which therefore may grow."""


class MadeDict(dict):
    """A dict that the function makes."""


class Picture:
    """The argument, or what a step has made of a picture. Each call makes another one."""

    def __init__(self, before: Picture | None = None, step: Any = None) -> None:
        self.before, self.step = before, step

    def then(self, step: Any) -> Picture:
        return Picture(self, step)

    def line(self) -> list[Picture]:
        """From the first one that a step has made to this one."""
        pictures: list[Picture] = []
        at: Picture | None = self
        while at is not None and at.before is not None:
            pictures.append(at)
            at = at.before
        return pictures[::-1]

    def steps(self) -> list[Any]:
        return [picture.step for picture in self.line()]


@dataclass(frozen=True)
class Op:
    """A step that the engine knows without a transform's object. `name`: as users call it."""

    op: dict[str, Any]
    name: str


@dataclass(frozen=True)
class Maybe:
    """`steps`, in `p` of all cases."""

    p: float
    steps: tuple[Any, ...]


def merged(p: float, one: Any, other: Any) -> Picture:
    """The picture that is `one` with probability p, else `other`: they differ in steps that one of them has
    more.
    """
    if not (isinstance(one, Picture) and isinstance(other, Picture)) or not 0 <= p <= 1:
        raise NotRead
    a, b = one.line(), other.line()
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] is b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[-1 - end].step is b[-1 - end].step:
        end += 1
    only, others = a[begin : len(a) - end], b[begin : len(b) - end]
    if only and others:
        raise NotRead
    result = a[begin - 1] if begin else _first(one)
    if only or others:
        steps = tuple(picture.step for picture in only or others)
        result = result.then(Maybe(p if only else 1 - p, steps))
    for picture in a[len(a) - end :]:
        result = result.then(picture.step)
    return result


def _first(picture: Picture) -> Picture:
    while picture.before is not None:
        picture = picture.before
    return picture


def leaves(value: Any) -> list[Picture]:
    """The pictures in lists, tuples and dicts, in order; NotRead: there is something else."""
    if isinstance(value, Picture):
        return [value]
    if isinstance(value, dict):
        parts: Sequence[Any] = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = value
    else:
        raise NotRead
    return [leaf for part in parts for leaf in leaves(part)]
