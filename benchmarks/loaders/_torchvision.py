"""Imports torchvision, also where its wheel was built for CUDA and torch was not."""

from __future__ import annotations

import sys
from types import ModuleType

_declared = []  # a torch.library.Library takes its operators with it when it dies


def import_torchvision() -> ModuleType:
    """torchvision, ready for its transforms. Raises ImportError when it is not installed."""
    import torch

    try:
        import torchvision
    except (
        RuntimeError
    ):  # "operator torchvision::nms does not exist": its binary half did not load, but transforms are Python
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)
        import torchvision
    return torchvision
