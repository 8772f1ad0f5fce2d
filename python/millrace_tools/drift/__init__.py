"""Drift: statistics of the batches that were really handed out, and alarms when they are no longer what they
were.

`watch()` looks at batches while a training loop goes on; `DriftProfile` is what was seen, as a file;
docs/drift.md explains both.
"""

from .alarms import DriftAlarm, DriftError, DriftWarning
from .fields import DriftOptions
from .profile import DriftProfile
from .watch import WatchedLoader, watch

__all__ = [
    "DriftAlarm",
    "DriftError",
    "DriftWarning",
    "DriftOptions",
    "DriftProfile",
    "WatchedLoader",
    "watch",
]
