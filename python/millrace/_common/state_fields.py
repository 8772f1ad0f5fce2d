"""The parts of a state that was loaded, taken out one by one: each is there and of its type, or StateError
says which is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import StateError

REMEDY = "the state is damaged or not complete; load another one, or begin anew with load_state_dict({})"
_NOTHING = object()


class Fields:
    """The entries of a dict in a state. `name`: where it is, "" for the state itself. A `default` is for what
    may be missing.
    """

    def __init__(self, values: Any, name: str = "") -> None:
        if not isinstance(values, Mapping):
            raise _wrong(name or "the state", values, "a dict")
        self._values, self._name = values, name

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def any(self, key: str, default: Any = _NOTHING) -> Any:
        if key not in self._values:
            if default is _NOTHING:
                raise StateError(
                    f"the state has no {self._at(key)}, only {sorted(map(str, self._values))}: {REMEDY}"
                )
            return default
        return self._values[key]

    def number(self, key: str, default: Any = _NOTHING, least: int = 0, optional: bool = False) -> Any:
        """A whole number from `least` on; `optional`: or None."""
        value = self.any(key, default)
        if value is default or (optional and value is None):
            return value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise _wrong(self._at(key), value, f"a whole number of {least} or more")
        return value

    def flag(self, key: str, default: Any = _NOTHING) -> bool:
        return self._typed(key, default, bool, "True or False")

    def text(self, key: str) -> Any:
        """Or None."""
        return self._typed(key, None, (str, type(None)), "text")

    def entries(self, key: str, default: Any = _NOTHING) -> list[Any]:
        return list(self._typed(key, default, (list, tuple), "a list"))

    def dict(self, key: str, default: Any = _NOTHING, optional: bool = False) -> Any:
        """A dict, as it is; `optional`: or None."""
        value = self.any(key, default)
        return None if optional and value is None else self._typed(key, default, Mapping, "a dict")

    def part(self, key: str, default: Any = _NOTHING) -> Fields:
        return Fields(self.dict(key, default), self._at(key))

    def _typed(self, key: str, default: Any, kind: Any, what: str) -> Any:
        value = self.any(key, default)
        if not isinstance(value, kind):
            raise _wrong(self._at(key), value, what)
        return value

    def _at(self, key: str) -> str:
        return f"{self._name}[{key!r}]"


def _wrong(at: str, value: Any, what: str) -> StateError:
    text = repr(value)
    return StateError(
        f"{at} should be {what}, but is {text if len(text) <= 60 else text[:57] + '...'}: {REMEDY}"
    )
