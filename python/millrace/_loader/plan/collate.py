"""collate_fn: exactly torch's default_collate, in the state torch ships it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import collate

from ..._common.lowering.refusal import NotLowered

IMAGE_AND_LABEL = (tuple, torch.Tensor, int)

# What torch ships, in the order in which default_collate looks types up. None: containers, which it walks
# through itself.
_SHIPPED = {
    torch.Tensor: collate.collate_tensor_fn,
    np.ndarray: collate.collate_numpy_array_fn,
    np.generic: collate.collate_numpy_scalar_fn,
    float: collate.collate_float_fn,
    int: collate.collate_int_fn,
    tuple: None,
    dict: None,
}


def recognise_collate(collate_fn: Any, sample_types: Iterable[type] = IMAGE_AND_LABEL) -> str:
    """What replaces `collate_fn` natively; NotLowered for anything but default_collate, unchanged for these
    types.
    """
    if collate_fn is not collate.default_collate:
        name = getattr(collate_fn, "__qualname__", type(collate_fn).__name__)
        raise NotLowered(
            f"{name} is not torch's default_collate; leave collate_fn out, or apply it to the finished batch"
        )
    # default_collate asks this public table at call time, for the sample itself and for its parts.
    for part in sorted(sample_types, key=lambda part: list(_SHIPPED).index(_known_base(part)), reverse=True):
        if _collate_function(part) is not _SHIPPED[_known_base(part)]:
            raise NotLowered(
                f"default_collate_fn_map was changed for {part.__name__}; restore it to collate natively"
            )
    return "default_collate; rows are written straight into the batch"


def _known_base(part: type) -> type:
    return next(known for known in _SHIPPED if issubclass(part, known))


def _collate_function(part: type) -> Any:
    table = collate.default_collate_fn_map
    if part in table:
        return table[part]
    return next((function for key, function in table.items() if issubclass(part, key)), None)
