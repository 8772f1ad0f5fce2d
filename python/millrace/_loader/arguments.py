"""The arguments of DataLoader: those that torch's has not, checked; worker_init_fn, recognised."""

from __future__ import annotations

import functools
import os
from typing import Any

import torch

from .._common.data_parallel import EQUAL_STEPS
from .._common.lowering.refusal import NotLowered, loaded
from .._tools.history.recorder import BatchHistory

DECODE = ("cpu", "gpu", "auto")  # where pictures are decoded
NATIVE = ("auto", "never", "require")
ON_ERROR = ("raise", "skip", "replace")
WORKER_METHODS = ("auto", "process", "thread")
PICTURES = {  # and what explain() says
    "lazy": "lazy — JPEGs and PNGs that the dataset opens with Pillow are decoded where they are looked at",
    "pillow": "pillow — as the dataset opens them",
}


def checked_arguments(
    native: Any,
    on_error: Any,
    worker_method: Any,
    equal_steps: Any,
    device: Any,
    decode: Any,
    history: Any,
) -> None:
    """ValueError for what DataLoader does not know."""
    _one_of("native", native, NATIVE)
    _one_of("on_error", on_error, ON_ERROR)
    _one_of("worker_method", worker_method, WORKER_METHODS)
    if equal_steps is not None and equal_steps not in EQUAL_STEPS:
        raise ValueError(
            f"equal_steps={equal_steps!r} is unknown; use None or one of {', '.join(map(repr, EQUAL_STEPS))}"
        )
    _one_of("decode", decode, DECODE)
    if not isinstance(history, (bool, BatchHistory)):
        raise ValueError(
            f"history={history!r} is no BatchHistory; use millrace.BatchHistory(...), True or False"
        )
    if decode != "cpu" and (device is None or torch.device(device).type == "cpu"):
        raise ValueError(f'decode="{decode}" makes batches on a GPU: say on which, with device="cuda"')


def checked_pictures(pictures: Any) -> Any:
    """None: what the environment says, else "lazy"."""
    if pictures is None:
        pictures = os.environ.get("MILLRACE_PICTURES", "lazy")
    _one_of("pictures", pictures, tuple(PICTURES))
    return pictures


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r} is unknown; use one of {', '.join(map(repr, known))}")


# They only seed Python's generators, which no native stage reads.
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
