"""Rules of transforms with attributes that mean the same as the engine's fields of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _core
from .chain import Chain, Rule, map_interpolation, picture_fill

OPERATIONS = _core.operations()
_TRANSFORMS = OPERATIONS["transforms"]


# By the engine's types.
_PAIR = lambda name, value: None if value is None else (float(value[0]), float(value[1]))  # noqa: E731
_READ: dict[str, Callable[[str, Any], Any]] = {
    "float": lambda name, value: float(value),
    **dict.fromkeys(("range", "optional range", "optional point"), _PAIR),
    "interpolation": map_interpolation,
    "color": picture_fill,
}


def by_fields(op: str, **others: Callable[[Any], Any]) -> Rule:
    """The rule of the engine's `op`. `others`: functions of a transform that give fields it has no attribute
    for; they may raise NotLowered.
    """
    name, fields = _TRANSFORMS[op]["name"], _TRANSFORMS[op]["fields"]

    def lower(chain: Chain, t: Any, family: str) -> None:
        made = {field: make(t) for field, make in others.items()}
        read = {f: _READ[kind](name, getattr(t, f)) for f, kind in fields.items() if f not in made}
        chain.change_picture({"op": op, **read, **made}, name)

    return lower
