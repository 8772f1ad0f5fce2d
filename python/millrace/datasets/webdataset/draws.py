"""Random numbers that are functions of a key and a position: nothing of them has to be saved, and any of them
can be had again.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

_WORDS = 1024  # made at a time
_PER_BLOCK = 4  # 64-bit words that one step of Philox's counter gives


class Draws:
    """`word(i)` is random in 0 .. 2^64-1. The key is any tuple of numbers and strings; other keys give other
    numbers.
    """

    def __init__(self, *key: object) -> None:
        self._key = int.from_bytes(blake2b(repr(key).encode(), digest_size=16).digest(), "little")
        self._chunk = -1
        self._words: list[int] = []

    def word(self, position: int) -> int:
        """Cheap for positions that rise."""
        chunk, offset = divmod(position, _WORDS)
        if chunk != self._chunk:
            philox = np.random.Philox(key=self._key, counter=chunk * (_WORDS // _PER_BLOCK))
            self._words, self._chunk = philox.random_raw(_WORDS).tolist(), chunk
        return self._words[offset]

    def below(self, position: int, end: int) -> int:
        """A number in 0 .. end-1."""
        return self.word(position) * end >> 64

    def uniform(self, position: int) -> float:
        """A number in [0, 1)."""
        return (self.word(position) >> 11) * 2.0**-53
