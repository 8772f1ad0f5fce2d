"""Iterable datasets that keep a loaded state, and would begin every later epoch there.

Hugging Face's streams keep it in `_starting_state_dict`. Another dataset, or a stateful object in one, is
taken to keep it if an attribute that was None holds the whole state after load_state_dict(). Before the next
epoch that attribute is set to None, if it holds the state unchanged, and if the object's own state_dict() has
gone on, or an epoch that began with the state gave nothing. All else stays: a state that does not go on is no
position, and a part of a state (an order, a vocabulary) is for all epochs.

The position is the dataset's, not a loader's. If two loaders read one dataset, the loader that begins an
epoch drops the state that the other one loaded: an iterator of the other loader that has given no sample yet
begins anew.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable
from typing import Any, cast

from torch.utils.data import IterableDataset, get_worker_info

from ..._common.states import KEY, deep_copy, is_stateful, put_back, signed

_MOST = 1000  # objects, and elements of one, that are looked at
_THEIRS = "_starting_state_dict"


class _Place:
    """An attribute that holds a state. Keeps neither alive."""

    def __init__(self, thing: Any, name: str) -> None:
        value = vars(thing)[name]
        self.thing, self.name = weakref.ref(thing), name
        self._id, self._checksum = id(value), _checksum(value)

    def drop(self, empty: bool) -> bool:
        """Set the attribute to None if it holds a position; return whether it did. `empty`: an epoch that
        began there gave nothing.
        """
        try:
            thing = cast(Any, self.thing())
            value = vars(thing)[self.name]
            if id(value) != self._id or _checksum(value) != self._checksum:
                return False
            if not _is_hugging_face(thing):
                now = thing.state_dict()
                if isinstance(value, dict) and now.keys() != value.keys():
                    return False  # the attribute holds a part of the state
                if not empty and _checksum(now) == self._checksum:
                    return False
            setattr(thing, self.name, None)
        except Exception:  # of the user's methods: the attribute stays
            return False
        return True


class _Kept:
    """The places of a dataset that keep its state. `ended`: the state is from an epoch's end, and no epoch
    has begun with it.
    """

    def __init__(self, dataset: Any, places: list[_Place], ended: bool) -> None:
        self.places, self.ended = places, ended
        number, forget = id(dataset), _kept.pop
        self._end = weakref.ref(dataset, lambda _: forget(number, None))

    def drop(self, empty: bool = False) -> bool:
        """Drop the positions; return whether there were any."""
        return any([place.drop(empty) for place in self.places])


_kept: dict[int, _Kept] = {}  # by the dataset's id


def load_dataset_state(dataset: Any, state: Any, ended: bool) -> None:
    """As put_back(); notes where the dataset keeps the state. `ended`: the state is from an epoch's end."""
    if state is None or not is_stateful(dataset) or not isinstance(dataset, IterableDataset):
        put_back(dataset, state)
        return
    before, earlier = _attributes(dataset), _kept.pop(id(dataset), None)
    for place in [] if earlier is None else earlier.places:
        if (thing := place.thing()) is not None:  # where the attribute was None before the first state
            before.append((thing, place.name, vars(thing).get(place.name)))
    loaded = deep_copy(state)
    cast(Any, dataset).load_state_dict(loaded)
    places = []
    for thing, name, then in before:
        with contextlib.suppress(Exception):  # of users' classes: no place then
            value = vars(thing).get(name)
            if value is then or not isinstance(value, (dict, list)):
                continue
            if _is_hugging_face(thing):
                setattr(thing, name, None if ended else _for_workers(value))
                if ended:
                    continue
            elif value is not loaded and (thing is dataset or not isinstance(value, dict)):
                continue
            places.append(_Place(thing, name))
    if places:
        _kept[id(dataset)] = _Kept(dataset, places, ended)


def begin_epoch(dataset: Any, new_fetcher: Callable[[], Any]) -> Any:
    """A fetcher at the beginning of an epoch, over the whole of `dataset`."""
    kept = _kept.get(id(dataset))
    if kept is None:
        return new_fetcher()
    if not kept.ended and kept.drop():
        del _kept[id(dataset)]
        return new_fetcher()
    kept.ended = False
    fetcher = new_fetcher()
    if not is_stateful(fetcher.dataset_iter):
        fetcher.dataset_iter = _UnlessEmpty(fetcher, kept)
    return fetcher


class _UnlessEmpty:
    """Replaces a fetcher's iterator up to the first item. If that iterator gives none because the dataset
    keeps a state, the state is dropped, and a new iterator begins.
    """

    def __init__(self, fetcher: Any, kept: _Kept) -> None:
        self._fetcher, self._iterator, self._kept = fetcher, fetcher.dataset_iter, kept

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        fetcher = self._fetcher
        fetcher.dataset_iter = self._iterator
        try:
            return next(fetcher.dataset_iter)
        except StopIteration:
            if not self._kept.drop(empty=True):
                raise
        fetcher.dataset_iter = iter(fetcher.dataset)
        return next(fetcher.dataset_iter)


def _attributes(dataset: Any) -> list[tuple[Any, str, Any]]:
    """(object, name, value) of each attribute that may hold a state, in the dataset and the stateful objects
    in it.
    """
    found: list[tuple[Any, str, Any]] = []
    seen, todo = {id(dataset)}, [dataset]
    while todo and len(seen) < _MOST:
        thing = todo.pop()
        if _is_hugging_face(thing):
            found.append((thing, _THEIRS, vars(thing).get(_THEIRS)))
            continue
        with contextlib.suppress(Exception):  # of users' classes
            for name, value in list(vars(thing).items()):
                if value is None:
                    found.append((thing, name, None))
                for inner in _elements(value):
                    # no look-up here calls a __getattr__, which may do anything
                    if (
                        id(inner) not in seen
                        and hasattr(type(inner), "load_state_dict")
                        and is_stateful(inner)
                    ):
                        seen.add(id(inner))
                        todo.append(inner)
    return found


def _elements(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values()) if len(value) < _MOST else []
    if isinstance(value, (list, tuple)):
        return list(value) if len(value) < _MOST else []
    return [value]


def _checksum(state: Any) -> str:
    return signed({"": state})[KEY]


def _is_hugging_face(thing: Any) -> bool:
    module = sys.modules.get("datasets.iterable_dataset")
    return module is not None and isinstance(thing, module.IterableDataset)


def _for_workers(state: Any) -> Any:
    """`state`, such that a worker can load it. There, `datasets` (5.2) loads a state into all sources before
    it loads it into the worker's own. It fails if the worker's own are fewer: see _Fewer.
    """
    if get_worker_info() is None:
        return state
    if isinstance(state, dict):
        return {key: _for_workers(value) for key, value in state.items()}
    return _Fewer(map(_for_workers, state)) if isinstance(state, list) else state


class _Fewer(list):
    """A list that gives None past its end, once for each index."""

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, int) and at >= len(self):
            asked = self.__dict__.setdefault("_asked", set())
            if at not in asked:
                asked.add(at)
                return None
        return super().__getitem__(at)

    def __reduce__(self) -> Any:
        return list, (list(self),)
