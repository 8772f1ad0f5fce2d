"""Keeps the arguments that torch's class does not have in loaders that frameworks build of torch's arguments.

Lightning, Fabric, Accelerate and Ray read torch's arguments from a loader's attributes and pass them to a new
loader. One of these attributes, `timeout`, is a number that knows the other arguments. `num_workers` is not,
because people copy that from one loader to another, and log it.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch.utils.data

from .._history.recorder import BatchHistory
from .arguments import OURS, advise

_TORCHS_INIT = torch.utils.data.DataLoader.__init__.__code__  # before install()
_Init = TypeVar("_Init", bound=Callable[..., None])


class Carrier:
    """The `timeout` of a loader that was given arguments of ours.

    Its copies and pickles have these, but not the loader's dataset. A `__setstate__` of the loader cannot
    bring them: Accelerate's wrappers would find it in the place of their own.
    """

    loader: Callable[[], Any] = staticmethod(lambda: None)
    dataset: Callable[[], Any]  # a weak reference, if there can be one; not in copies
    collate_fn: Callable[[], Any]  # the same
    num_workers: int
    given: dict[str, Any]  # for frameworks that let go of the old loader before they build the new one

    def __lt__(self, other: float) -> bool:
        """torch's __init__ asks for that: warns if it makes a loader of torch's class instead of ours."""
        caller = sys._getframe(1)
        if caller.f_code is _TORCHS_INIT and not hasattr(caller.f_locals["self"], "_device_argument"):
            _warn_of_the_lost(_handed_on(self, caller.f_locals))
        return self.plain() < other

    def plain(self) -> float:
        return float(self) if isinstance(self, float) else int(cast(int, self))

    def __reduce__(self) -> Any:
        return _copied, (type(self), self.plain(), self.num_workers, self.given)


class _Whole(Carrier, int):
    pass


class _Broken(Carrier, float):
    pass


def _copied(kind: Any, number: float, num_workers: int, given: dict[str, Any]) -> Any:
    made = kind(number)
    made.num_workers, made.given = num_workers, given
    return made


def keeping_ours(init: _Init) -> _Init:
    """`init` of DataLoader; a loader that is built from another one's arguments gets ours of that one, too.
    Arguments that are given explicitly stay.
    """

    @functools.wraps(init)
    def keeping(self: Any, *arguments: Any, **options: Any) -> None:
        carrier = next((v for v in (*arguments, *options.values()) if isinstance(v, Carrier)), None)
        if carrier is not None:
            given = inspect.signature(init).bind(self, *arguments, **options).arguments
            kept = _handed_on(carrier, given)
            options = kept | options
            if isinstance(kept.get("history"), BatchHistory) and options["history"] is kept["history"]:
                options["history"] = copy.copy(kept["history"])  # which remembers nothing yet
        init(self, *arguments, **options)

    return cast(_Init, keeping)


def hand_on(loader: Any) -> None:
    """Makes loader.timeout a Carrier if there is something to carry, else a plain number."""
    timeout, given = loader.timeout, _given(loader)
    if isinstance(timeout, Carrier):
        timeout = timeout.plain()
    if given and isinstance(timeout, (int, float)):
        timeout = (_Broken if isinstance(timeout, float) else _Whole)(timeout)
        timeout.loader, timeout.dataset = weakref.ref(loader), _reference(loader.dataset)
        timeout.collate_fn, timeout.num_workers = _reference(loader.collate_fn), loader.num_workers
        timeout.given = given
    loader.timeout = timeout


def _handed_on(carrier: Carrier, arguments: Any) -> dict[str, Any]:
    """The old loader's arguments of ours, if `arguments` has its num_workers, its collate_fn (a loader's
    attribute is never None), and its dataset, or one of the framework's around that.
    """
    old, dataset, collate_fn = carrier.loader(), arguments["dataset"], arguments.get("collate_fn")
    now = carrier if old is None else old
    if collate_fn is None or arguments.get("num_workers", 0) != now.num_workers:
        return {}
    if "dataset" in vars(carrier):
        whole = carrier.dataset()
        if whole is None or (whole is not dataset and whole is not getattr(dataset, "dataset", None)):
            return {}
        if collate_fn is not (carrier.collate_fn() if old is None else old.collate_fn):
            return {}
    return carrier.given if old is None else _given(old)


def _reference(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


def _given(loader: Any) -> dict[str, Any]:
    found = ((name, getattr(loader, "_device_argument" if name == "device" else name)) for name in OURS)
    return {name: value for name, value in found if value != OURS[name]}


def _warn_of_the_lost(given: dict[str, Any]) -> None:
    if given:
        names = ", ".join(f"{name}=" for name in given)
        advise(
            f"a loader of torch's class was made of a millrace.DataLoader, and {names} have no effect in it:"
            " call millrace.install() first, so that frameworks make ours"
        )
