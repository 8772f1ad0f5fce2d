"""Methods that are not there, and what to write instead."""

from __future__ import annotations

#: Methods that WebDataset and WebLoader of the package, or of older versions of it, have.
_METHODS = {
    "append": ".compose(step), whose result has the step",
    "ddp_equalize": ".with_epoch(n), which gives every rank and worker n",
    "iterator": "iter(dataset)",
    "invoke": "iter(dataset)",
    "lmdb_cached": "WebDataset(..., cache_dir=...), which keeps shards on disk",
    "mcached": "indexed(), or nothing: the operating system keeps local shards in memory",
    "nbatches": ".with_epoch(n)",
    "pipe": ".compose(function)",
    "pipeline": ".stages, the steps behind the shards",
    "stage": ".stages, the steps behind the shards",
    "then": ".compose(function)",
}


def no_method(kind: str, name: str) -> AttributeError:
    """The error of an attribute that `kind` does not have."""
    remedy = f": use {_METHODS[name]}" if name in _METHODS else ""
    return AttributeError(f"{kind!r} object has no attribute {name!r}{remedy}")
