"""A sample that a __getitem__ returns, taken apart: its files, the steps done to their pictures, its
values.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from .item_pictures import GREY, RGB, UPRIGHT
from .item_values import Array, Lines, Opened, pictures_in
from .read_values import MadeDict, MadeList, Picture, Stacked, require


@dataclass(frozen=True)
class ItemFile:
    """A picture's file. `modes`: which modes of files may be read this way, in the words of
    `_core.ImageDataset`. `views`: the steps of each view of the file's picture; `stacked`: whether the views
    are one tensor.
    """

    kind: str
    modes: str
    views: tuple[tuple[Picture, ...], ...]
    stacked: bool


@dataclass(frozen=True)
class ItemPicture:
    """`parts`: (file, view) of each part; `stacked`: the parts are one stacked tensor, even if there is only
    one part.
    """

    parts: tuple[tuple[int, int], ...]
    stacked: bool


@dataclass(frozen=True)
class Item:
    """A sample in parts. `values`: the function of an index that returns the places of the sample's files
    (paths or bytes), then the sample's other values. `form`: the sample as lists, tuples and dicts of
    numbers: values count from 0 up, pictures from -1 down.
    """

    values: Callable[[int], tuple[Any, ...]]
    files: tuple[ItemFile, ...]
    pictures: tuple[ItemPicture, ...]
    form: Any
    told: Callable[[Mapping[tuple[str, int], str]], tuple[str, ...]]
    """Returns for each line that was read whether native code or Python runs it. Its argument has other words
    for some of the lines, by file and line number.
    """


class Sample:
    """The value that a __getitem__ returned, taken apart."""

    def __init__(self, lines: Lines, made: Any) -> None:
        self.lines = lines
        self.values: list[Any] = []
        self.pictures: list[tuple[bool, list[Picture]]] = []  # (whether it is a stack, its parts)
        self.form = self._form_of(made)

    def _form_of(self, value: Any) -> Any:
        if isinstance(value, Array):
            value = value.given()
        if isinstance(value, (Picture, Stacked)):
            is_stack = isinstance(value, Stacked)
            self.pictures.append((is_stack, pictures_in(value)))
            return -len(self.pictures)
        if type(value) in (MadeList, tuple) and pictures_in(value):
            return (list if type(value) is MadeList else tuple)(map(self._form_of, value))
        if type(value) is MadeDict:
            return {key: self._form_of(part) for key, part in value.items()}
        self.values.append(value)
        return len(self.values) - 1

    def item(self) -> Item:
        roots = {id(picture): root_of(picture) for _, parts in self.pictures for picture in parts}
        files = list({id(root): root for root in roots.values()}.values())
        require(files and len(files) == len(self.lines.opened))  # each that is opened is in the sample
        at = {id(root): number for number, root in enumerate(files)}
        views: list[list[tuple[Picture, ...]]] = [[] for _ in files]
        stacked, pictures = [False] * len(files), []
        for is_stack, parts in self.pictures:
            numbers = [at[id(roots[id(picture)])] for picture in parts]
            require(not is_stack or not any(views[number] for number in numbers))
            require(not any(stacked[number] for number in numbers))
            of_one = is_stack and len(parts) > 1 and len(set(numbers)) == 1
            require(of_one or len(set(numbers)) == len(numbers))
            stacked[numbers[0]] = of_one
            places = []
            for number, picture in zip(numbers, parts):
                places.append((number, len(views[number])))
                views[number].append(tuple(picture.line()))
            pictures.append(ItemPicture(tuple(places[:1] if of_one else places), is_stack and not of_one))
        in_stacks = {number for picture in pictures if picture.stacked for number, _ in picture.parts}
        require(all(len(views[number]) == 1 for number in in_stacks))
        found = [
            ItemFile(root.file.kind, _modes_of(root, lines), tuple(lines), of_one)
            for root, lines, of_one in zip(files, views, stacked)
        ]
        values = self.lines.function([*(root.file.place for root in files), *self.values])
        return Item(values, tuple(found), tuple(pictures), self.form, partial(_told, self.lines))


def _told(lines: Lines, others: Mapping[tuple[str, int], str]) -> tuple[str, ...]:
    told = []
    for (file, number), who in sorted(lines.who.items()):
        if who:
            words = next(iter(who)) if len(who) == 1 else "native, values python"
            words = others.get((file, number), words)
            told.append(f"line {number}: {words} — {linecache.getline(file, number).strip()}")
    return tuple(told)


def root_of(picture: Picture) -> Opened:
    root: Any = picture
    while root.before is not None:
        root = root.before
    require(isinstance(root, Opened))
    return root


def _modes_of(root: Opened, views: list[tuple[Picture, ...]]) -> str:
    if root.modes is not None:
        return root.modes
    first = [next((picture.step for picture in line if picture.step is not UPRIGHT), None) for line in views]
    if all(step == RGB for step in first):
        return "any"
    return "grey_or_rgb" if all(step is GREY for step in first) else "rgb"
