"""Which stage a stack of Python frames is in, and where: names of libraries, functions and calls, and the
dataset's own transforms.

A stack is ((code object, instruction offset), ...), innermost first. Functions of C have no frame: their
caller's bytecode says which name it is calling. The innermost frame that says something decides, so a picture
that a transform is the first to touch is decoded, not transformed; what nothing is known of is "sample".
"""

from __future__ import annotations

import bisect
import dis
import functools
import os
import sys
from types import CodeType
from typing import Any, NamedTuple

from .known_code import COLLATES, LIBRARIES, codes_of_transforms, innermost, stage_of_call, stage_of_code

_LOADED = frozenset(
    "LOAD_GLOBAL LOAD_NAME LOAD_FAST LOAD_FAST_BORROW LOAD_FAST_CHECK LOAD_DEREF LOAD_CLASSDEREF LOAD_METHOD"
    " LOAD_ATTR LOAD_SUPER_ATTR".split()
)
_ENTRIES = {"RESUME", "RETURN_GENERATOR", "COPY_FREE_VARS", "MAKE_CELL"}


@functools.lru_cache(512)
def instructions(code: CodeType) -> list[dis.Instruction]:
    return list(dis.get_instructions(code))


@functools.lru_cache(8192)
def called(code: CodeType, offset: int) -> tuple[str, bool]:
    """(dotted name of what the instruction calls, or "", whether the function has only been entered)"""
    try:
        listed = instructions(code)
        # it may lie in the call's cache
        number = bisect.bisect_right([instruction.offset for instruction in listed], offset) - 1
        instruction = listed[max(number, 0)]
        if "CALL" not in instruction.opname:
            return "", instruction.opname in _ENTRIES or number <= 0
        return _callee(listed[:number], instruction), False
    except Exception:  # bytecode of another kind: then nothing is known
        return "", False


def _callee(before: list[dis.Instruction], call: dis.Instruction) -> str:
    at = getattr(call, "positions", None)
    names: list[tuple[Any, Any, str]] = []
    if at is not None and at.col_offset is not None:
        end = (at.end_lineno, at.end_col_offset)
        for load in before:
            here = load.positions  # type: ignore[attr-defined]
            if (
                load.opname not in _LOADED
                or here is None
                or (here.lineno, here.col_offset) != (at.lineno, at.col_offset)
            ):
                continue
            if (here.end_lineno, here.end_col_offset) < end:
                names.append((here.end_lineno, here.end_col_offset, str(load.argval)))
        return ".".join(dict.fromkeys(name for *_, name in sorted(names)))
    # 3.10: the function is what was loaded last as a method, or else the last name
    for load in reversed(before):
        if load.opname == "LOAD_METHOD":
            return f"?.{load.argval}"
        if load.opname.startswith("CALL") or load.opname.startswith("STORE"):
            break
    return ""


def last_call(function: Any) -> str:
    """What a function calls last before it returns: where the time has gone that ends after it."""
    code = getattr(function, "__code__", None)
    name = ""
    for instruction in instructions(code) if code is not None else ():
        if instruction.opname.startswith("CALL"):
            name = called(code, instruction.offset)[0] or name
    return name


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
                if blocked:  # the caller called nothing: it iterated over a file, or read mapped memory
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
