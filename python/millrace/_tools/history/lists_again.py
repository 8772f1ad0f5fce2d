"""The index lists of an epoch of the past, drawn again by a copy of its sampler from a state of that
epoch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ..._common.generators import draw_base_seed, generators_at, unpacked
from ..._common.states import is_stateful
from ..._loader.states.index_cursor import IndexCursor
from ..._loader.states.index_lists import known_sampler, own_generators
from ..._loader.states.saved import CursorStart, SavedState
from ...errors import UnavailableError
from .shadow import copied_order, view


def lists_again(loader: Any, state: dict[str, Any], as_arrays: bool, steps: Any = None) -> Iterator[Any]:
    """All lists of the epoch that `state` is from, its first one first. To be used, and closed, inside
    undisturbed().

    `steps`: what all ranks had agreed on. UnavailableError where the sampler's state leads only forwards.
    """
    saved = SavedState.read(state)
    sampler, changes = copied_order(loader)
    twin = view(loader, **changes)
    saved.set_sampler_epoch(twin)
    start = _rewound(saved.cursor, sampler)
    generators = own_generators(twin)
    if not start.drew_when_made:
        yield from IndexCursor(sampler, None, generators, start, False, as_arrays, steps)
        return
    then = {name: unpacked(start.generators.get(name)) for name in (*generators, "global", "python")}
    for name, generator in generators.items():
        if then[name] is not None:
            generator.set_state(then[name])
    yield from _drawn_when_made(sampler, twin, then)


def _drawn_when_made(sampler: Any, twin: Any, then: dict[str, Any]) -> Iterator[Any]:
    """A sampler of the user's that draws in its __iter__, which comes before the base seed's draw without
    workers, else behind it.
    """
    with generators_at({name: then.get(name) for name in ("global", "python")}):
        if twin.num_workers > 0:
            draw_base_seed(twin.generator)
            yield from sampler
        else:
            lists = iter(sampler)
            draw_base_seed(twin.generator)
            yield from lists


def _rewound(start: CursorStart, sampler: Any) -> CursorStart:
    """The epoch's beginning."""
    if not start.lists and not start.samples:
        return start
    if start.elastic:
        raise UnavailableError(
            "the epoch was begun by other ranks, so the steps before it was resumed cannot be made again; use"
            " a state from before the step"
        )
    known = known_sampler(sampler)
    state: Any | None = start.iterator_state
    if known is not None and isinstance(state, dict):
        inner = state.get("sampler")
        if (inner or state).get("since", 0) > 0:
            raise UnavailableError(
                "the mixture's weights were changed before this state was taken; use a state from before the"
                " step"
            )
        state = {**state, "position": 0}
        if inner is not None:
            state["sampler"] = {**inner, "position": 0}
    elif any(map(is_stateful, (sampler, getattr(sampler, "sampler", None)))) or (
        state,
        start.index_sampler_state,
    ) != (None, None):
        raise UnavailableError(
            f"the state of {type(sampler).__name__} leads only forwards; use a state from before the step"
        )
    return dataclasses.replace(start, lists=0, samples=0, iterator_state=state, pending=[], again=[])
