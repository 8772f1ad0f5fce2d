"""Autotune: threads and batches in memory, chosen while training (docs/autotune.md)."""

from .bounds import Bounds, Setting
from .controller import Controller

__all__ = ["Bounds", "Controller", "Setting"]
