"""Methods that are not there, and what to write instead."""

from __future__ import annotations

#: Methods that WebDataset and WebLoader of the package, or of older versions of it, have.
_METHODS = {
    "ddp_equalize": ".with_epoch(n), which gives every rank and worker n",
    "nbatches": ".with_epoch(n)",
    "pipe": ".compose(function)",
    "then": ".compose(function)",
}


def no_method(kind: str, name: str) -> AttributeError:
    """The error of an attribute that `kind` does not have."""
    remedy = f": use {_METHODS[name]}" if name in _METHODS else ""
    return AttributeError(f"{kind!r} object has no attribute {name!r}{remedy}")
