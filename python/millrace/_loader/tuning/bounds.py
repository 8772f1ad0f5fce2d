"""Setting: what the tuner chooses. Bounds: what it may choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    threads: int
    """How many work at once."""
    slots: int
    """Batches in memory at once, the consumer's included."""


@dataclass(frozen=True)
class Bounds:
    """Inclusive. `rows`: pieces that a batch falls into for threads to share, 1 where each makes whole
    batches.
    """

    threads: int
    slots: int
    least_threads: int = 1
    least_slots: int = 2
    rows: int = 1

    def needed_slots(self, threads: int) -> int:
        """With fewer, some of the threads would have nothing to work on: the consumer holds one batch."""
        return max(self.least_slots, 1 + -(-threads // self.rows))

    def fit(self, setting: Setting) -> Setting:
        """The setting next to this one that is within the bounds. Where both cannot be, fewer threads
        work.
        """
        threads = min(max(setting.threads, self.least_threads), self.threads)
        slots = min(max(setting.slots, self.needed_slots(threads)), max(self.slots, self.least_slots))
        return Setting(
            max(min(threads, (slots - 1) * self.rows), min(self.least_threads, self.threads)), slots
        )
