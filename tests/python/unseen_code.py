"""Transforms like those of seen_classes.py that do more than a reader may take them for. None may be read."""

import functools
import random

import torch
from PIL import ImageOps
from seen_classes import Step


class Hostile(Step):
    pass


class ResultIsLeft(Hostile):
    def __call__(self, img):
        _ = self.u(img)  # which may count, draw, or paint into the picture
        return self.t(img)


class ResultOfAnArmIsLeft(Hostile):
    def __call__(self, img):
        return self.t(img) if random.random() < self.p else [img, self.u(img)][0]


class Called(Hostile):
    def __call__(self, img):
        self.u(img)
        return self.t(img)


class Counts(Hostile):
    def __call__(self, img):
        self.count += 1
        return self.t(img)


class Assigns(Hostile):
    def __call__(self, img):
        self.last = img
        return self.t(img)


class Notes(Hostile):
    def __call__(self, img):
        self.seen.append(img)
        return self.t(img)


class NotesByAnotherName(Hostile):
    def __call__(self, img):
        seen = self.seen
        seen += [self.t]
        return seen[-1](img)


class NotesInADefault(Hostile):
    def __call__(self, img, seen=[]):  # noqa: B006 -- it is what is tested
        seen.append(1)
        return self.t(img)


class Yields(Hostile):
    def __call__(self, img):
        if self.off:
            yield img
        return self.t(img)


class WritesAGlobal(Hostile):
    def __call__(self, img):
        if self.off:
            global written
        written = self.t
        return written(img)


class Walrus(Hostile):
    def __call__(self, img):
        return [one := self.t(img), one]


class Mangled(Hostile):
    """vars(self) has another __t than the class's source means."""

    def __init__(self, t, u=None):
        super().__init__(t, u)
        self.__t = t
        vars(self)["__t"] = u

    def __call__(self, img):
        return self.__t(img)


class Property(Hostile):
    @property
    def drawn(self):
        return random.choice([self.t, self.u])

    def __call__(self, img):
        return [self.drawn(img), self.t(img)]


class Answers(Hostile):
    def __getattr__(self, name):
        return random.choice([self.t, self.u])

    def __call__(self, img):
        return [self.drawn(img), self.t(img)]


class Intercepts(Hostile):
    def __getattribute__(self, name):
        return object.__getattribute__(self, random.choice("tu") if name == "t" else name)

    def __call__(self, img):
        return [self.t(img), self.t(img)]


class Slots:
    __slots__ = ("t",)

    def __init__(self, t, u=None):
        self.t = t

    def __call__(self, img):
        return [self.t(img), self.t(img)]


class Deletable(Hostile):
    """A descriptor that goes before what the object has."""

    class _Chosen:
        def __get__(self, owner, cls):
            return random.choice([owner.t, owner.u])

        def __delete__(self, owner):
            raise AttributeError

    drawn = _Chosen()

    def __init__(self, t, u=None):
        super().__init__(t, u)
        vars(self)["drawn"] = t

    def __call__(self, img):
        return [self.drawn(img), self.t(img)]


def doubled(function):
    @functools.wraps(function)
    def twice(self, img):
        return function(self, function(self, img))

    return twice


class Decorated(Hostile):
    @doubled
    def __call__(self, img):
        return self.t(img)


class Wrapped(Hostile):
    @torch.no_grad()
    def __call__(self, img):
        return [self.t(img), self.t(img)]


class Static(Hostile):
    @staticmethod
    def __call__(img):
        return ImageOps.invert(img)


class Stars(Hostile):
    def __call__(self, *pictures):
        return self.t(pictures[0])


class StarredCall(Hostile):
    def __call__(self, img):
        return self.t(*[img])


class Generator(Hostile):
    def __call__(self, img):
        return list(t(img) for t in (self.t, self.u))


class Catches(Hostile):
    def __call__(self, img):
        try:
            return self.t(img)
        except ValueError:
            return self.u(img)


class Breaks(Hostile):
    def __call__(self, img):
        for t in (self.t, self.u):
            img = t(img)
            if self.n:
                break
        return img


class LoopGrows(Hostile):
    def __call__(self, img):
        views = [self.t(img)]
        for view in views:
            if self.n:
                views.append(self.u(view))
        return views


class LoopOverListsThatGrow(Hostile):
    """On one way the list has two pictures, on the other one."""

    def __call__(self, img):
        views = [img]
        for some in [views, views]:
            if random.random() < self.p:
                some.append(ImageOps.invert(img))
        return views[-1]


class TupleOfAListThatGrows(Hostile):
    def __call__(self, img):
        views = [img]
        held = (views,)
        if random.random() < self.p:
            views.append(self.t(img))
            held[0].append(self.u(views[1]))
        return held[0][-1]


class Cycle(Hostile):
    def __call__(self, img):
        views = [self.t(img)]
        views.append(views)
        return views


class UnassignedCell(Hostile):
    """`unassigned_cell` is a variable of the function, which the list's own scope sees."""

    def __call__(self, img):
        if self.off:
            unassigned_cell = self.u
        return [unassigned_cell(img) for _ in range(2)]


def unassigned_cell(img):
    return ImageOps.invert(img)


class Huge(Hostile):
    def __call__(self, img):
        number = 9
        for _ in range(200):
            number = number * number
        return self.t(img) if number else img


class HugeList(Hostile):
    def __call__(self, img):
        views = [self.t(img)]
        for _ in range(200):
            views = views + views
        return views


class HugeRange(Hostile):
    def __call__(self, img):
        return [self.t(img) for _ in range(10**30)]


class Deep(Hostile):
    def __call__(self, img):
        for _ in range(250):
            for _ in range(1):
                if self.n:
                    img = self.t(img)
        return img


class NoRange(Hostile):
    def __call__(self, img):
        return [self.t(img) for _ in range(0, 9, 0)]


class WithTheNumber(Hostile):
    def __call__(self, img):
        return [self.t(img), 3]


HOSTILE = [*Hostile.__subclasses__(), Slots]
