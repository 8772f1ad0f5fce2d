"""Finds the lists of a dataset that its worker processes will copy, and estimates the cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils.data import Dataset

_HEAVY_BYTES = 16 * 2**20
_LOOKED_AT = 1000  # items of each list
_PAGE_BYTES = 4096
_SHARED_BY_MANY = 20  # references
_PARTS = 100  # of a dataset of datasets


def heavy_lists(dataset: Any) -> list[tuple[str, int, int]]:
    """(attribute, items, estimated bytes) of each list, tuple, dict or set of Python objects of 16 MiB or
    more, the largest first.

    Looks at the instance attributes of `dataset` and of the datasets in them (Subset's, ConcatDataset's
    parts), or at `dataset` itself when it is a list. The bytes are those of the objects, not of the list: a
    forked process copies them when it looks at each object. Estimated from a thousand items, in about a
    millisecond; reads nothing else and changes nothing.
    """
    found = (
        (name, len(items), _object_bytes(items)) for name, items in _containers(dataset, "dataset", set())
    )
    return sorted((entry for entry in found if entry[2] >= _HEAVY_BYTES), key=lambda entry: -entry[2])


def memory_advice(dataset: Any) -> list[str]:
    """The line of `explain()` about heavy lists, for loaders that make samples in worker processes; no line
    without heavy lists.
    """
    heavy = heavy_lists(dataset)
    if not heavy:
        return []
    lists = ", ".join(
        f"{name} ({items:,} items, about {size / 1e6:,.0f} MB)" for name, items, size in heavy[:3]
    )
    one = len(heavy) == 1
    return [
        f"memory: python — every worker comes to copy the Python objects in {lists};"
        f" millrace.frozen({heavy[0][0] if one else '...'}) keeps {'them' if one else 'each list'} in memory"
        " that all share"
    ]


def _containers(value: Any, name: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """(dotted name, container) of each container once, also of those in datasets inside datasets."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        yield name, value
        if isinstance(value, (list, tuple)) and len(value) <= _PARTS:
            for i, part in enumerate(value):
                if isinstance(part, Dataset):
                    yield from _containers(part, f"{name}[{i}]", seen)
    elif isinstance(value, Dataset) or name == "dataset":
        for attribute, inside in list(getattr(value, "__dict__", {}).items()):
            yield from _containers(inside, f"{name}.{attribute}", seen)


def _object_bytes(container: Any) -> int:
    """Bytes of all items, estimated from items all over a sequence, or the first ones of other containers."""
    if isinstance(container, dict):
        return _object_bytes(container.keys()) + _object_bytes(container.values())
    if isinstance(container, (list, tuple)):
        looked_at = container[:: max(1, len(container) // _LOOKED_AT)]
    else:
        looked_at = list(islice(container, _LOOKED_AT))
    return sum(map(_bytes_of, looked_at)) * len(container) // max(1, len(looked_at))


def _bytes_of(item: Any, depth: int = 4) -> int:
    """Bytes of an object and of the objects in it, up to a page each: a change of its reference count copies
    one page, however large the object is.

    Objects that many others hold, such as labels and small numbers, weigh nothing: there are few of them.
    """
    if sys.getrefcount(item) > _SHARED_BY_MANY:
        return 0
    total = min(sys.getsizeof(item, 0), _PAGE_BYTES)
    if depth and isinstance(item, (list, tuple, set, frozenset)):
        total += sum(_bytes_of(part, depth - 1) for part in islice(item, _LOOKED_AT))
    elif depth and isinstance(item, dict):
        total += sum(_bytes_of(part, depth - 1) for pair in islice(item.items(), _LOOKED_AT) for part in pair)
    return total
