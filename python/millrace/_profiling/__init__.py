"""The stall profile: every second of an epoch, booked to a stage, for the training loop's thread and for each
worker.

stages.py names the stages, reads what workers have counted, keeps one iterator's clocks and knows its epochs;
stacks.py samples the stacks of Python code, and hotspots.py says what they are in; snapshot.py makes the dict
of `DataLoader.profile()` of all. docs/profile.md says what each of its numbers means.
"""

from .snapshot import snapshot
from .stages import Profiler, settings_of

__all__ = ["Profiler", "settings_of", "snapshot"]
