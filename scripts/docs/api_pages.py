"""The pages of the API reference, from the stubs that list public names and the docstrings of what they name.

Each public package is a page, each of its names a section: its signature, its docstring, and its public
methods and properties with theirs. What has no docstring is not public. A name of two packages stands in the
first, and the second has a link.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import types
from pathlib import Path
from typing import Any

import docstrings

PACKAGES = {  # by the page: the first that has a name describes it
    "millrace": "millrace",
    "datasets": "millrace.datasets",
    "webdataset": "millrace.datasets.webdataset",
    "samplers": "millrace.samplers",
    "transforms": "millrace.transforms",
    "functional": "millrace.transforms.functional",
    "batch": "millrace.transforms.batch",
    "batch_functional": "millrace.transforms.batch.functional",
    "stores": "millrace.stores",
    "errors": "millrace.errors",
}
TORCH = "https://docs.pytorch.org/docs/stable/data.html"
_WIDTH = 100


def public_names(package: str) -> list[str]:
    """The names of `package` that are no modules, in alphabetical order."""
    module = importlib.import_module(package)
    return [name for name in sorted(module.__all__) if not inspect.ismodule(getattr(module, name))]


def place_of_each() -> dict[str, tuple[str, str]]:
    """For each public name, as it is written after an import, the page and the anchor that describe it."""
    places: dict[str, tuple[str, str]] = {}
    seen: dict[int, tuple[str, str]] = {}
    for page, package in PACKAGES.items():
        module = importlib.import_module(package)
        for name in public_names(package):
            value = getattr(module, name)
            place = seen.setdefault(id(value), (page, f"{package}.{name}"))
            places[f"{package}.{name}"] = place
    return places


def pages() -> dict[str, str]:
    """Markdown by the path of its page inside docs/."""
    places = place_of_each()
    made = {f"api/{page}.md": _page(page, package, places) for page, package in PACKAGES.items()}
    lines = [
        "# API reference",
        "",
        "Every public name of every public package. What is not here is private.",
        "",
    ]
    for page, package in PACKAGES.items():
        first = _first_sentence(inspect.getdoc(importlib.import_module(package)) or "")
        lines.append(f"- [`{package}`]({page}.md): {docstrings.prose(first)}")
    return {"api/index.md": "\n".join(lines) + "\n", **made}


def _first_sentence(doc: str) -> str:
    return " ".join(doc.split("\n\n")[0].split()).removesuffix(":")


def _page(page: str, package: str, places: dict[str, tuple[str, str]]) -> str:
    module = importlib.import_module(package)

    def link(name: str) -> str | None:
        name = name.removesuffix("()").removeprefix("millrace.")
        for prefix in (package, "millrace", *PACKAGES.values()):
            if f"{prefix}.{name}" in places:
                there, anchor = places[f"{prefix}.{name}"]
                return f"#{anchor}" if there == page else f"{there}.md#{anchor}"
        return None

    parts = [f"# {package}\n", docstrings.markdown(inspect.getdoc(module) or "", {}, link)]
    for name in public_names(package):
        there, anchor = places[f"{package}.{name}"]
        if anchor == f"{package}.{name}":
            parts += _section(anchor, name, getattr(module, name), link)
        else:
            target = f"#{anchor}" if there == page else f"{there}.md#{anchor}"
            parts.append(f"## {_plain(name)} {{ #{package}.{name} }}\n\nSee [`{anchor}`]({target}).\n")
    return "\n".join(parts)


def _plain(name: str) -> str:
    return name.replace("_", "\\_")


def _section(anchor: str, name: str, value: Any, link: docstrings.Link) -> list[str]:
    head = f"## {_plain(name)} {{ #{anchor} }}\n"
    origin = getattr(value, "__module__", None) or ""
    if origin.startswith("torch"):
        return [head, f"torch's own: [`torch.utils.data.{name}`]({TORCH}).\n"]
    if not (inspect.isclass(value) or callable(value)) or isinstance(value, types.BuiltinFunctionType):
        return [head, *_without_python(name, value, link)]
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        values = "\n".join(f"- `{name}.{member.name}`: `{member.value!r}`" for member in value)
        return [head, docstrings.markdown(inspect.getdoc(value) or "", {}, link), values, ""]
    parameters = parameters_of(value)
    parts = [head, _code(("class " if inspect.isclass(value) else "") + signature(name, value))]
    parts.append(docstrings.markdown(inspect.getdoc(value) or "", parameters, link))
    if inspect.isclass(value):
        for member, (kind, function) in members(value).items():
            parts.append(f"### {_plain(member)} {{ #{anchor}.{member} }}\n")
            if kind == "method":
                parts.append(_code(signature(f"{name}.{member}", function)))
                known = parameters_of(function)
            else:
                parts.append(f"*{kind}*\n")
                known = {}
            parts.append(docstrings.markdown(inspect.getdoc(function) or "", known, link))
    return parts


def _without_python(name: str, value: Any, link: docstrings.Link) -> list[str]:
    """A constant, or a function of the compiled module, whose stub has what Python does not know of it."""
    if not callable(value):
        text = repr(sorted(value) if isinstance(value, (set, frozenset)) else value)
        return [_code(f"{name} = {text}")]
    stub = ast.parse((_package_folder() / "_core.pyi").read_text(encoding="utf-8"))
    function = next(node for node in stub.body if isinstance(node, ast.FunctionDef) and node.name == name)
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    doc = docstrings.markdown(inspect.cleandoc(ast.get_docstring(function) or ""), {}, link)
    return [_code(f"{name}({ast.unparse(function.args)}){returns}"), doc]


def _package_folder() -> Path:
    return Path(str(importlib.import_module("millrace").__file__)).parent


def members(value: type) -> dict[str, tuple[str, Any]]:
    """Public methods and properties of a class, those it has from other classes of millrace included, that
    have a docstring: (kind, function) by name.
    """
    found: dict[str, tuple[str, Any]] = {}
    for owner in reversed(value.__mro__):
        if not owner.__module__.startswith("millrace"):
            continue
        for name, member in vars(owner).items():
            if name.startswith("_"):
                continue
            if isinstance(member, (classmethod, staticmethod)):
                member = member.__func__
            if isinstance(member, property) or type(member).__name__ == "cached_property":
                kind, function = "property", getattr(member, "fget", None) or getattr(member, "func", member)
            elif inspect.isfunction(member):
                kind, function = "method", member
            else:
                continue
            if function.__doc__:
                found[name] = (kind, function)
    return dict(sorted(found.items()))


def _signature_of(value: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None


def _shown(parameter: inspect.Parameter) -> str:
    """The type and the default: `int = 4`."""
    kind = ""
    if parameter.annotation is not parameter.empty:
        kind = parameter.annotation
        kind = kind.strip("'\"") if isinstance(kind, str) else inspect.formatannotation(kind)
    if parameter.default is parameter.empty:
        return kind
    return f"{kind} = {_default(parameter.default)}".strip()


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.ismodule(value):
        return value.__name__
    if isinstance(value, (frozenset, set)) or "factory" in repr(value) or " object at 0x" in repr(value):
        return "..."
    if callable(value):
        return getattr(value, "__name__", "...")
    return repr(value)


def parameters_of(value: Any) -> dict[str, str]:
    """Types and defaults by name, without `self`."""
    found = _signature_of(value)
    items = found.parameters.items() if found else ()
    return {name: _shown(parameter) for name, parameter in items if name not in ("self", "cls")}


def signature(name: str, value: Any) -> str:
    """As Python has it, on as many lines as are needed."""
    found = _signature_of(value)
    if found is None:
        return name
    words, only_named = [], False
    for each, parameter in found.parameters.items():
        if each in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not only_named:
            words.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        only_named = only_named or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        shown = _shown(parameter)
        joint = "" if not shown else "" if shown.startswith("=") else ": "
        words.append(stars + each + joint + (shown.replace("= ", "=") if not joint else shown))
    returns = ""
    if found.return_annotation not in (found.empty, None, "None", "'None'") and not inspect.isclass(value):
        kind = found.return_annotation
        returns = f" -> {kind.strip(chr(39)) if isinstance(kind, str) else inspect.formatannotation(kind)}"
    line = f"{name}({', '.join(words)}){returns}"
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){returns}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"
