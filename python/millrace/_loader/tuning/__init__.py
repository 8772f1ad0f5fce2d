"""Autotune: how many threads work and how many batches are in memory, chosen while training
(docs/autotune.md).

`controller` searches and knows nothing of loaders; `tuning` is one loader's; `loaders` says what of a loader
can be tuned; `budget` bounds it; `tune_file` remembers.
"""

from .bounds import Bounds, Setting
from .budget import Budget, checked_memory
from .controller import Controller
from .loaders import tuning_lines, tuning_of
from .numbers import Auto, resolved_prefetch, resolved_workers
from .tuning import Room, Tuning

__all__ = [
    "Auto",
    "Bounds",
    "Budget",
    "Controller",
    "Room",
    "Setting",
    "Tuning",
    "checked_memory",
    "resolved_prefetch",
    "resolved_workers",
    "tuning_lines",
    "tuning_of",
]
