"""Counts of opened pictures by what became of them: the numbers of `stats()["pictures"]`.

A worker process counts for itself, and sends new counts along with its batches. In this process an engine
counts for the thread that works for it.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

_MOST_CALLS = 50  # that are told apart
_OURS = os.path.dirname(__file__) + os.sep
_LIBRARIES = (
    *("PIL", "torchvision", "torchcodec", "imageio", "skimage", "numpy", "timm"),
    *("functools", "contextlib"),
)

NUMBERS = ("opened", "decoded_in_part", "decoded_whole", "skipped", "left_to_pillow")


NONE = dict.fromkeys(NUMBERS, 0)  # and no "calls"


class PictureCounts:
    """`calls`: how many pictures were decoded because of each call of the script."""

    def __init__(self) -> None:
        self.opened = self.decoded_in_part = self.decoded_whole = self.looked_at = self.left_to_pillow = 0
        self.calls: dict[str, int] = {}
        self._notified: dict[str, Any] = {**NONE, "calls": {}}

    def decoded(self, kind: int, first: bool) -> None:
        """Count a decoding. `kind`: _core.last_decode(); `first`: it is the file's first."""
        self.decoded_in_part += kind == 1
        self.decoded_whole += kind == 2
        self.looked_at += first

    def called(self, name: str = "") -> None:
        """Count the script's call that needs pixels now; `name`: the library function that reports it."""
        call = _call_of_the_script(sys._getframe(2), name)
        if call in self.calls or len(self.calls) < _MOST_CALLS:
            self.calls[call] = self.calls.get(call, 0) + 1

    def total(self) -> dict[str, Any]:
        return {
            "opened": self.opened,
            "decoded_in_part": self.decoded_in_part,
            "decoded_whole": self.decoded_whole,
            "skipped": self.opened - self.looked_at,
            "left_to_pillow": self.left_to_pillow,
            "calls": dict(self.calls),
        }

    def news(self) -> dict[str, Any] | None:
        """The counts added since the last call; None if there are none."""
        total, notified = self.total(), self._notified
        if total == notified:
            return None
        self._notified = total
        news: dict[str, Any] = {name: total[name] - notified[name] for name in NUMBERS}
        news["calls"] = {call: n - notified["calls"].get(call, 0) for call, n in total["calls"].items()}
        return news


def add(to: dict[str, Any], news: dict[str, Any]) -> None:
    for name in NUMBERS:
        to[name] += news[name]
    for call, n in news["calls"].items():
        to["calls"][call] = to["calls"].get(call, 0) + n


def _call_of_the_script(frame: FrameType | None, name: str) -> str:
    """As "getpixel() in train.py:31": the function of a library that the script called, and from where."""
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            module = frame.f_globals.get("__name__", "")
            if module.partition(".")[0] not in _LIBRARIES:
                called = f"{name}()" if name and not name.startswith("__") else "its pixels"
                return f"{called} in {os.path.basename(code.co_filename)}:{frame.f_lineno}"
            name = code.co_name
        frame = frame.f_back
    return f"{name}()"
