"""What is replaced for a while in classes and modules of other packages, and what was there before."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from .redirect import Redirection

NOTHING = object()  # stood there: a class inherits the attribute, or nobody has it

Wrap = Callable[[Any], Any]


class Replaced:
    """The replacements that one module here makes."""

    def __init__(self) -> None:
        self._places: dict[tuple[Any, str], tuple[Any, Any]] = {}  # what was there, what is there now
        self._redirections: dict[FunctionType, Redirection] = {}

    def put(self, owner: Any, name: str, wrap: Wrap) -> None:
        """`wrap(what is there)` becomes owner.name, unless that is replaced by now; of a class that has no
        such attribute of its own, `wrap(NOTHING)`.
        """
        if (owner, name) in self._places:
            return
        original = owner.__dict__.get(name, NOTHING) if isinstance(owner, type) else getattr(owner, name)
        ours = wrap(original)
        self._places[owner, name] = original, ours
        setattr(owner, name, ours)

    def redirect(self, function: FunctionType, wrap: Wrap) -> None:
        """`wrap(original)` is called in the place of `function`, whatever name somebody has it by."""
        if function not in self._redirections:
            self._redirections[function] = Redirection(function, wrap)

    def original(self, owner: Any, name: str) -> Any:
        """owner.name without what was put there."""
        place = self._places.get((owner, name))
        return getattr(owner, name) if place is None else place[0]

    def put_back(self) -> None:
        """What a script put around a replacement since stays, and calls it. Where nothing stood before, the
        replacement stays: objects that were made meanwhile need it.
        """
        for (owner, name), (original, ours) in list(self._places.items()):
            if original is NOTHING:
                continue
            there = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
            if there is ours:
                setattr(owner, name, original)
            del self._places[owner, name]
        for redirection in self._redirections.values():
            redirection.take_back()
        self._redirections.clear()
