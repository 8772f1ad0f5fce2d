"""Autotune: how many threads work and how many batches are in memory, chosen while training
(docs/autotune.md).

`controller` searches and knows nothing of loaders; `tuning` is one loader's; `budget` bounds it; `tune_file`
remembers.
"""

from .budget import Budget
from .controller import Controller
from .tuning import Room, Tuning, tuning_lines, tuning_of
from .windows import Bounds, Setting

__all__ = [
    "Bounds",
    "Budget",
    "Controller",
    "Room",
    "Setting",
    "Tuning",
    "tuning_lines",
    "tuning_of",
]
