"""Which code is that of a dataset's transforms."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from .known_code import HELD

#: Attributes in which datasets hold other datasets, and transforms other transforms.
_INNER = ("dataset", "datasets", "base", "base_dataset", "source", "data_source", "stages", "_dataset")
_PARTS = ("transforms", "functions", "function", "func", "lambd", "fn", "steps")


def codes_of_transforms(dataset: Any) -> Iterator[CodeType]:
    """Code objects of the transforms that a dataset, or one inside it, holds."""
    seen: set[int] = set()
    datasets = [dataset]
    while datasets and len(seen) < 1000:
        holder = datasets.pop()
        if id(holder) in seen or isinstance(holder, (str, bytes, int, float)):
            continue
        seen.add(id(holder))
        if isinstance(holder, (list, tuple)):
            datasets.extend(holder[:100])
            continue
        held = _attributes(holder)
        for name in HELD:
            yield from _codes(held.get(name), seen)
        if type(holder).__name__ in ("Map", "MapTuple", "MapDict"):  # stages of a WebDataset
            yield from _codes([held.get("function"), held.get("functions")], seen)
        arguments = held.get("_format_kwargs")  # datasets of Hugging Face: set_transform()
        if isinstance(arguments, dict):
            yield from _codes(arguments.get("transform"), seen)
        datasets.extend(held[name] for name in _INNER if name in held)


def innermost(dataset: Any) -> Any:
    """Behind wrappers: Subset and the like."""
    for _ in range(8):
        inner = _attributes(dataset).get("dataset")
        if inner is None:
            break
        dataset = inner
    return dataset


def _attributes(holder: Any) -> dict[str, Any]:
    """Without asking it: __getattr__ of the user's may do anything."""
    try:
        return vars(holder) if hasattr(type(holder), "__dictoffset__") and type(holder).__dictoffset__ else {}
    except Exception:
        return {}


def _codes(transform: Any, seen: set[int]) -> Iterator[CodeType]:
    if transform is None or id(transform) in seen or len(seen) >= 1000:
        return
    seen.add(id(transform))
    if isinstance(transform, (list, tuple)):
        for part in transform[:100]:
            yield from _codes(part, seen)
    elif isinstance(transform, dict):
        yield from _codes(list(transform.values()), seen)
    elif isinstance(transform, MethodType):
        yield from _codes(transform.__func__, seen)
    elif isinstance(transform, FunctionType):
        yield transform.__code__
        for cell in transform.__closure__ or ():
            try:
                inner = cell.cell_contents
            except ValueError:  # empty
                continue
            if isinstance(inner, (FunctionType, MethodType)):
                yield from _codes(inner, seen)
    elif isinstance(transform, functools.partial):
        yield from _codes(transform.func, seen)
    elif not isinstance(transform, type):
        for cls in type(transform).__mro__:
            if cls.__module__.split(".")[0] in ("builtins", "torch", "typing", "abc"):
                continue
            for function in vars(cls).values():
                if isinstance(function, FunctionType):
                    yield function.__code__
        held = _attributes(transform)
        for name in _PARTS:
            yield from _codes(held.get(name), seen)
        yield from _codes(list((held.get("_modules") or {}).values()), seen)
