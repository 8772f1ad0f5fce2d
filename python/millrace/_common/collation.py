"""torch's default_collate and default_convert in C++, for batches that this process makes; what they do not
know goes to torch's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import _utils, default_collate, default_convert

from .. import _core

_SHIPPED = dict(
    _utils.collate.default_collate_fn_map
)  # in a forked worker: as it was when millrace was imported


def as_shipped() -> bool:
    """Whether nobody has told default_collate of types of their own."""
    return _utils.collate.default_collate_fn_map == _SHIPPED


def _collate(samples: Any) -> Any:
    if as_shipped():
        batch = _core.collate_samples(samples)
        if batch is not NotImplemented:
            return batch
    return default_collate(samples)


_convert = _core.sample_converter(default_convert)


def native_collate(collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What gives the same, if it is default_collate or default_convert; else the function itself."""
    if collate_fn is default_collate:
        return _collate
    return _convert if collate_fn is default_convert else collate_fn
