"""Recognisers of collate functions other than plain default_collate.

Plain default_collate needs no Python. For pictures that the engine makes, next() calls any other function,
and a target_transform (engines/python_collate.py): decoding stays native.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..._common.lowering.as_shipped import IMAGE_AND_LABEL, recognise_collate
from ..._common.lowering.recognising import NotLowered, holder_name, loaded
from ..._common.shipped import is_default_collate
from ..engines.python_collate import PythonCollate

if TYPE_CHECKING:
    from ..._common.lowering.views import Views

# The words of docs/native.md for collate functions (scripts/native_table.py).
COLLATE_WORDS = (
    "`default_collate`, those of millrace's data sets, timm's `fast_collate`, and [yours, in Python,"
    " after native decoding](#a-collate_fn-of-your-own)"
)


def recognise_any_collate(
    collate_fn: Any, row_type: type | None, views: Views | None = None, container: type = tuple
) -> tuple[str, PythonCollate | None]:
    """Return (words for explain(), the function to call with the native batch, None for default_collate), or
    raise NotLowered. `row_type`: of pictures; `container`: of samples.
    """
    sample_types = container, np.ndarray if row_type is np.ndarray else torch.Tensor, int
    reason, collate = recognise_batch_function(collate_fn, sample_types)
    if reason:
        return reason, collate
    if not callable(collate_fn):
        return recognise_collate(collate_fn), None  # raises NotLowered
    name = holder_name(collate_fn)
    if row_type is None:
        raise NotLowered(
            f"{name} is Python code, and v1 transforms behind v2's ToImage() make samples of no certain type;"
            " use v2's for all"
        )
    reason = (
        f"native decode, collate_fn in Python: {name} gets samples, rows of the native batch, inside next()"
    )
    return reason, PythonCollate(collate_fn, False, False, False, row_type, views=views)


def recognise_batch_function(
    collate_fn: Any, sample_types: Iterable[type] = IMAGE_AND_LABEL
) -> tuple[str, PythonCollate | None]:
    """As recognise_any_collate(), for default_collate, alone or followed by a function of its batch;
    ("", None) for anything else.
    """
    while type(collate_fn) is functools.partial and not collate_fn.args and not collate_fn.keywords:
        collate_fn = collate_fn.func
    if is_default_collate(collate_fn):
        return recognise_collate(collate_fn, sample_types), None
    from ..._common.lowering.read_collates import read_collate  # only these need the reader of sources

    if (found := read_collate(collate_fn)) is None:
        return "", None
    words, name = recognise_collate(found.default, sample_types), holder_name(collate_fn)
    if found.function is None:
        return f"{name} is {words}", None
    reason = (
        f"native default_collate; {holder_name(found.function)} of {name} in Python, inside next(), but"
        " mixing of pictures (MixUp, CutMix) in the threads"
    )
    return reason, PythonCollate(found.function, True, found.spread, found.as_tuple, torch.Tensor)


def takes_samples(collate_fn: Any) -> bool:
    """Whether `collate_fn` gets the samples themselves, of any sizes, instead of a batch of them."""
    try:
        return callable(collate_fn) and not recognise_batch_function(collate_fn)[0]
    except NotLowered:
        return False


_TIMM = "timm.data.loader"
# The names in fast_collate's code; they tell its two generations apart.
_OLDER = frozenset(
    {
        *("isinstance", "tuple", "len", "range", "np", "ndarray", "from_numpy"),
        *("torch", "zeros", "shape", "uint8", "int64", "tensor", "Tensor", "copy_"),
    }
)
_NEWER = (_OLDER - {"int64", "tensor"}) | {"default_collate", "ndim", "long", "repeat"}


def is_fast_collate(loader: Any, dtype: str) -> bool:
    """Whether the loader's collate_fn is timm's fast_collate, and makes of samples (tensor or array of
    `dtype`, int) a tuple of the fields of torch's default_collate: for uint8, that is the engine's batch.
    """
    collate_fn = loader.collate_fn
    if type(collate_fn) is not types.FunctionType or collate_fn is not loaded(_TIMM, "fast_collate"):
        return False
    names = frozenset(collate_fn.__code__.co_names)
    if collate_fn.__module__ != _TIMM or names not in (_OLDER, _NEWER) or dtype != "uint8":
        return False
    if names == _OLDER:
        return True
    try:
        recognise_collate(loaded(_TIMM, "default_collate"), (int,))  # fast_collate calls it for the labels
    except NotLowered:
        return False
    return True
