"""What explain() says behind the lines of the plan, and what a sample costs, which it measures on some."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator
from typing import Any

from ... import _core
from ..._common.lowering.recognising import holder_name
from ..._common.torch_private import _DatasetKind
from ..._profiling.stages import FETCH, NAMES, TRANSFORM
from ..arguments import PICTURES
from ..engines.native import ImageSpec
from ..heavy_lists import memory_advice
from .plan import Plan, order_advice


def lines_behind(loader: Any, plan: Plan, engine: str, samples: int) -> Iterator[str]:
    """`engine`: the name of the one that runs it. `samples`: how many are measured."""
    if engine == "processes":
        yield from memory_advice(loader.dataset)
    if plan.spec is None:
        yield f"pictures: {PICTURES[loader.pictures]}"
    if loader.remote is not None:
        from ..remote import explained

        yield explained(loader, plan.spec or plan.python_spec(engine))
    if order := order_advice(loader):
        yield f"order: {order}"
    if samples > 0:
        yield from _costs(loader, plan, samples)


def _costs(loader: Any, plan: Plan, samples: int) -> Iterator[str]:
    """A sample's CPU time by part, made alone, in this thread: whatever waits for files or others is not in
    it.
    """
    from ..engines.prefix import KnownSteps
    from ..engines.seeding import generators_seeded
    from .prefix import KnownPart

    dataset, known = loader.dataset, plan.known_part
    if loader._dataset_kind != _DatasetKind.Map:
        yield "cost: not measured — samples of a stream come in its own order"
        return
    count = min(samples, len(dataset))
    indices = [number * len(dataset) // count for number in range(count)]
    with generators_seeded((0, 0), torch_alone=False):
        if isinstance(plan.spec, ImageSpec):
            images, maps = plan.spec.dataset(), plan.spec.index_maps
            native, python = _measured(indices, maps, lambda row: images.row(row, 0, 0), ())
        elif isinstance(known, KnownPart):
            steps = KnownSteps(known.images(), known.prefix)
            make = lambda row: steps(row, (0, 0, 0), None)  # noqa: E731
            native, python = _measured(indices, known.source.index_maps, make, known.prefix.rest)
        elif plan.spec is not None:
            yield "cost: not measured — rows are copied, or made in whole batches"
            return
        else:
            native, python = {}, {"dataset[index]": _asked(dataset, indices)}
    for kind, parts in (("native", native), ("python", python)):
        if parts:
            told = ", ".join(f"{name} {1e6 * seconds / count:,.0f}" for name, seconds in parts.items())
            yield f"cost: {kind} — {told} µs of CPU per sample, of {count} made here"


def _measured(
    indices: list[int], maps: Any, make: Callable[[int], Any], rest: Any
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of the engine's stages, and of the steps behind it."""
    native = dict.fromkeys(NAMES[FETCH : TRANSFORM + 1], 0.0)
    python = {holder_name(step): 0.0 for step in rest}
    for index in indices:
        for places in maps:
            index = operator.index(places[index])
        clock = _core.StageClock()
        clock.attach(FETCH)
        try:
            picture = make(index)
        except _core.CorruptDataError:
            picture = None
        finally:
            clock.end()
            clock.detach()
        if (reading := clock.read()) is not None:
            for stage, name in enumerate(native):
                native[name] += reading[4][stage] / 1e9
        if picture is None:  # such files are the dataset's affair
            continue
        for step in rest:
            began = time.thread_time()
            picture = step(picture)
            python[holder_name(step)] += time.thread_time() - began
    return native, python


def _asked(dataset: Any, indices: list[int]) -> float:
    """Seconds of all these samples, whose pictures wait as they do in workers."""
    from ..._pictures.asking import asks, stops_asking
    from ..._pictures.counts import PictureCounts

    before = asks(PictureCounts())
    try:
        began = time.thread_time()
        for index in indices:
            dataset[index]
        return time.thread_time() - began
    finally:
        stops_asking(before)
