"""The arguments of DataLoader that torch's has not, checked."""

from __future__ import annotations

import os
from typing import Any

import torch

from .._common.data_parallel import EQUAL_STEPS
from .._tools.history.recorder import BatchHistory
from .plan.decoding import DECODE

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
