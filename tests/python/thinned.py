"""Cases that are many because their parameters do not depend on each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest


def thinned(every: int, /, **axes: Sequence[Any]) -> pytest.MarkDecorator:
    """All combinations of the values of `axes`, of which every `every`-th diagonal runs in `make test`, the
    others, marked `slow`, in `make test-slow`. Of two axes of at least `every` values each value is in both.
    """
    cases = []
    for places in itertools.product(*(range(len(axis)) for axis in axes.values())):
        values = [axis[place] for axis, place in zip(axes.values(), places)]
        marks = () if sum(places) % every == 0 else (pytest.mark.slow,)
        cases.append(pytest.param(*values, marks=marks, id="-".join(map(_name, values))))
    return pytest.mark.parametrize(",".join(axes), cases)


def _name(value: Any) -> str:
    if isinstance(value, tuple):
        return "-".join(map(_name, value))
    return getattr(value, "__name__", None) or str(value)
