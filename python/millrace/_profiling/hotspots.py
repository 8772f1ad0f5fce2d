"""Which stage a stack of Python frames is in, and where: names of libraries, functions and calls, and the
dataset's own transforms.

A stack is ((code object, instruction offset), ...), innermost first. Functions of C have no frame: their
caller's bytecode says which name it is calling. The innermost frame that says something decides, so a picture
that a transform is the first to touch is decoded, not transformed; what nothing is known of is "sample".
"""

from __future__ import annotations

import functools
import os
import sys
from types import CodeType
from typing import Any, NamedTuple

from .calls import called, last_call
from .known_code import COLLATES, LIBRARIES, stage_of_call, stage_of_code
from .transform_code import codes_of_transforms, innermost

Stack = tuple[tuple[CodeType, int], ...]

_MOST_KNOWN = 4096  # stacks that are remembered


class Hotspot(NamedTuple):
    stage: str  # fetch, decode, transform, collate, sample
    where: str  # "module.function (file.py:33)": the innermost line that is nobody's library


class Hotspots:
    """Classifies stacks of one dataset. `ends`: our code that calls the user's, with which stacks end. One
    thread at a time.
    """

    def __init__(self, dataset: Any, ends: frozenset[CodeType]) -> None:
        self._ends = ends
        self._transforms = frozenset(codes_of_transforms(dataset))
        self._tail = last_call(getattr(type(innermost(dataset)), "__getitem__", None))
        self._known: dict[tuple[Stack, bool, bool], Hotspot] = {}

    def of(self, stack: Stack, ran: bool = False, blocked: bool = False) -> Hotspot:
        """`ran`: the thread was running when it was to be looked at, so a read that it has come to since says
        nothing. `blocked`: it had no CPU until it came here.
        """
        key = (stack, ran, blocked)
        hotspot = self._known.get(key)
        if hotspot is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            hotspot = self._known[key] = Hotspot(self._stage(stack, ran, blocked), _where(stack, self._ends))
        return hotspot

    def _stage(self, stack: Stack, ran: bool, blocked: bool) -> str:
        inner = [frame for frame in stack if frame[0] not in self._ends]
        outer = next((frame for frame in stack if frame[0] in self._ends), None)
        if outer is not None and called(*outer)[0] in COLLATES:
            return "collate"
        if not stack:  # the stretch had ended: after the last call of collate_fn
            return "collate"
        if not inner:
            return stage_of_call(self._tail) or "sample"
        entered = called(*inner[0])[1]
        for depth, (code, offset) in enumerate(inner):
            if code in self._transforms:
                # what it calls itself, without a frame, is its own work unless it reads or decodes
                name = "" if depth or entered else called(code, offset)[0]
                return stage_of_call(name, transforms=False) or "transform"
            if depth == 0 and entered:  # at its first instruction: the time before was its caller's
                if blocked:  # who called nothing meanwhile: it iterated over a file, or read mapped memory
                    return "fetch"
                if len(inner) > 1:
                    continue
                return "sample"
            name = called(code, offset)[0] if depth == 0 else ""
            stage = stage_of_call(name) or stage_of_code(code)
            if stage is not None and not (ran and stage == "fetch"):
                return stage
        return "sample"


def _where(stack: Stack, ends: frozenset[CodeType]) -> str:
    users = [frame for frame in stack if frame[0] not in ends]
    if not users:
        return ""
    code, offset = next(
        (frame for frame in users if not frame[0].co_filename.startswith((*LIBRARIES, "<"))), users[0]
    )
    function = getattr(code, "co_qualname", code.co_name)
    line = (
        next((line for start, end, line in code.co_lines() if start <= offset < end), None)
        or code.co_firstlineno
    )
    return f"{module_of(code.co_filename)}.{function} ({os.path.basename(code.co_filename)}:{line})"


@functools.lru_cache(256)
def module_of(file: str) -> str:
    """By its path: to look at every module would, in a forked worker, copy 10 MB of their pages."""
    parts = os.path.splitext(file)[0].removesuffix("/__init__").split("/")
    for first in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[first:])
        if getattr(sys.modules.get(name), "__file__", None) == file:
            return name
    return parts[-1]
