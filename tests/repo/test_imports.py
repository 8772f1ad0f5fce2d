"""Modules of python/millrace and python/millrace_tools import each other in one direction.

Imports at a module's top form no circle, of modules or of folders. Nor do those inside functions, which are
for what should not be loaded early; but for the pairs in CIRCLES, each with its reason. `from millrace import
_core` is an import of `_core`, not of the package. What a package imports lazily counts as imported inside a
function. `_common/lazy.py` says how millrace gets at millrace_tools, which imports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import millrace.__main__ as main
import pytest
from millrace._common.lazy import tool
from repo_tree import ROOT

PACKAGE = ROOT / "python"
CIRCLES = [
    {
        "millrace.dataloader",
        "millrace.installation",
    },  # install() puts the class in the place of torch's; its metaclass asks for that
]


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, inside_functions: bool) -> Iterator[str]:
    """What a module imports of this package, or may; type checkers' imports are none."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    todo: list[ast.AST] = [ast.parse(path.read_text())]
    if inside_functions and (lazy := path.with_suffix(".pyi")).exists():
        todo.append(ast.parse(lazy.read_text()))
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not inside_functions:
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        todo += ast.iter_child_nodes(node)


def graph(inside_functions: bool) -> dict[str, set[str]]:
    known = modules()
    found: dict[str, set[str]] = {}
    for name, path in known.items():
        targets = set(imports(name, path, inside_functions)) - {"millrace._core"}
        # millrace.errors.corrupt_data is a name in millrace.errors
        found[name] = {
            target if target in known else target.rpartition(".")[0] for target in targets
        } & known.keys() - {name}
    return found


def circles(of: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules of which each leads to each other one."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for target in of[todo.pop()] - seen:
                seen.add(target)
                todo.append(target)
        return seen

    leads_to = {name: reached(name) for name in of}
    found: list[set[str]] = []
    for name in of:
        circle = {other for other in leads_to[name] if name in leads_to[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


@pytest.mark.parametrize("inside_functions", [False, True], ids=["at the top", "anywhere"])
def test_imports_form_no_new_circles(inside_functions: bool) -> None:
    found = circles(graph(inside_functions))
    assert sorted(map(sorted, found)) == (sorted(map(sorted, CIRCLES)) if inside_functions else [])


def test_imports_lead_to_modules() -> None:
    """Those inside functions, too, where nothing notices before they run."""
    known = {*modules(), "millrace._core"}
    wrong = [
        f"{name}: {target}"
        for name, path in modules().items()
        for target in imports(name, path, True)
        if target.startswith(("millrace.", "millrace_tools."))
        and not {target, target.rpartition(".")[0]} & known
    ]
    assert not wrong


def folders(of: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same between folders; a module of the topmost one stands for itself."""
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}

    def folder(name: str) -> str:
        above = name.rpartition(".")[0]
        return name if name in packages or above in ("millrace", "millrace_tools") else above

    found: dict[str, set[str]] = {}
    for name, targets in of.items():
        found.setdefault(folder(name), set()).update(folder(target) for target in targets)
    return {name: targets - {name} for name, targets in found.items()}


def test_folders_are_above_one_another() -> None:
    """So each may be read, and tested, with those below it alone."""
    found = folders(graph(False))
    assert "millrace._loader.plan" in found and found["millrace._loader.plan"]
    assert circles(found) == []


def test_the_core_does_without_the_tools() -> None:
    """Its list of public names has theirs, tool() the rest: what the loader and the command line ask for."""
    of_tools = {
        name: [target for target in targets if target.startswith("millrace_tools")]
        for name, targets in graph(True).items()
        if not name.startswith("millrace_tools")
    }
    assert {name for name, targets in of_tools.items() if targets} == {"millrace"}
    assert not any(target.startswith("millrace_tools") for target in graph(False)["millrace"])


def test_what_the_core_asks_the_tools_for_is_there() -> None:
    asked = set(main.VERBS.values())
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) == "tool"
                and name != "millrace.__main__"
            ):
                asked.add(tuple(ast.literal_eval(argument) for argument in node.args))
    assert len(asked) > len(main.VERBS)
    assert all(callable(tool(*each)) for each in asked)


def test_circles_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("from . import a\nfrom .b import x\nimport json\ndef f():\n    from ..c import y\n")
    assert set(imports("millrace.p.module", module, False)) == {"millrace.p.a", "millrace.p.b.x", "json"}
    assert set(imports("millrace.p.module", module, True)) == {
        "millrace.p.a",
        "millrace.p.b.x",
        "json",
        "millrace.c.y",
    }
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [{"b", "c"}]
