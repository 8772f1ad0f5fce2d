"""Names that the package, or an older version of it, has under `wds.` or as a method, and that are missing
here; and their replacements.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Replacements of names that webdataset, or an older version of it, has.
_INSTEAD = {
    "MultiShardSample": "Mixture([WebDataset(...), WebDataset(...)], weights=[...])",
    "PytorchShardList": "WebDataset(urls, shardshuffle=True), whose ranks and workers divide the shards",
    "ResizedDataset": ".with_epoch(n) and .with_length(n)",
    "ShardList": "WebDataset(urls)",
}


def lookup(module: str, name: str) -> Any:
    """Looks up `wds.<name>`. Raises AttributeError, with the replacement if one is known."""
    if name == "pytorch_weights_only":  # which may be set here or there
        return importlib.import_module(".autodecode", __package__).pytorch_weights_only
    remedy = (
        f": use {_INSTEAD[name]}"
        if name in _INSTEAD
        else "; its WebDataset, steps and handlers do, and docs/shards.md lists them"
    )
    raise AttributeError(f"module {module!r} has no {name!r}{remedy if not name.startswith('_') else ''}")


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
