"""native(): torch's own samplers with this package's iterators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_OURS: dict[type, type] = {}  # who does the work of which exact type


def known(torchs: type | None = None) -> Callable[[type], type]:
    """Decorator: objects of exactly this class, and of the one of torch's whose work it does, are known to
    native().
    """

    def register(ours: type) -> type:
        _OURS[ours] = ours
        if torchs is not None:
            _OURS[torchs] = ours
        return ours

    return register


def native(sampler: Any) -> Any:
    """A sampler of this package that gives what `sampler` gives, with the same draws; iterators over indices
    have take().

    For torch's own objects of exact types (also BatchSampler) it looks at their attributes, now and later; a
    subclass may have another order, so for it, and for anything else, the answer is None. A sampler of this
    package is its own answer.
    """
    ours = _OURS.get(type(sampler))
    if ours is None or ours is type(sampler):
        return None if ours is None else sampler
    view = ours.__new__(ours)
    view.__dict__ = sampler.__dict__
    return view


def inner_sampler(sampler: Any) -> Any:
    """The sampler that a batch sampler makes lists of; any other itself."""
    return getattr(sampler, "sampler", sampler)
