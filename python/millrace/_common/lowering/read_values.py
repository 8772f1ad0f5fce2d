"""Values of reading a callable's source: pictures on their way, what is done to them, how ways meet again."""

from __future__ import annotations

import ast
import itertools
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

MOST_VIEWS = 256
_NUMBERS = itertools.count()


class NotRead(Exception):
    """The code does something that is not understood, or a name cannot be looked up without running code."""

    _at: tuple[ast.expr | ast.stmt, types.CodeType] | None = None

    def at(self, node: ast.expr | ast.stmt, code: types.CodeType) -> None:
        """Who knows of the innermost part of the code says so first."""
        if hasattr(node, "lineno"):
            self._at = self._at or (node, code)

    @property
    def place(self) -> str:
        """That part, as users find it; "": there is no source."""
        if self._at is None:
            return ""
        node, code = self._at
        text, file = ast.unparse(node).partition("\n")[0], code.co_filename.rpartition("/")[2]
        return f"`{text}` in line {node.lineno} of {file}"


def require(known: object) -> None:
    """NotRead unless that is so."""
    if not known:
        raise NotRead


class MadeList(list):
    """A list that the function makes, which therefore may grow, until a loop runs over it."""

    is_looped = False


class MadeDict(dict):
    """A dict that the function makes."""


class Symbol:
    """Stands for a value that only a call would know: nothing can be asked of it, and each is its own."""


class _Once(Symbol):
    """It decides one thing: what two things depend on would be drawn for each of them."""

    _taken = False

    def take(self) -> Any:
        """Itself."""
        require(not self._taken)
        self._taken = True
        return self


class Drawn(_Once):
    """A number drawn evenly between two; `is_array`: an array of one."""

    def __init__(self, low: float, high: float, is_array: bool = False) -> None:
        self.low, self.high, self.is_array = low, high, is_array


class Coin(_Once):
    """True with probability p."""

    def __init__(self, p: float) -> None:
        self.p = p


class Picture(Symbol):
    """The argument, or what a step has made of a picture. Each call makes another one, whose `number` is
    higher. `place`: the file and line of the call, if they are noted.
    """

    place: tuple[str, int] | None = None

    def __init__(self, before: Picture | None = None, step: Any = None) -> None:
        self.before, self.step, self.number = before, step, next(_NUMBERS)

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


class Stacked(Symbol):
    """What torch.stack makes of several pictures; a loop meets these."""

    def __init__(self, pictures: list[Picture]) -> None:
        self.pictures = pictures


class Pictures(Symbol):
    """A column of a batch: one picture of each sample, of which `picture` stands for any."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture


class Column(Symbol):
    """A column of a batch that is no column of pictures."""

    def __init__(self, name: str) -> None:
        self.name = name


@dataclass(frozen=True)
class Steps:
    """What `function` does to each picture."""

    function: Any
    steps: tuple[Any, ...]


@dataclass(frozen=True)
class Op:
    """A step that the engine knows without a transform's object. `name`: as users call it. `python`: what
    takes it of whatever Python has made of the picture; None: nothing does.
    """

    op: dict[str, Any]
    name: str
    python: Called | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Called:
    """A step that only Python can take: a function that is called with the picture and these arguments.
    `name`: as users call it. `key`: the picture is the argument of this name, and of the result, too.
    """

    function: Callable[..., Any]
    name: str
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()
    key: str = ""

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, picture: Any) -> Any:
        if self.key:
            return self.function(**{self.key: picture})[self.key]
        return self.function(picture, *self.arguments, **dict(self.keywords))


@dataclass(frozen=True)
class Maybe:
    """`steps`, in `p` of all cases."""

    p: float
    steps: tuple[Any, ...]


def merged(p: float, one: Any, other: Any) -> Picture:
    """The picture that is `one` with probability p, else `other`: they differ in steps that one of them has
    more. What follows on these may be drawn in either case, and is drawn once.
    """
    require(isinstance(one, Picture) and isinstance(other, Picture) and 0 <= p <= 1)
    a, b = one.line(), other.line()
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] is b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and _same(a[-1 - end].step, b[-1 - end].step):
        end += 1
    only, others = a[begin : len(a) - end], b[begin : len(b) - end]
    require(not (only and others))
    result = a[begin - 1] if begin else _first(one)
    if only or others:
        steps = tuple(picture.step for picture in only or others)
        result = result.then(Maybe(p if only else 1 - p, steps))
    for picture in a[len(a) - end :]:
        result = result.then(picture.step)
    return result


def _same(one: Any, other: Any) -> bool:
    """Whether two steps are one, or do the same."""
    if isinstance(one, Op) and isinstance(other, Op):
        return one == other
    if isinstance(one, Maybe) and isinstance(other, Maybe):
        as_many = len(one.steps) == len(other.steps)
        return one.p == other.p and as_many and all(map(_same, one.steps, other.steps))
    return one is other


def _first(picture: Picture) -> Picture:
    while picture.before is not None:
        picture = picture.before
    return picture


def leaves(value: Any) -> list[Picture]:
    """The pictures in lists, tuples and dicts, or in a stack, in order; NotRead: there is something else."""
    if isinstance(value, Picture):
        return [value]
    if isinstance(value, Stacked):
        return value.pictures
    require(isinstance(value, (dict, list, tuple)))
    return [leaf for part in (value.values() if isinstance(value, dict) else value) for leaf in leaves(part)]


def extend(holder: Any, more: list[Any]) -> None:
    """Of a list that the function has made."""
    require(type(holder) is MadeList and not holder.is_looped)
    holder.extend(more)
    require(len(holder) <= MOST_VIEWS)


def items(value: Any) -> list[Any]:
    """What a loop over `value` meets."""
    if isinstance(value, Stacked):
        return value.pictures
    if type(value) in (list, tuple, range, MadeList, torch.nn.ModuleList, torch.nn.Sequential):
        try:
            if len(value) <= MOST_VIEWS:
                return list(value)
        except OverflowError:
            pass
    raise NotRead


def truth(value: Any) -> bool:
    """Of plain values, whose truth runs no code."""
    require(value is None or type(value) in (bool, int, float, str, list, tuple, dict))
    return bool(value)


def copied(value: Any, copies: dict[int, Any]) -> Any:
    """Lists and dicts that the function has made, anew; what they hold, as it is."""
    if type(value) is tuple:
        return tuple(copied(part, copies) for part in value)
    if type(value) not in (MadeList, MadeDict):
        return value
    if id(value) not in copies:
        made = type(value)(value)
        copies[id(value)] = made
        if isinstance(made, MadeList):
            made.is_looped = value.is_looped
        for key in range(len(made)) if isinstance(made, list) else made:
            made[key] = copied(made[key], copies)
    return copies[id(value)]
