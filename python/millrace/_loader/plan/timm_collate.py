"""timm's fast_collate, which makes bytes and whole-number labels two tensors: the engine's batch is that."""

from __future__ import annotations

import types
from typing import Any

from ..._common.lowering.recognising import NotLowered, loaded
from .collate import recognise_collate

_MODULE = "timm.data.loader"
# The names in its code, which say which of two generations it is.
_OLDER = frozenset(
    {
        *("isinstance", "tuple", "len", "range", "np", "ndarray", "from_numpy"),
        *("torch", "zeros", "shape", "uint8", "int64", "tensor", "Tensor", "copy_"),
    }
)
_NEWER = (_OLDER - {"int64", "tensor"}) | {"default_collate", "ndim", "long", "repeat"}


def is_fast_collate(loader: Any, dtype: str) -> bool:
    """Whether its collate_fn makes of samples (tensor or array of `dtype`, int) a tuple of what torch's
    default_collate makes.
    """
    collate_fn = loader.collate_fn
    if type(collate_fn) is not types.FunctionType or collate_fn is not loaded(_MODULE, "fast_collate"):
        return False
    names = frozenset(collate_fn.__code__.co_names)
    if collate_fn.__module__ != _MODULE or names not in (_OLDER, _NEWER) or dtype != "uint8":
        return False
    if names == _OLDER:
        return True
    try:
        recognise_collate(loaded(_MODULE, "default_collate"), (int,))  # which it calls for the labels
    except NotLowered:
        return False
    return True
