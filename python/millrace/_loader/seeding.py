"""worker_init_fn: the ones that only seed Python's generators, which no native stage reads."""

from __future__ import annotations

import functools
from typing import Any

from .._common.lowering.refusal import NotLowered, loaded

_SEEDING_FUNCTIONS = (
    ("transformers.trainer_utils", "seed_worker"),
    ("timm.data.loader", "_worker_init"),
    ("lightning.fabric.utilities.seed", "pl_worker_init_function"),
    ("lightning_fabric.utilities.seed", "pl_worker_init_function"),
    ("pytorch_lightning.utilities.seed", "pl_worker_init_function"),
)


def recognise_worker_init(worker_init_fn: Any, num_workers: int) -> str:
    """Why `worker_init_fn` need not run; NotLowered when it must."""
    if worker_init_fn is None:
        return "none given"
    if num_workers == 0:
        return "never called with num_workers=0"
    function = worker_init_fn
    while isinstance(function, functools.partial):
        function = function.func
    for module, name in _SEEDING_FUNCTIONS:
        if function is not None and function is loaded(module, name):
            return f"{module}.{name} only seeds Python's generators; native stages do not use them"
    name = getattr(function, "__qualname__", type(function).__name__)
    raise NotLowered(
        f"{name} may do anything to a worker process, and there is none; drop it if it only seeds: native"
        " randomness follows loader.seed"
    )
