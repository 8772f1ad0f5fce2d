"""The contexts of torch that the consumer is in at a moment: inference mode, autocast, a default device.

Batches that are made ahead belong to none of them, because the consumer may take them outside.

torch's loader makes them in worker processes, which have contexts of their own, and hands them over in the
consumer's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from .batch_tree import rebuilt
from .torch_private import _is_any_autocast_enabled, _len_torch_function_stack

in_inference_mode = torch.is_inference_mode_enabled


def bare(call: Callable[..., Any], *arguments: Any) -> Any:
    """`call(*arguments)` in none of these contexts, as in a new thread.."""
    with contextlib.ExitStack() as contexts:
        contexts.enter_context(torch.inference_mode(False))
        if _len_torch_function_stack():
            contexts.enter_context(torch.device("cpu"))
        if _is_any_autocast_enabled():
            for kind in {"cpu", getattr(torch.accelerator.current_accelerator(), "type", "cpu")}:
                contexts.enter_context(torch.autocast(kind, enabled=False))
        return call(*arguments)


def ordinary(call: Callable[..., Any], *arguments: Any) -> Any:
    """`call(*arguments)` outside of inference mode, and without gradients where that was on: for code of the
    user's that runs ahead in the consumer's thread, and should find all else there.
    """
    if not in_inference_mode():
        return call(*arguments)
    with torch.inference_mode(False), torch.no_grad():
        return call(*arguments)


def as_taken(batch: Any, inference: bool) -> Any:
    """The batch over the same memory, with its plain tensors in inference mode or out of it.

    One tensor at two places stays one. Containers of a class that only its own __init__ can make stay as they
    are.
    """
    made: dict[int, Any] = {}

    def taken(leaf: Any) -> Any:
        if not _core.is_plain_tensor(leaf) or leaf.is_inference() == inference:
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = torch.empty(0, dtype=leaf.dtype, device=leaf.device).set_(leaf)
        return made[id(leaf)]

    with torch.inference_mode(inference):
        return rebuilt(batch, taken, known=True)
