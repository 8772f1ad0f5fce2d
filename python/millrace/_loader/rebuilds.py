"""Keeps the arguments that torch's class does not have in loaders that frameworks build of torch's arguments.

Lightning, Fabric, Accelerate and Ray read torch's arguments from a loader's attributes and pass them to a new
loader. One of these attributes, `timeout`, is a number that knows the other arguments (arguments.Carrier).
`num_workers` is not, because people copy that from one loader to another, and log it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from .._history.recorder import BatchHistory


def with_ours(carrier: Any, init: Callable[..., None], arguments: Any, options: Any) -> dict[str, Any]:
    """`options` of `init`, and arguments of ours that the loader had from which this one is built."""
    kept = _handed_on(carrier, inspect.signature(init).bind(*arguments, **options).arguments)
    options = kept | options
    if isinstance(kept.get("history"), BatchHistory) and options["history"] is kept["history"]:
        options["history"] = copy.copy(kept["history"])  # which remembers nothing yet
    return options


def what_is_lost(carrier: Any, arguments: Any) -> str | None:
    """In words, where torch's class is built of `arguments`."""
    given = _handed_on(carrier, arguments)
    if not given:
        return None
    names = ", ".join(f"{name}=" for name in given)
    return (
        f"a loader of torch's class was made of a millrace.DataLoader, and {names} have no effect in it:"
        " call millrace.install() first, so that frameworks make ours"
    )


def _handed_on(carrier: Any, arguments: Any) -> dict[str, Any]:
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
    return carrier.ours(old)
