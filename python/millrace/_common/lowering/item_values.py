"""Values of reading a __getitem__ (read_items.py): what the index decides, as lines of a function of it, and
pictures in files, in memory and in arrays.
"""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch

from .read_values import MadeDict, MadeList, Op, Picture, Stacked, Symbol, require

# They look at their arguments alone, whatever these are.
PURE = (
    (str, int, float, bool, len, tuple, list, abs, min, max, round, sum, os.path.join, os.fspath)
    + (os.path.basename, os.path.dirname, os.path.splitext, Path, torch.tensor, torch.as_tensor)
    + (
        torch.from_numpy,
        torch.zeros,
        torch.nn.functional.one_hot,
        torch.eye,
        torch.LongTensor,
        torch.FloatTensor,
    )
    + (torch.FloatTensor, np.array, np.asarray, np.int64, np.int32, np.float32, np.zeros, np.eye)
)
METHODS = frozenset(
    {"item", "tolist", "strip", "lstrip", "rstrip", "split", "rsplit", "lower", "upper", "replace", "format"}
    | {"zfill", "join", "joinpath", "with_suffix", "with_name", "get", "startswith", "endswith", "astype"}
    | {"decode", "long", "float", "int", "bool", "removesuffix", "removeprefix", "to_numpy", "as_posix"}
    | {"clone", "partition", "rpartition", "index", "numpy", "type", "to", "unsqueeze", "squeeze", "reshape"}
    | {"flatten", "double", "copy", "sum", "argmax"}
)
OWNERS = (list, tuple, dict, str, np.ndarray, torch.Tensor)
_PLAIN = (*OWNERS, int, float, bool, type(None), torch.dtype, type, np.dtype)


class Value(Symbol):
    """What the index decides; `name`: of the variable that has it. `of`: it is a row of this array."""

    def __init__(self, name: str, of: Any = None) -> None:
        self.name, self.of = name, of


class File(Symbol):
    """A file that is open for reading. `place`: what the index decides, of this `kind`: a "path", "bytes", or
    "pixels", an array of a picture.
    """

    def __init__(self, place: Any, kind: str = "path") -> None:
        self.place, self.kind = place, kind


class Content(Symbol):
    """All bytes of such a file, in an object of this kind."""

    def __init__(self, file: File, kind: type) -> None:
        self.file, self.kind = file, kind


class Opened(Picture):
    """A picture as its file has it. `modes`: those of files of which this is so, as `_core.ImageDataset` has
    them; None: what follows decides that.
    """

    def __init__(self, file: File, modes: str | None = None) -> None:
        super().__init__()
        self.file, self.modes = file, modes


class Array(Symbol):
    """A picture as an array of numpy, or a tensor: height, width, channels, or `channels_first`. `bgr`:
    channels in OpenCV's order. `scale`: "bytes", or, in float32, "floats" from 0 to 255 or "unit", to 1.
    """

    def __init__(
        self,
        picture: Picture,
        kind: type,
        channels_first: bool = False,
        bgr: bool = False,
        scale: str = "bytes",
    ) -> None:
        self.picture, self.kind = picture, kind
        self.channels_first, self.bgr, self.scale = channels_first, bgr, scale

    def with_(self, **changes: Any) -> Array:
        return Array(**{**vars(self), **changes})

    def is_plain(self) -> bool:
        """Whether it is what numpy makes of a PIL image."""
        return self.kind is np.ndarray and not self.channels_first and not self.bgr and self.scale == "bytes"

    def given(self) -> Picture:
        """The picture that a transform called with this array gets, or that a batch has."""
        if self.is_plain():
            return self.picture.then(AS_ARRAY)
        require(self.kind is torch.Tensor and self.channels_first and not self.bgr and self.scale != "floats")
        return self.picture.then(TO_BYTES if self.scale == "bytes" else TO_FLOATS)


class Result(Symbol):
    """A dict that a call returns; only its entry `key` is used."""

    def __init__(self, picture: Picture, key: str) -> None:
        self.picture, self.key = picture, key


AS_ARRAY = Op({"op": "as_array"}, "an array")
TO_BYTES = Op({"op": "to_bytes"}, "a tensor of bytes")
TO_FLOATS = Op({"op": "to_floats"}, "floats from 0 to 1")


class Lines:
    """The function of the index, while it is built line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.opened: list[Opened] = []
        self.who: dict[tuple[str, int], set[str]] = {}  # by (file, line): "native" and "python", what runs it
        self.values = self.calls = 0

    def constant(self, value: Any) -> str:
        require(not isinstance(value, Symbol))
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def argument(self, value: Any) -> str:
        """The text of `value` in an expression. NotRead for objects that are not plain: a call that gets them
        may do anything.
        """
        return self._made(value, self.argument) or self.plain(value)

    def result(self, value: Any) -> str:
        """The text of `value` where it is only returned, so it need not be plain."""
        return self._made(value, self.result) or self.constant(value)

    def _made(self, value: Any, part_of: Callable[[Any], str]) -> str:
        """The text of a value that the function makes anew for each sample; "" for other values."""
        if isinstance(value, Value):
            return value.name
        if type(value) is MadeDict:
            parts = ", ".join(f"{key!r}: {part_of(part)}" for key, part in value.items())
            return f"{{{parts}}}"
        if type(value) is MadeList or type(value) is tuple and has_values(value):
            inner = "".join(f"{part_of(part)}, " for part in value)
            return f"({inner})" if type(value) is tuple else f"[{inner}]"
        return ""

    def plain(self, value: Any) -> str:
        require(type(value) in _PLAIN or isinstance(value, (PurePath, np.generic)))
        return self.constant(value)

    def fresh(self) -> Value:
        self.values += 1
        return Value(f"t{self.values}")

    def add(self, expression: str) -> Value:
        value = self.fresh()
        self.lines.append(f" {value.name} = {expression}")
        return value

    def parts(self, value: Value, count: int) -> tuple[Value, ...]:
        parts = tuple(self.fresh() for _ in range(count))
        self.lines.append(f" {''.join(f'{part.name}, ' for part in parts)} = {value.name}")
        return parts

    def function(self, results: list[Any]) -> Callable[[int], tuple[Any, ...]]:
        names = "".join(f"{self.result(value)}, " for value in results)
        space = dict(self.constants)
        exec(_compiled("\n".join(["def values(index):", *self.lines, f" return {names}"])), space)
        return space["values"]


@functools.lru_cache(256)
def _compiled(source: str) -> types.CodeType:
    return compile(source, "<what an index decides>", "exec")


def pictures_in(value: Any) -> list[Picture]:
    """The pictures in lists, tuples and dicts, in stacks, and in arrays and results made of pictures."""
    if isinstance(value, Picture):
        return [value]
    if isinstance(value, Stacked):
        return value.pictures
    if isinstance(value, (Array, Result)):
        return [value.picture]
    parts = value.values() if type(value) is MadeDict else value if type(value) in (tuple, MadeList) else ()
    return [picture for part in parts for picture in pictures_in(part)]


def has_values(value: Any) -> bool:
    parts = value.values() if type(value) is MadeDict else value
    return isinstance(value, Value) or (
        type(value) in (tuple, MadeList, MadeDict) and any(map(has_values, parts))
    )


def is_pandas(value: Any) -> bool:
    """Whether it is a table, a column, or what finds rows of one."""
    kind = type(value)
    of_pandas = kind.__module__.partition(".")[0] == "pandas"
    return of_pandas and kind.__name__.endswith(("DataFrame", "Series", "Indexer"))
