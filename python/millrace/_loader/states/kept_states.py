"""Iterable datasets that keep a state they were given, and would begin every later epoch there.

Hugging Face's streams do. A dataset keeps it where an attribute that was None holds the very state that was
loaded, unchanged: before the next epoch that is None again, so the epoch is whole. Nothing else of a dataset
is touched: what its own state is, an epoch's number say, goes on.
"""

from __future__ import annotations

import pickle
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

from torch.utils.data import IterableDataset, get_worker_info

from ..._common.states import deep_copy, is_stateful, put_back

_MOST = 1000  # objects, and elements of one, that are looked at


class _Kept:
    """`places`: objects of the dataset, and the names of their attributes that hold a part of a state."""

    def __init__(self, dataset: Any, places: list[tuple[Any, str]], ended: bool) -> None:
        self.dataset = weakref.ref(dataset)
        self.ended = ended  # and the state is of an epoch that ended there
        self._places = [(thing, name, vars(thing)[name], _bytes(vars(thing)[name])) for thing, name in places]

    def drop(self) -> bool:
        """Whether there was something to drop."""
        left = [place for place in self._places if vars(place[0]).get(place[1]) is place[2]]
        left = [place for place in left if place[3] is not None and _bytes(place[2]) == place[3]]
        for thing, name, *_ in left:
            setattr(thing, name, None)
        return bool(left)


_kept: dict[int, _Kept] = {}  # by the dataset's id


def load_dataset_state(dataset: Any, state: Any, ended: bool) -> None:
    """put_back(), which notes where the dataset keeps the state. `ended`: the state is of an epoch's end."""
    if state is None or not is_stateful(dataset) or not isinstance(dataset, IterableDataset):
        put_back(dataset, state)
        return
    empty = _empty_attributes(dataset)
    loaded = deep_copy(state)
    cast(Any, dataset).load_state_dict(loaded)
    parts = set(map(id, _containers(loaded)))
    places = [(thing, name) for thing, name in empty if id(vars(thing).get(name)) in parts]
    _kept.pop(id(dataset), None)
    theirs = [(thing, name) for thing, name in places if _is_hugging_face(thing)]
    for thing, name in theirs:
        setattr(thing, name, None if ended else _for_workers(vars(thing)[name]))
    places = [place for place in places if not (ended and place in theirs)]
    if places:
        number = id(dataset)
        _kept[number] = _Kept(dataset, places, ended)
        weakref.finalize(dataset, _kept.pop, number, None).atexit = False


def begin_epoch(dataset: Any, new_fetcher: Callable[[], Any]) -> Any:
    """A fetcher at the beginning of an epoch, over the whole of `dataset`."""
    kept = _kept.get(id(dataset))
    if kept is None or kept.dataset() is not dataset:
        return new_fetcher()
    if not kept.ended:
        kept.drop()
        del _kept[id(dataset)]
        return new_fetcher()
    kept.ended = False
    fetcher = new_fetcher()
    if not is_stateful(fetcher.dataset_iter):
        fetcher.dataset_iter = _UnlessEmpty(fetcher.dataset, fetcher.dataset_iter, kept)
    return fetcher


class _UnlessEmpty:
    """An iterator over the dataset; where it gives nothing, as a state of an epoch's end is kept, another."""

    def __init__(self, dataset: Any, iterator: Iterator[Any], kept: _Kept) -> None:
        self._dataset, self._iterator, self._kept = dataset, iterator, kept
        self._begun = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._begun:
            return next(self._iterator)
        self._begun = True
        try:
            return next(self._iterator)
        except StopIteration:
            if not self._kept.drop():
                raise
        self._iterator = iter(self._dataset)
        return next(self._iterator)


def _empty_attributes(dataset: Any) -> list[tuple[Any, str]]:
    """Of the dataset, and the stateful objects in it, those that are None."""
    found, seen, todo = [], {id(dataset)}, [dataset]
    while todo and len(seen) < _MOST:
        thing = todo.pop()
        for name, value in list(getattr(thing, "__dict__", {}).items()):
            if value is None:
                found.append((thing, name))
            for inner in _elements(value):
                if id(inner) not in seen and is_stateful(inner):
                    seen.add(id(inner))
                    todo.append(inner)
    return found


def _elements(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values()) if len(value) < _MOST else []
    if isinstance(value, (list, tuple)):
        return list(value) if len(value) < _MOST else []
    return [value]


def _containers(state: Any) -> Iterator[Any]:
    if isinstance(state, (dict, list)):
        yield state
        for inner in _elements(state):
            yield from _containers(inner)


def _bytes(state: Any) -> bytes | None:
    try:
        return pickle.dumps(state, 5)
    except Exception:
        return None


def _is_hugging_face(thing: Any) -> bool:
    module = sys.modules.get("datasets.iterable_dataset")
    return module is not None and isinstance(thing, module.IterableDataset)


def _for_workers(state: Any) -> Any:
    """In a worker, `datasets` (5.2) loads a state into all sources before it loads it into the worker's own.
    It fails where these are fewer: see _Fewer.
    """
    if get_worker_info() is None:
        return state
    if isinstance(state, dict):
        return {key: _for_workers(value) for key, value in state.items()}
    return _Fewer(map(_for_workers, state)) if isinstance(state, list) else state


class _Fewer(list):
    """Has None beyond its end, once at each place."""

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, int) and at >= len(self):
            asked = self.__dict__.setdefault("_asked", set())
            if at not in asked:
                asked.add(at)
                return None
        return super().__getitem__(at)

    def __reduce__(self) -> Any:
        return list, (list(self),)
