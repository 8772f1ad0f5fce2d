"""The lines of explain() after those of the plan, and the cost of a sample, measured on some samples."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from ... import _core
from ..._common.lowering.recognising import holder_name
from ..._common.torch_private import _DatasetKind
from ..._pictures.asking import asks, stops_asking
from ..._pictures.counts import PictureCounts
from ..._profiling.stages import FETCH, NAMES, TRANSFORM
from ..arguments import PICTURES
from ..engines.items import ItemSpec
from ..engines.native import ImageSpec
from ..heavy_lists import memory_advice
from .plan import Plan, order_advice, root_of


def lines_behind(loader: Any, plan: Plan, engine: str, samples: int) -> Iterator[str]:
    """`engine`: the name of the one that runs it. `samples`: how many are measured."""
    if engine == "processes":
        yield from memory_advice(loader.dataset)
    if plan.spec is None:
        yield f"pictures: {PICTURES['lazy' if loader.pictures == 'native' else loader.pictures]}"
        if libraries := _array_libraries(root_of(loader.dataset)):
            who = "the library" if loader.pictures == "pillow" else "the engine, where it can"
            yield f"arrays: rows of {' and '.join(libraries)} are read by {who}"
    if isinstance(plan.spec, ItemSpec):
        yield from plan.spec.told
    if plan.known_part is not None:
        yield from plan.known_part.told
    if loader.remote is not None:
        from ..remote import explained

        yield explained(loader, plan.spec or plan.python_spec(engine))
    if order := order_advice(loader):
        yield f"order: {order}"
    if operator.index(samples) > 0:
        try:
            yield from _costs(loader, plan, samples)
        except Exception as error:  # of the dataset, or its steps
            yield f"cost: not measured — {type(error).__name__}: {error}"


def _array_libraries(dataset: Any) -> list[str]:
    """Return the libraries with arrays that the engine reads, if the dataset's methods name them or its
    attributes come from them.
    """
    found = {type(value).__module__.partition(".")[0] for value in getattr(dataset, "__dict__", {}).values()}
    for cls in type(dataset).__mro__:
        for method in vars(cls).values():
            if isinstance(method, FunctionType):
                names = method.__code__.co_names
                found |= {getattr(method.__globals__.get(name), "__name__", name) for name in names}
    return [name for name in ("h5py", "zarr") if name in found]


def _costs(loader: Any, plan: Plan, samples: int) -> list[str]:
    """Return a sample's CPU time by part, made alone, in this thread, without any waiting for files or other
    threads.
    """
    from ..engines.seeding import generators_seeded

    dataset = loader.dataset
    known: Any = plan.known_part
    if loader._dataset_kind != _DatasetKind.Map:
        return ["cost: not measured — samples of a stream come in its own order"]
    if (count := min(operator.index(samples), len(dataset))) == 0:
        return ["cost: not measured — there are no samples"]
    indices = [number * len(dataset) // count for number in range(count)]
    python: dict[str, float]
    with generators_seeded((0, 0), torch_alone=False):
        if isinstance(plan.spec, ImageSpec):
            images, maps = plan.spec.dataset(), plan.spec.index_maps
            native, python = _measured(indices, maps, lambda row: images.row(row, 0, 0), ())
        elif isinstance(plan.spec, ItemSpec):
            native, python = _measured(indices, plan.spec.index_maps, plan.spec.maker(), ())
        elif known is not None:
            native, python = _measured(indices, *known.measured(dataset))
        elif plan.spec is not None:
            return ["cost: not measured — rows are copied, or made in whole batches"]
        else:
            counts = None if loader.pictures == "pillow" else PictureCounts()
            native, python = {}, {"dataset[index]": _asked(dataset, indices, counts)}
    lines = []
    for kind, parts in (("native", native), ("python", python)):
        told = ", ".join(f"{name} {1e6 * seconds / count:,.0f}" for name, seconds in parts.items())
        if told:
            lines.append(f"cost: {kind} — {told} µs of CPU per sample, of {count} made here")
    return lines


def _measured(
    indices: list[int], maps: Any, make: Callable[[int], Any], rest: Any
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of the engine's stages, and of the Python steps after them."""
    native = dict.fromkeys(NAMES[FETCH : TRANSFORM + 1], 0.0)
    python = {holder_name(step): 0.0 for step in rest}
    for index in indices:
        for places in maps:
            index = operator.index(places[index])
        clock = _core.StageClock()
        clock.attach(FETCH)
        try:
            picture = make(index)
        except (_core.CorruptDataError, _core.UnavailableError, OSError):
            picture = None
        finally:
            clock.end()
            clock.detach()
        if (reading := clock.read()) is not None:
            for stage, name in enumerate(native):
                native[name] += reading[4][stage] / 1e9
        if picture is None:  # the dataset handles such files
            continue
        for step in rest:
            began = time.thread_time()
            picture = step(picture)
            python[holder_name(step)] += time.thread_time() - began
    return native, python


def _asked(dataset: Any, indices: list[int], counts: PictureCounts | None) -> float:
    """Return the seconds of all these samples. Pictures wait as in workers; with None they do not wait."""
    getitems = getattr(dataset, "__getitems__", None)
    before = asks(counts)
    try:
        began = time.thread_time()
        for index in indices:
            dataset[index] if getitems is None else getitems([index])
        return time.thread_time() - began
    finally:
        stops_asking(before)
