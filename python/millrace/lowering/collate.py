"""collate_fn: exactly torch's default_collate, in the state torch ships it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data._utils import collate

from .refusal import NotLowered


def recognise_collate(collate_fn: Any) -> str:
    """What replaces `collate_fn` natively; NotLowered for anything but the unchanged default_collate."""
    if collate_fn is not collate.default_collate:
        name = getattr(collate_fn, "__qualname__", type(collate_fn).__name__)
        raise NotLowered(f"{name} is not torch's default_collate; leave collate_fn out, or apply it to the finished batch")
    # default_collate asks this public table at call time, for the sample itself (a tuple) and for its parts.
    expected = ((tuple, None), (torch.Tensor, collate.collate_tensor_fn), (int, collate.collate_int_fn))
    for part, function in expected:
        if _collate_function(part) is not function:
            raise NotLowered(f"default_collate_fn_map was changed for {part.__name__}; restore it to collate natively")
    return "default_collate; rows are written straight into the batch"


def _collate_function(part: type) -> Any:
    table = collate.default_collate_fn_map
    if part in table:
        return table[part]
    return next((function for key, function in table.items() if issubclass(part, key)), None)
