"""The stub of the native module names exactly what the module has; those of packages what these list."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from millrace import _core
from repo_tree import ROOT

STUB = ast.parse((ROOT / "python/millrace/_core.pyi").read_text())
EVERYBODYS = {"__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"}


def stub_names(body: list[ast.stmt]) -> set[str]:
    functions = {node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    return functions | {
        node.target.id
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def public(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_module() -> None:
    assert public(stub_names(STUB.body)) == public(set(vars(_core)) - EVERYBODYS)


def test_classes() -> None:
    stubs = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
    for name, thing in vars(_core).items():
        if inspect.isclass(thing) and name in stubs and not issubclass(thing, BaseException):
            assert public(stub_names(stubs[name].body)) == public(set(vars(thing))), name


@pytest.mark.parametrize(
    "stub", sorted((ROOT / "python").rglob("__init__.pyi")), ids=lambda path: path.parent.name
)
def test_packages_list_what_their_stubs_import(stub: Path) -> None:
    listed = re.findall(r"^    (\S+): (.+)$", stub.with_suffix(".py").read_text(), re.MULTILINE)
    imported = re.findall(r"^from (\S+) import (\w+) as \2$", stub.read_text(), re.MULTILINE)
    for module in re.findall(r"^from \.(\S+) import \*$", stub.read_text(), re.MULTILINE):
        text = (stub.parent / module).with_suffix(".py").read_text()
        every = re.search(r"^__all__ = (\[.*?\])$", text, re.MULTILINE | re.DOTALL)
        imported += [(f".{module}", name) for name in ast.literal_eval(every.group(1))] if every else []
    assert sorted((module, name) for module, names in listed for name in names.split()) == sorted(imported)
    assert imported
