"""What the bytecode of a frame says of the call that it is in."""

from __future__ import annotations

import bisect
import dis
import functools
from types import CodeType
from typing import Any

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
