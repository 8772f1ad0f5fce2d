"""MultiView: several views of one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class MultiView:
    """Applies each of several transforms to the same picture, and returns their results arranged alike.

        MultiView([one, one])                                         a SimCLR pair: a list of two views
        MultiView({"large": [one, other], "small": [local] * 8})      a dict of lists, as DINO trains on

    `views`: lists, tuples and dicts, in each other, of transforms. In a `millrace.DataLoader` the picture is
    read and decoded once for all of them. Every view then ends in a fixed size, and all have one dtype.
    ValueError when there is none, TypeError for what is no transform.
    """

    def __init__(self, views: Any) -> None:
        if not isinstance(views, (list, tuple, Mapping)):
            raise TypeError(f"views must be a list, tuple or dict of transforms, not {type(views).__name__}")
        if not _count(views):
            raise ValueError("views must have one transform or more")
        self.views = views

    def __call__(self, picture: Any) -> Any:
        return _applied(self.views, picture)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.views!r})"


def _count(views: Any) -> int:
    if isinstance(views, Mapping):
        views = list(views.values())
    if isinstance(views, (list, tuple)):
        return sum(map(_count, views))
    if not callable(views):
        raise TypeError(f"{views!r} is no transform: it cannot be called")
    return 1


def _applied(views: Any, picture: Any) -> Any:
    if isinstance(views, Mapping):
        return {key: _applied(part, picture) for key, part in views.items()}
    if isinstance(views, Sequence) and not isinstance(views, str):
        made = [_applied(part, picture) for part in views]
        return tuple(made) if isinstance(views, tuple) else made
    return views(picture)
