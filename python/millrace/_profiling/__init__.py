"""The stall profile: every second of an epoch, booked to a stage, for the training loop's thread and for each
worker.

stages.py names the stages; clocks.py keeps one iterator's clocks and knows its epochs; board.py reads
workers' rows; snapshot.py makes the dict of `DataLoader.profile()` of them. docs/profile.md says what each of
its numbers means.
"""

from .board import Row
from .clocks import Profiler, settings_of
from .snapshot import snapshot

__all__ = ["Profile", "Row", "settings_of", "snapshot"]
