"""PerProcess: things that threads share, but neither forks nor pickles."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


class PerProcess:
    """A thing that each process makes for itself, at first use, and that pickles leave out.

    Two threads may make it at the same time; then one of the two is dropped, so making it twice has to be
    harmless.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        self._make, self._arguments = make, arguments
        self._held: tuple[int, Any] = (-1, None)

    def __call__(self, *more: Any) -> Any:
        """The object of this process, made if there is none yet. `more`: further arguments for making it."""
        pid, thing = self._held
        if pid != os.getpid():
            thing = self._make(*self._arguments, *more)
            self._held = (os.getpid(), thing)
        return thing

    def __getstate__(self) -> tuple[Any, ...]:
        return self._make, self._arguments

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        (self._make, self._arguments), self._held = state, (-1, None)
