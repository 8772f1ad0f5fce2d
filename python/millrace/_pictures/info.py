"""A picture's `info`, if the engine has made its pixels: Pillow's knowledge of the file, read at first
use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def info_of(image: Any) -> dict[Any, Any]:
    """The `info` of image.convert("RGB"), as it was opened. In formats other than JPEG, decoding adds or
    removes entries.
    """
    return image.info if image.format == "JPEG" else image.convert("RGB").info


class LazyInfo(dict):
    """A picture's `info`, read from its file at first use, because few scripts use it. `read` raises
    nothing.
    """

    def __init__(self, read: Callable[[], dict[Any, Any]]) -> None:
        super().__init__()
        self._read: Callable[[], dict[Any, Any]] | None = read

    def _known(self) -> LazyInfo:
        if self._read is not None:
            read, self._read = self._read, None
            super().update(read())
        return self

    def copy(self) -> dict[Any, Any]:
        return dict(self) if self._read is None else LazyInfo(self._read)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def __copy__(self) -> dict[Any, Any]:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> dict[Any, Any]:
        return self.copy()


def _asks_first(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    def asked(self: LazyInfo, *args: Any, **kwargs: Any) -> Any:
        return method(self._known(), *args, **kwargs)

    asked.__name__ = name
    return asked


for _name in (
    *("__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__", "__len__", "__eq__", "__ne__"),
    *("__repr__", "__or__", "__ror__", "__ior__", "__reversed__"),
    *("get", "keys", "values", "items", "pop", "popitem", "setdefault", "update", "clear"),
):
    setattr(LazyInfo, _name, _asks_first(_name))
