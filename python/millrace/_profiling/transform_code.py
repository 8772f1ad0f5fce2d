"""Which code is that of a dataset's transforms."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from .known_code import HELD

#: Attributes in which datasets hold other datasets, and transforms other transforms.
_INNER = ("dataset", "datasets", "base", "base_dataset", "source", "data_source", "stages", "_dataset")
_PARTS = ("transforms", "functions", "function", "func", "lambd", "fn", "steps")


_MOST = 1000  # objects that are looked at
_MOST_PARTS = 100  # of a list


def codes_of_transforms(dataset: Any) -> Iterator[CodeType]:
    """Code objects of the transforms that a dataset, or one inside it, holds."""
    seen: set[int] = set()
    datasets = [dataset]
    while datasets and len(seen) < _MOST:
        holder = datasets.pop()
        if id(holder) in seen or isinstance(holder, (str, bytes, int, float)):
            continue
        seen.add(id(holder))
        if isinstance(holder, (list, tuple)):
            datasets.extend(holder[:_MOST_PARTS])
            continue
        held = _attributes(holder)
        transforms = [held.get(name) for name in HELD]
        if type(holder).__name__ in ("Map", "MapTuple", "MapDict"):  # stages of a WebDataset
            transforms += [held.get("function"), held.get("functions")]
        arguments = held.get("_format_kwargs")  # datasets of Hugging Face: set_transform()
        if isinstance(arguments, dict):
            transforms.append(arguments.get("transform"))
        for transform in transforms:
            yield from _codes(transform, seen)
        datasets.extend(held[name] for name in _INNER if name in held)


def innermost(dataset: Any) -> Any:
    """The dataset inside wrappers: Subset and the like."""
    for _ in range(8):
        dataset = _attributes(dataset).get("dataset", dataset)
    return dataset


def _attributes(holder: Any) -> dict[str, Any]:
    """Without asking it: __getattr__ of the user's may do anything."""
    try:
        return vars(holder) if type(holder).__dictoffset__ else {}
    except Exception:
        return {}


def _codes(transform: Any, seen: set[int]) -> Iterator[CodeType]:
    if transform is None or id(transform) in seen or len(seen) >= _MOST:
        return
    seen.add(id(transform))
    if isinstance(transform, FunctionType):
        yield transform.__code__
    elif not isinstance(transform, (type, MethodType)):
        for cls in type(transform).__mro__:
            if cls.__module__.split(".")[0] not in ("builtins", "functools", "torch", "typing", "abc"):
                functions = (value for value in vars(cls).values() if isinstance(value, FunctionType))
                yield from (function.__code__ for function in functions)
    for part in _parts(transform):
        yield from _codes(part, seen)


def _parts(transform: Any) -> list[Any]:
    """The callables that a transform is made of."""
    if isinstance(transform, (list, tuple)):
        return list(transform[:_MOST_PARTS])
    if isinstance(transform, dict):
        return list(transform.values())
    if isinstance(transform, MethodType):
        return [transform.__func__]
    if isinstance(transform, functools.partial):
        return [transform.func]
    if isinstance(transform, FunctionType):
        filled = [cell.cell_contents for cell in transform.__closure__ or () if cell != CellType()]
        return [value for value in filled if isinstance(value, (FunctionType, MethodType))]
    held = {} if isinstance(transform, type) else _attributes(transform)
    return [held.get(name) for name in _PARTS] + list((held.get("_modules") or {}).values())
