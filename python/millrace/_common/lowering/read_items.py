"""Reads from the source of a dataset's __getitem__ what it makes of an index: the place of the picture's
file, the steps done to the picture, and the sample's other values.

    def __getitem__(self, index):
        path, label = self.samples[index]
        image = Image.open(os.path.join(self.root, path)).convert("RGB")
        if self.transform is not None:                    is read as a path, a chain of steps, and
            image = self.transform(image)                 a pair of the picture and a value
        return image, label

Values that depend on the index alone become a function of the index (`Item.values`), which Python runs for
each sample. It has the same operations in the same order; only operations that change nothing and draw
nothing are accepted. Steps of the picture are read like those of a transform (read_source.py). With anything
else in its source, the dataset stays Python code.
"""

from __future__ import annotations

import abc
import ast
import enum
import types
from pathlib import PurePath
from typing import Any

import torch
from torch.utils.data import Dataset, Subset

from .as_shipped import family_of
from .crops import applied, made_object, stacked
from .function_source import body_of, plain_attribute, plain_variable
from .item_parts import Item, Sample, root_of
from .item_pictures import divided, method, opened
from .item_statements import import_names, is_text, makes_rgb, only_closes
from .item_values import (
    METHODS,
    OWNERS,
    PURE,
    Array,
    Content,
    File,
    Lines,
    Opened,
    Result,
    Value,
    has_values,
    is_pandas,
    pictures_in,
)
from .picture_calls import METHODS as PICTURE_METHODS
from .picture_calls import known_call
from .python_steps import computed, in_python, method_called
from .read_source import MADE, Reader, check_uses, noted, read_call
from .read_values import Called, MadeDict, MadeList, NotRead, Picture, Stacked, Symbol, require
from .recognising import V1, loaded

_MOST_CALLS = 64  # of functions of the dataset's own, loops unrolled
_INDEXERS = ("iloc", "loc", "at", "iat", "values")
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def read_item(dataset: Any) -> Item:
    """NotRead: __getitem__ is no such function, or does more."""
    function = getattr(type(dataset), "__getitem__", None)
    require(isinstance(function, types.FunctionType) and "__getitem__" not in vars(dataset))
    lines = Lines()
    try:
        made = _called(function, [dataset, Value("index")], {}, lines)  # type: ignore[arg-type]
    except RecursionError:
        raise NotRead from None
    return Sample(lines, made).item()


def _called(
    function: types.FunctionType, arguments: list[Any], keywords: dict[str, Any], lines: Lines
) -> Any:
    """What a function returns."""
    code = function.__code__
    lines.calls += 1
    require(lines.calls <= _MOST_CALLS)
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults))
    require(len(arguments) <= len(names) and set(keywords) <= set(names[len(arguments) :]))
    given |= {**dict(zip(names, arguments)), **keywords}
    require(len(given) == len(names))
    reader = _ItemReader(function)
    reader.lines = lines
    return reader.run(body_of(function), {**given, MADE: MadeList()})


class _ItemReader(Reader):
    lines: Lines

    def returned(self, value: Any, names: dict[str, Any]) -> Any:
        check_uses(pictures_in(value), names)
        return value

    def run(self, statements: list[ast.stmt], names: dict[str, Any]) -> Any:
        for position, statement in enumerate(statements):
            if isinstance(statement, (ast.With, ast.Try)):
                before, rest = statements[:position], statements[position + 1 :]
                return self.run([*before, *self._entered(statement), *rest], names)
            if isinstance(statement, (ast.If, ast.For, ast.Return)):
                break
        return super().run(statements, names)

    def _entered(self, statement: ast.With | ast.Try) -> list[ast.stmt]:
        """`with open(...) as file: ...` as its statements: that it is closed changes nothing here. And `try`:
        where anything raises, nothing of this is used, but the dataset itself is asked.
        """
        if isinstance(statement, ast.Try):
            require(not statement.finalbody)
            return [*statement.body, *statement.orelse]
        require(len(statement.items) == 1)
        (item,) = statement.items
        require(isinstance(item.optional_vars, ast.Name))
        bound = ast.Assign([item.optional_vars], item.context_expr)  # type: ignore[list-item]
        return [ast.copy_location(bound, statement), *statement.body]

    def _branch(self, statement: ast.If, rest: list[ast.stmt], names: dict[str, Any]) -> Any:
        chosen = makes_rgb(statement) or self._chosen(self.value(statement.test, names))
        if chosen is None:
            return super()._branch(statement, rest, names)
        return self.run([*(statement.body if chosen else statement.orelse), *rest], names)

    def _chosen(self, test: Any) -> bool | None:
        """Of callables, as `if self.transform:` asks; None: it is none."""
        if not callable(test) or isinstance(test, Symbol):
            return None
        kind = type(test)
        require(not hasattr(kind, "__bool__"))
        return not hasattr(kind, "__len__") or len(test) > 0

    def _of_IfExp(self, node: ast.IfExp, names: dict[str, Any]) -> Any:
        chosen = self._chosen(self.value(node.test, names))
        if chosen is None:
            return super()._of_IfExp(node, names)
        return self.value(node.body if chosen else node.orelse, names)

    def _bind(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, Value):
            require(not any(isinstance(part, ast.Starred) for part in target.elts))
            value = self.lines.parts(value, len(target.elts))
        super()._bind(target, value, names)

    # ---------------------------------------------------------------- expressions

    def value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        before = len(self.lines.lines)
        value = super().value(node, names)
        who = set() if len(self.lines.lines) == before else {"python"}
        place = self.function.__code__.co_filename, node.lineno
        if isinstance(node, (ast.Call, ast.BinOp)) and isinstance(value, (Picture, Array, Stacked, Result)):
            who.add("native")
            for picture in pictures_in(value):
                picture.place = picture.place or place
        self.lines.who.setdefault(place, set()).update(who)
        return value

    def _of_Attribute(self, node: ast.Attribute, names: dict[str, Any]) -> Any:
        owner = self.value(node.value, names)
        if isinstance(owner, Value):
            require(not node.attr.startswith("_"))
            return self.lines.add(f"{owner.name}.{node.attr}")
        require(not isinstance(owner, Symbol))
        if is_pandas(owner) and node.attr in _INDEXERS:
            return getattr(owner, node.attr)
        if isinstance(owner, enum.EnumMeta):
            require(node.attr in owner.__members__)
            return owner.__members__[node.attr]
        return plain_attribute(owner, node.attr)

    def _of_Subscript(self, node: ast.Subscript, names: dict[str, Any]) -> Any:
        owner, key = self.value(node.value, names), self.value(node.slice, names)
        if is_pandas(owner) and type(key) is str:
            return owner[key]
        if isinstance(owner, Result):
            require(key == owner.key)
            return owner.picture
        if type(owner) in (MadeDict, MadeList) or not isinstance(owner, Value) and not has_values(key):
            return super()._of_Subscript(node, names)
        if isinstance(owner, Value):
            return self.lines.add(f"{owner.name}[{self.lines.argument(key)}]")
        if isinstance(owner, Dataset):
            return self._of_dataset(owner, key, names)
        require(type(owner) in OWNERS or is_pandas(owner))
        row = self.lines.add(f"{self.lines.constant(owner)}[{self.lines.argument(key)}]")
        return Value(row.name, owner) if isinstance(key, Value) else row

    def _of_dataset(self, dataset: Any, key: Any, names: dict[str, Any]) -> Any:
        """dataset[key]"""
        while type(dataset) is Subset:
            require(type(dataset.indices) in OWNERS or type(dataset.indices) is range)
            key = self.lines.add(f"{self.lines.constant(dataset.indices)}[{self.lines.argument(key)}]")
            dataset = dataset.dataset
        function = getattr(type(dataset), "__getitem__", None)
        require("__getitem__" not in vars(dataset))
        return self._of_own(function, [dataset, key], {}, names)

    def _of_BinOp(self, node: ast.BinOp, names: dict[str, Any]) -> Any:
        left, right = self.value(node.left, names), self.value(node.right, names)
        if isinstance(left, Picture) or isinstance(right, Picture):
            return computed(node, left, right, names)
        if isinstance(left, Array):
            require(isinstance(node.op, ast.Div))
            return divided(left, right)
        if type(left) is tuple and type(right) is tuple and isinstance(node.op, ast.Add):
            return left + right
        plain = (str, int, float, PurePath)
        if isinstance(left, (str, PurePath)) and isinstance(right, (str, PurePath)):
            require(isinstance(node.op, ast.Div if isinstance(left, PurePath) else ast.Add))
            return left / right if isinstance(left, PurePath) else left + right  # type: ignore[operator]
        if has_values((left, right)) and isinstance(left, (Value, *plain)):
            sign = _OPERATORS.get(type(node.op), "")
            require(sign)
            return self.lines.add(f"{self.lines.argument(left)} {sign} {self.lines.argument(right)}")
        return super()._of_BinOp(node, names)

    def _of_UnaryOp(self, node: ast.UnaryOp, names: dict[str, Any]) -> Any:
        value = self.value(node.operand, names)
        if not isinstance(value, Value):
            return super()._of_UnaryOp(node, names)
        require(isinstance(node.op, (ast.USub, ast.Not)))
        return self.lines.add(f"{'-' if isinstance(node.op, ast.USub) else 'not '}{value.name}")

    def _of_Compare(self, node: ast.Compare, names: dict[str, Any]) -> Any:
        if len(node.ops) == 1 and (sign := _COMPARISONS.get(type(node.ops[0]))) is not None:
            left, right = self.value(node.left, names), self.value(node.comparators[0], names)
            if has_values((left, right)):
                return self.lines.add(f"{self.lines.argument(left)} {sign} {self.lines.argument(right)}")
        return super()._of_Compare(node, names)

    def _do(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        if only_closes(statement):
            require(isinstance(self.value(statement.value.func.value, names), (Picture, File)))  # type: ignore
            return
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            return import_names(statement, names)
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
            require(part.conversion == -1 and (part.format_spec is None or is_text(part.format_spec)))
            text = "" if part.format_spec is None else part.format_spec.values[0].value  # type: ignore
            parts.append(f"format({self.lines.argument(self.value(part.value, names))}, {text!r})")
        return self.lines.add(f"''.join([{', '.join(parts)}])")

    # ---------------------------------------------------------------- calls

    def _of_Call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        require(not any(isinstance(part, ast.Starred) for part in node.args))
        require(all(keyword.arg is not None for keyword in node.keywords))
        if (inherited := self._inherited(node, names)) is not None:
            return inherited
        arguments = [self.value(part, names) for part in node.args]
        keywords = {str(part.arg): self.value(part.value, names) for part in node.keywords}
        if isinstance(node.func, ast.Attribute):
            owner, name = self.value(node.func.value, names), node.func.attr
            if isinstance(owner, Picture):
                try:
                    if name in PICTURE_METHODS and name != "convert":
                        return self._known(PICTURE_METHODS[name], [owner, *arguments], keywords, names)
                    return noted(method(owner, name, arguments, keywords), names)
                except NotRead:
                    return in_python(node, method_called(name), [owner, *arguments], keywords, names)
            if isinstance(owner, (Array, File, Content)):
                return noted(method(owner, name, arguments, keywords), names)
            if isinstance(owner, Value) or type(owner) is str or isinstance(owner, PurePath):
                require(name in METHODS or name == "scatter_" and self._is_new(node.func.value, names))
                line = self._line(f"{self.lines.argument(owner)}.{name}", arguments, keywords)
                return Value(line.name, owner.of) if name == "numpy" and isinstance(owner, Value) else line
        function = self.value(node.func, names)
        require(callable(function) and not isinstance(function, Symbol))
        try:
            made = opened(function, arguments, keywords)
        except NotRead:
            return in_python(node, function, arguments, keywords, names)
        if made is not None:
            if not any(isinstance(part, (Picture, Array)) for part in arguments):
                self.lines.opened += map(root_of, pictures_in(made))
            return made if isinstance(made, Opened) else noted(made, names)
        if function is torch.stack and pictures_in(arguments[0] if arguments else None):
            pictures = [part.given() if isinstance(part, Array) else part for part in arguments[0]]
            return noted(stacked(pictures, *arguments[1:], **keywords), names)
        if any(isinstance(part, (Picture, Array)) for part in arguments):
            return self._of_picture(node, function, arguments, keywords, names)
        if not arguments and [*keywords] == ["image"] and isinstance(keywords["image"], (Picture, Array)):
            return self._of_named(node, function, keywords["image"], names)
        if function is torch.is_tensor:  # the index is a number
            require(len(arguments) == 1 and isinstance(arguments[0], Value) and arguments[0].name == "index")
            return False
        if (
            function is isinstance
            and not keywords
            and not any(isinstance(part, Symbol) for part in arguments)
        ):
            kind = arguments[-1]
            require(len(arguments) == 2 and isinstance(kind, type) and type(kind) in (type, abc.ABCMeta))
            return isinstance(arguments[0], kind)
        if function is range and arguments and all(type(part) is int for part in arguments):
            return range(*arguments)
        if any(function is one for one in PURE):
            if function is len and len(arguments) == 1 and isinstance(arguments[0], Dataset):
                return self.lines.add(f"len({self.lines.constant(arguments[0])})")
            return self._line(self.lines.constant(function), arguments, keywords)
        if isinstance(function, type) and family_of(function):
            return made_object(function, arguments, keywords)
        if type(function) is loaded(V1, "Lambda"):
            function = plain_attribute(function, "lambd")
        if isinstance(function, types.MethodType):
            arguments, function = [function.__self__, *arguments], function.__func__
        return self._of_own(function, arguments, keywords, names)

    def _is_new(self, node: ast.expr, names: dict[str, Any]) -> bool:
        """Whether it is a tensor that nobody else has, and which may therefore be changed."""
        return isinstance(node, ast.Call) and self.value(node.func, names) is torch.zeros

    def _of_own(
        self, function: Any, arguments: list[Any], keywords: dict[str, Any], names: dict[str, Any]
    ) -> Any:
        require(isinstance(function, types.FunctionType))
        made = _called(function, arguments, keywords, self.lines)
        names[MADE].extend(picture for picture in pictures_in(made) if picture.before is not None)
        return made

    def _of_picture(
        self,
        node: ast.expr,
        function: Any,
        arguments: list[Any],
        keywords: dict[str, Any],
        names: dict[str, Any],
    ) -> Any:
        """What a transform makes of a picture, or another function that gets one."""
        if (known := known_call(function)) is not None:
            return self._known(known, arguments, keywords, names)
        if len(arguments) > 1 or keywords:
            return in_python(node, function, arguments, keywords, names)
        (given,) = arguments
        if isinstance(given, Array):
            if isinstance(function, types.FunctionType):
                return self._of_own(function, arguments, {}, names)
            given = noted(given.given(), names)
        return noted(applied(function, given, read_call), names)

    def _of_named(self, node: ast.expr, function: Any, given: Any, names: dict[str, Any]) -> Any:
        """What `function(image=...)` returns, in the manner of Albumentations."""
        if isinstance(function, (types.FunctionType, types.MethodType)):
            return self._of_own(function, [], {"image": given}, names)
        picture = noted(given.given(), names) if isinstance(given, Array) else given
        return Result(noted(picture.then(Called(function, ast.unparse(node), key="image")), names), "image")

    def _inherited(self, node: ast.Call, names: dict[str, Any]) -> Any:
        """super().method(...), with or without arguments of super."""
        call = node.func.value if isinstance(node.func, ast.Attribute) else None
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "super"):
            return None
        assert isinstance(node.func, ast.Attribute)
        require(self.value(call.func, names) is super and len(call.args) in (0, 2) and not call.keywords)
        own = names[self.function.__code__.co_varnames[0]]
        if call.args:
            cls, owner = (self.value(part, names) for part in call.args)
            require(owner is own)
        else:
            cls = plain_variable(self.function, "__class__")
        require(isinstance(cls, type) and isinstance(own, cls) and not isinstance(own, Symbol))
        after = type(own).__mro__[type(own).__mro__.index(cls) + 1 :]
        found = next((vars(base)[node.func.attr] for base in after if node.func.attr in vars(base)), None)
        require(isinstance(found, types.FunctionType))
        arguments = [self.value(part, names) for part in node.args]
        keywords = {str(part.arg): self.value(part.value, names) for part in node.keywords}
        return self._of_own(found, [own, *arguments], keywords, names)

    def _line(self, function: str, arguments: list[Any], keywords: dict[str, Any]) -> Value:
        parts = list(map(self.lines.argument, arguments))
        parts += [f"{key}={self.lines.argument(value)}" for key, value in keywords.items()]
        return self.lines.add(f"{function}({', '.join(parts)})")
