"""Values met while reading a callable's source: pictures, the steps done to them, and how the two arms of a
branch are merged.
"""

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
        """Note where in the code the failure is. The first call counts: it names the innermost part."""
        if hasattr(node, "lineno"):
            self._at = self._at or (node, code)

    @property
    def place(self) -> str:
        """The part of the code that was not read, in words for users; "" without source."""
        if self._at is None:
            return ""
        node, code = self._at
        text, file = ast.unparse(node).partition("\n")[0], code.co_filename.rpartition("/")[2]
        return f"`{text}` in line {node.lineno} of {file}"


def require(known: object) -> None:
    """Raise NotRead unless `known` is true."""
    if not known:
        raise NotRead


class MadeList(list):
    """A list that the function makes. It may grow until a loop runs over it."""

    is_looped = False


class MadeDict(dict):
    """A dict that the function makes."""


class Symbol:
    """A value that only a call would know: it has no truth or contents here, and no two symbols are equal."""


class _Once(Symbol):
    """A draw that may be used once: if two results depended on it, it would be drawn for each of them."""

    _taken = False

    def take(self) -> Any:
        """Return self; NotRead on the second call."""
        require(not self._taken)
        self._taken = True
        return self


class Drawn(_Once):
    """A number drawn evenly between two numbers; `is_array`: an array of one such number."""

    def __init__(self, low: float, high: float, is_array: bool = False) -> None:
        self.low, self.high, self.is_array = low, high, is_array


class Coin(_Once):
    """True with probability p."""

    def __init__(self, p: float) -> None:
        self.p = p


class Picture(Symbol):
    """The function's argument, or the result of a step applied to a picture. Each call makes a new Picture
    with a higher `number`. `place`: the file and line of the call, if they are noted.
    """

    place: tuple[str, int] | None = None

    def __init__(self, before: Picture | None = None, step: Any = None) -> None:
        self.before, self.step, self.number = before, step, next(_NUMBERS)

    def then(self, step: Any) -> Picture:
        return Picture(self, step)

    def line(self) -> list[Picture]:
        """The pictures that steps have made, from the first one to this one."""
        pictures: list[Picture] = []
        at: Picture | None = self
        while at is not None and at.before is not None:
            pictures.append(at)
            at = at.before
        return pictures[::-1]

    def steps(self) -> list[Any]:
        return [picture.step for picture in self.line()]


class Stacked(Symbol):
    """The result of torch.stack for several pictures; a loop over it meets these pictures."""

    def __init__(self, pictures: list[Picture]) -> None:
        self.pictures = pictures


class Pictures(Symbol):
    """A column of a batch: one picture per sample; `picture` represents each of them."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture


class Column(Symbol):
    """A column of a batch without pictures."""

    def __init__(self, name: str) -> None:
        self.name = name


@dataclass(frozen=True)
class Steps:
    """The steps that `function` does to each picture."""

    function: Any
    steps: tuple[Any, ...]


@dataclass(frozen=True)
class Op:
    """A step that the engine knows without a transform's object. `name`: as users call it. `python`: the
    function that takes this step in Python, after other Python steps; None: no function does.
    """

    op: dict[str, Any]
    name: str
    python: Called | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Called:
    """A step that only Python can take: a function that is called with the picture and these arguments.
    `name`: as users call it. `key`, if not empty: the picture is the keyword argument of this name, and the
    entry of this name in the result.
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
    """`steps`, taken with probability `p`."""

    p: float
    steps: tuple[Any, ...]


def merged(p: float, one: Any, other: Any) -> Picture:
    """The picture that is `one` with probability p, else `other`. NotRead unless one of them only has
    additional steps in one place. Steps after that place are the same in both cases, and draw once.
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
    """Whether two steps are the same object or do the same."""
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
    """The pictures in lists, tuples and dicts, or in a stack, in order; NotRead if anything else is there."""
    if isinstance(value, Picture):
        return [value]
    if isinstance(value, Stacked):
        return value.pictures
    require(isinstance(value, (dict, list, tuple)))
    return [leaf for part in (value.values() if isinstance(value, dict) else value) for leaf in leaves(part)]


def extend(holder: Any, more: list[Any]) -> None:
    """Append `more` to `holder`, a list that the function has made; NotRead for other lists."""
    require(type(holder) is MadeList and not holder.is_looped)
    holder.extend(more)
    require(len(holder) <= MOST_VIEWS)


def items(value: Any) -> list[Any]:
    """The items that a loop over `value` meets."""
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
    """The truth of a plain value, found without running any user's code; NotRead for other values."""
    require(value is None or type(value) in (bool, int, float, str, list, tuple, dict))
    return bool(value)


def copied(value: Any, copies: dict[int, Any]) -> Any:
    """Copy the lists and dicts that the function has made; all other values stay the same objects."""
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
