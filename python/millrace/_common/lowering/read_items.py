"""What a dataset's __getitem__ makes of an index, read from its source: where the picture's file is, what is
done to it, and what else is in the sample.

    def __getitem__(self, index):
        path, label = self.samples[index]
        image = Image.open(os.path.join(self.root, path)).convert("RGB")
        if self.transform is not None:                    is read as a path, a chain of steps, and
            image = self.transform(image)                 a pair of the picture and a value
        return image, label

What depends on the index alone becomes a function of it (`Item.values`), made of the same operations in the
same order, which Python runs for each sample: those that change nothing and draw nothing. Steps of the
picture are read as those of a transform (read_source.py). All else, and the dataset stays Python code.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch

from .crops import applied
from .function_source import body_of, plain_attribute
from .picture_calls import METHODS, known_call
from .read_source import MADE, Reader, check_uses, noted, read_call
from .read_values import MadeDict, MadeList, NotRead, Op, Picture, Symbol, require
from .recognising import loaded

_MOST_CALLS = 8  # functions of the dataset's own, one in another
_RGB = Op({"op": "rgb"}, 'convert("RGB")')
# They look at their arguments alone, whatever these are.
_PURE = (
    (str, int, float, bool, len, tuple, list, abs, min, max, round, sum, os.path.join, os.fspath)
    + (os.path.basename, os.path.dirname, os.path.splitext, Path, torch.tensor, torch.as_tensor)
    + (torch.from_numpy, np.array, np.asarray, np.int64, np.float32)
)
_METHODS = frozenset(
    {"item", "tolist", "strip", "split", "rsplit", "lower", "upper", "replace", "format", "zfill", "join"}
    | {"joinpath", "with_suffix", "get", "startswith", "endswith", "astype", "decode", "long", "removesuffix"}
)
_OWNERS = (list, tuple, dict, str, np.ndarray, torch.Tensor)
_PLAIN = (*_OWNERS, int, float, bool, type(None), torch.dtype, type, np.dtype)
_INDEXERS = ("iloc", "loc", "at", "iat", "values")
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


@dataclass(frozen=True)
class Item:
    """`values`: of an index, the path of its file, and then the sample's other values. `steps`: what is done
    to the picture. `form`: lists, tuples and dicts of numbers of values, and None for the picture.
    """

    values: Callable[[int], tuple[Any, ...]]
    steps: tuple[Any, ...]
    form: Any


class Value(Symbol):
    """What the index decides; `name`: of the variable that has it."""

    def __init__(self, name: str) -> None:
        self.name = name


class _File(Symbol):
    """A file that is open for reading."""

    def __init__(self, path: Any) -> None:
        self.path = path


class _Opened(Picture):
    def __init__(self, path: Any) -> None:
        super().__init__()
        self.path = path


class _Lines:
    """The function of the index, as it grows."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.values = self.calls = 0

    def constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def argument(self, value: Any) -> str:
        """What stands for it in an expression; of objects that are not plain, a call may do anything."""
        if isinstance(value, Value):
            return value.name
        if type(value) in (tuple, list, MadeList) and any(map(_has_values, value)):
            inner = "".join(f"{self.argument(part)}, " for part in value)
            return f"({inner})" if type(value) is tuple else f"[{inner}]"
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
        names = "".join(
            f"{value.name if isinstance(value, Value) else self.constant(value)}, " for value in results
        )
        space = dict(self.constants)
        exec(_compiled("\n".join(["def values(index):", *self.lines, f" return {names}"])), space)
        return space["values"]


@functools.lru_cache(256)
def _compiled(source: str) -> types.CodeType:
    return compile(source, "<what an index decides>", "exec")


def read_item(dataset: Any) -> Item:
    """NotRead: __getitem__ is no such function, or does more."""
    function = getattr(type(dataset), "__getitem__", None)
    require(isinstance(function, types.FunctionType) and "__getitem__" not in vars(dataset))
    lines = _Lines()
    try:
        made = _called(function, (dataset, Value("index")), lines)  # type: ignore[arg-type]
    except RecursionError:
        raise NotRead from None
    pictures: list[Picture] = []
    values: list[Any] = []

    def form(value: Any) -> Any:
        if isinstance(value, Picture):
            pictures.append(value)
            return None
        if type(value) in (MadeList, tuple):
            return (list if type(value) is MadeList else tuple)(map(form, value))
        if type(value) is MadeDict:
            return {key: form(part) for key, part in value.items()}
        values.append(value)
        return len(values)

    sample = form(made)
    require(len(pictures) == 1)
    root: Any = pictures[0]
    while root.before is not None:
        root = root.before
    require(isinstance(root, _Opened))
    return Item(lines.function([root.path, *values]), tuple(pictures[0].steps()), sample)


def _called(function: types.FunctionType, arguments: tuple[Any, ...], lines: _Lines) -> Any:
    """What a function of positional arguments returns."""
    code = function.__code__
    lines.calls += 1
    require(lines.calls <= _MOST_CALLS)
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    missing = len(names) - len(arguments)
    require(0 <= missing <= len(defaults))
    given = (*arguments, *defaults[len(defaults) - missing :])
    reader = _ItemReader(function)
    reader.lines = lines
    return reader.run(body_of(function), {**dict(zip(names, given)), MADE: MadeList()})


class _ItemReader(Reader):
    lines: _Lines

    def returned(self, value: Any, names: dict[str, Any]) -> Any:
        check_uses([value] if isinstance(value, Picture) else _pictures(value), names)
        return value

    def run(self, statements: list[ast.stmt], names: dict[str, Any]) -> Any:
        for position, statement in enumerate(statements):
            if isinstance(statement, ast.With):
                before, rest = statements[:position], statements[position + 1 :]
                return super().run([*before, *self._entered(statement), *rest], names)
            if isinstance(statement, (ast.If, ast.For, ast.Return)):
                break
        return super().run(statements, names)

    def _entered(self, statement: ast.With) -> list[ast.stmt]:
        """`with open(...) as file: ...` as its statements: that it is closed changes nothing here."""
        require(len(statement.items) == 1)
        (item,) = statement.items
        require(isinstance(item.optional_vars, ast.Name))
        bound = ast.Assign([item.optional_vars], item.context_expr)  # type: ignore[list-item]
        return [ast.copy_location(bound, statement), *statement.body]

    def _branch(self, statement: ast.If, rest: list[ast.stmt], names: dict[str, Any]) -> Any:
        test = self.value(statement.test, names)
        if callable(test) and not isinstance(test, Symbol):
            kind = type(test)
            require(not hasattr(kind, "__bool__"))
            chosen = not hasattr(kind, "__len__") or len(test) > 0
            return self.run([*(statement.body if chosen else statement.orelse), *rest], names)
        return super()._branch(statement, rest, names)

    def _bind(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, Value):
            value = self.lines.parts(value, len(target.elts))
        super()._bind(target, value, names)

    # ---------------------------------------------------------------- expressions

    def _of_Attribute(self, node: ast.Attribute, names: dict[str, Any]) -> Any:
        owner = self.value(node.value, names)
        if isinstance(owner, Value):
            require(not node.attr.startswith("_"))
            return self.lines.add(f"{owner.name}.{node.attr}")
        require(not isinstance(owner, Symbol))
        if _is_pandas(owner) and node.attr in _INDEXERS:
            return getattr(owner, node.attr)
        return plain_attribute(owner, node.attr)

    def _of_Subscript(self, node: ast.Subscript, names: dict[str, Any]) -> Any:
        owner, key = self.value(node.value, names), self.value(node.slice, names)
        if type(owner) in (MadeDict, MadeList) or not isinstance(owner, Value) and not _has_values(key):
            return super()._of_Subscript(node, names)
        if isinstance(owner, Value):
            return self.lines.add(f"{owner.name}[{self.lines.argument(key)}]")
        require(type(owner) in _OWNERS or _is_pandas(owner))
        return self.lines.add(f"{self.lines.constant(owner)}[{self.lines.argument(key)}]")

    def _of_BinOp(self, node: ast.BinOp, names: dict[str, Any]) -> Any:
        left, right = self.value(node.left, names), self.value(node.right, names)
        plain = (str, int, float, PurePath)
        if isinstance(left, (str, PurePath)) and isinstance(right, (str, PurePath)):
            require(isinstance(node.op, ast.Div if isinstance(left, PurePath) else ast.Add))
            return left / right if isinstance(left, PurePath) else left + right  # type: ignore[operator]
        if _has_values((left, right)) and isinstance(left, (Value, *plain)):
            sign = _OPERATORS.get(type(node.op), "")
            require(sign)
            return self.lines.add(f"{self.lines.argument(left)} {sign} {self.lines.argument(right)}")
        return super()._of_BinOp(node, names)

    def _of_Compare(self, node: ast.Compare, names: dict[str, Any]) -> Any:
        if len(node.ops) == 1 and (sign := _COMPARISONS.get(type(node.ops[0]))) is not None:
            left, right = self.value(node.left, names), self.value(node.comparators[0], names)
            if _has_values((left, right)):
                return self.lines.add(f"{self.lines.argument(left)} {sign} {self.lines.argument(right)}")
        return super()._of_Compare(node, names)

    def _do(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        if not isinstance(statement, ast.Assert):
            return super()._do(statement, names)
        test = self.value(statement.test, names)
        require(isinstance(test, Value))
        self.lines.lines.append(f" assert {test.name}")  # then Python makes the sample, and says it

    def _of_JoinedStr(self, node: ast.JoinedStr, names: dict[str, Any]) -> Any:
        parts: list[str] = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(self.lines.argument(part.value))
                continue
            assert isinstance(part, ast.FormattedValue)
            require(part.conversion == -1 and (part.format_spec is None or _is_text(part.format_spec)))
            text = "" if part.format_spec is None else part.format_spec.values[0].value  # type: ignore
            parts.append(f"format({self.lines.argument(self.value(part.value, names))}, {text!r})")
        return self.lines.add(f"''.join([{', '.join(parts)}])")

    def _of_Call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        require(not any(isinstance(part, ast.Starred) for part in node.args))
        require(all(keyword.arg is not None for keyword in node.keywords))
        arguments = [self.value(part, names) for part in node.args]
        keywords = {str(part.arg): self.value(part.value, names) for part in node.keywords}
        if isinstance(node.func, ast.Attribute):
            owner, name = self.value(node.func.value, names), node.func.attr
            if isinstance(owner, Picture):
                return self._known(METHODS.get(name), [owner, *arguments], keywords, names)
            if isinstance(owner, Value) or type(owner) is str or isinstance(owner, PurePath):
                require(name in _METHODS)
                return self._line(f"{self.lines.argument(owner)}.{name}", arguments, keywords)
        function = self.value(node.func, names)
        require(callable(function) and not isinstance(function, Symbol))
        if any(isinstance(part, Picture) for part in arguments):
            if (known := known_call(function)) is not None:
                return self._known(known, arguments, keywords, names)
            require(len(arguments) == 1 and not keywords)
            return noted(applied(function, arguments[0], read_call), names)
        if function is torch.is_tensor:  # the index is a number
            require(len(arguments) == 1 and isinstance(arguments[0], Value) and arguments[0].name == "index")
            return False
        if (opened := self._opened(function, arguments, keywords)) is not None:
            return opened
        if any(function is one for one in _PURE):
            if function is len and arguments == [names.get("self")]:
                return self.lines.add(f"len({self.lines.constant(arguments[0])})")
            return self._line(self.lines.constant(function), arguments, keywords)
        if isinstance(function, types.MethodType):
            arguments, function = [function.__self__, *arguments], function.__func__
        require(isinstance(function, types.FunctionType) and not keywords)
        return _called(function, tuple(arguments), self.lines)

    def _line(self, function: str, arguments: list[Any], keywords: dict[str, Any]) -> Value:
        parts = list(map(self.lines.argument, arguments))
        parts += [f"{key}={self.lines.argument(value)}" for key, value in keywords.items()]
        return self.lines.add(f"{function}({', '.join(parts)})")

    def _opened(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Symbol | None:
        """A picture, or a file, where that is what `function` opens."""
        if function is builtins.open:
            require(len(arguments) == 2 and arguments[1] == "rb" and not keywords)
            return _File(arguments[0])
        for module, name, steps in _OPENERS:
            if function is not None and function is loaded(module, name):
                require(len(arguments) == 1 and not keywords)
                (path,) = arguments
                picture: Picture = _Opened(path.path if isinstance(path, _File) else path)
                require(isinstance(path, (Value, _File)))
                for step in steps:
                    picture = picture.then(step)
                return picture
        return None


_FOLDER = "torchvision.datasets.folder"
_OPENERS: tuple[tuple[str, str, tuple[Op, ...]], ...] = (
    ("PIL.Image", "open", ()),
    (_FOLDER, "default_loader", (_RGB,)),
    (_FOLDER, "pil_loader", (_RGB,)),
)


def _pictures(value: Any) -> list[Picture]:
    if isinstance(value, Picture):
        return [value]
    parts = value.values() if type(value) is MadeDict else value if type(value) in (tuple, MadeList) else ()
    return [picture for part in parts for picture in _pictures(part)]


def _has_values(value: Any) -> bool:
    return isinstance(value, Value) or (type(value) in (tuple, MadeList) and any(map(_has_values, value)))


def _is_text(spec: ast.expr) -> bool:
    return (
        isinstance(spec, ast.JoinedStr) and len(spec.values) == 1 and isinstance(spec.values[0], ast.Constant)
    )


def _is_pandas(value: Any) -> bool:
    """Whether it is a table, a column, or what finds rows of one."""
    kind = type(value)
    of_pandas = kind.__module__.partition(".")[0] == "pandas"
    return of_pandas and kind.__name__.endswith(("DataFrame", "Series", "Indexer"))
