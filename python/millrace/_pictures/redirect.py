"""Functions of other packages that lead to ours, while they stay the objects that they are: names that a
script bound earlier lead there, too, and a pickled function is found again by its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeGuard

REDIRECTED: dict[str, Callable[..., Any]] = {}  # by "module:name"


class Redirection:
    """`wrap(original)` is called in the place of `function`, which gets other code; `original` has its."""

    def __init__(
        self, function: FunctionType, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self._function, self._code = function, function.__code__
        original = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        key = f"{function.__module__}:{function.__name__}"
        REDIRECTED[key] = wrap(original)
        self._ours = function.__code__ = _code_that_calls(key, function)

    @property
    def is_in_place(self) -> bool:
        return self._function.__code__ is self._ours

    def take_back(self) -> None:
        """Unless somebody put other code there since."""
        if self.is_in_place:
            self._function.__code__ = self._code


def can_be_redirected(function: Any) -> TypeGuard[FunctionType]:
    return type(function) is FunctionType and not function.__code__.co_freevars


def _code_that_calls(key: str, function: FunctionType) -> CodeType:
    """With the parameters of `function`, whose defaults stay with it."""
    names = list(inspect.signature(function).parameters)
    lines = (
        f"def {function.__name__}({', '.join(names)}):",
        f"    from {__name__} import REDIRECTED",
        f"    return REDIRECTED[{key!r}]({', '.join(names)})",
    )
    made: dict[str, Any] = {}
    exec(compile("\n".join(lines), __file__, "exec"), made)
    return made[function.__name__].__code__
