"""MultiView: several views of one picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._common.batch_tree import arranged


class MultiView:
    """Apply each of several transforms to the same picture, and return their results arranged alike.

        MultiView([one, one])                                         a SimCLR pair: a list of two views
        MultiView({"large": [one, other], "small": [local] * 8})      a dict of lists, as DINO trains on

    In a `millrace.DataLoader` the picture is read and decoded once for all views. Every view then ends in a
    fixed size, and all have one dtype.

    Args:
        views: lists, tuples and dicts, in each other, of transforms.

    Raises:
        ValueError: if there is no view, or if two views are known to differ in dtype.
        TypeError: if an object is no transform.
    """

    def __init__(self, views: Any) -> None:
        if not isinstance(views, (list, tuple, Mapping)):
            raise TypeError(f"views must be a list, tuple or dict of transforms, not {type(views).__name__}")
        places = list(_places(views, "views"))
        for _, view in places:
            if not callable(view):
                raise TypeError(f"{view!r} is no transform: it cannot be called")
        if not places:
            raise ValueError("views must have one transform or more")
        _check_dtypes(places)
        self.views = views

    def __call__(self, picture: Any) -> Any:
        return arranged(self.views, lambda view: view(picture))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.views!r})"


def _check_dtypes(places: list[tuple[str, Any]]) -> None:
    """ValueError naming two views that end in tensors of other dtypes, as far as these are known."""
    known = [(place, dtype) for place, view in places if (dtype := _dtype(view)) is not None]
    for place, dtype in known:
        if dtype != known[0][1]:
            first = "{} makes {}".format(*known[0])
            raise ValueError(
                f"{first}, and {place} {dtype}; views of one picture have one dtype: end them alike, with"
                " ToTensor() or ToDtype(torch.float32, scale=True)"
            )


def _places(views: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(views, Mapping):
        for key, part in views.items():
            yield from _places(part, f"{place}[{key!r}]")
    elif isinstance(views, (list, tuple)):
        for i, part in enumerate(views):
            yield from _places(part, f"{place}[{i}]")
    else:
        yield place, views


def _dtype(view: Any) -> str | None:
    from .._common.lowering.recognising import NotLowered  # not at the top: it needs this package
    from .._common.lowering.transforms import lowered

    try:
        return lowered(view).dtype
    except NotLowered:
        return None
