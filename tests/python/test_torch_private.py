"""torch's private names: one file lists them all, and a torch that lacks one is refused in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import millrace
import pytest
import torch
from millrace import _core
from millrace._common import torch_private
from python_code import run_code

PACKAGE = Path(millrace.__file__).parent
LIST = PACKAGE / "_common" / "torch_private.py"
FILES = sorted([*PACKAGE.rglob("*.py"), *PACKAGE.with_name("millrace_tools").rglob("*.py")])
LISTED = {*torch_private.NAMES, *torch_private.SOME_VERSIONS}


def is_private(dotted: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in dotted.split("."))


def names_of_torch(tree: ast.AST) -> dict[str, str]:
    """What a module calls torch's modules and what is in them: {"_utils": "torch.utils.data._utils"}."""
    found = {}
    ours = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.parse(LIST.read_text()).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch.")
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    found[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if node.level == 0 and (node.module or "").split(".")[0] == "torch":
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                elif node.level and (node.module or "").endswith("torch_private") and alias.name in ours:
                    found[alias.asname or alias.name] = ours[alias.name]
    return found


def private_uses(source: str) -> Iterator[str]:
    """The longest dotted names of torch's private parts that a module reads or sets."""
    tree = ast.parse(source)
    names = names_of_torch(tree)
    longer = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        parts, inner = [], node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in names and id(node) not in longer:
            dotted = ".".join([names[inner.id], *reversed(parts)])
            if is_private(dotted):
                yield dotted


def is_listed(dotted: str) -> bool:
    """Itself, or what has a name of the list; its further attributes are its own business."""
    return any(
        dotted == name or dotted.startswith(name + ".") or name.startswith(dotted + ".") for name in LISTED
    )


def test_the_scan_sees_what_is_written() -> None:
    seen = private_uses("import torch\nfrom torch.utils import data as d\nd._utils.x.y\ntorch._C.z()")
    assert sorted(seen) == ["torch._C.z", "torch.utils.data._utils.x.y"]
    ours = private_uses("from ..a.torch_private import _utils as u\nu.worker.WorkerInfo(1)")
    assert list(ours) == ["torch.utils.data._utils.worker.WorkerInfo"]
    assert not is_listed("torch._C.z") and is_listed("torch.utils.data._utils.worker.WorkerInfo")


def test_every_private_name_that_is_used_is_in_the_list() -> None:
    used: dict[str, list[str]] = {}
    for path in FILES:
        if path != LIST:
            for dotted in private_uses(path.read_text()):
                used.setdefault(dotted, []).append(path.name)
    unlisted = {dotted: files for dotted, files in used.items() if not is_listed(dotted)}
    assert not unlisted, f"list them in {LIST.name} with a reason each"
    in_cpp = {name for name, reason in torch_private.NAMES.items() if reason.startswith("C++")}
    imported = set(names_of_torch(ast.parse(LIST.read_text())).values())
    for name in LISTED - in_cpp:
        assert any(u == name or u.startswith((name + ".", name + "_")) for u in used) or name in imported, (
            f"nobody uses {name} any more"
        )


def test_other_files_import_none() -> None:
    for path in FILES:
        if path == LIST:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and node.level == 0
                and (node.module or "").startswith("torch")
            ):
                taken = [alias.name for alias in node.names if is_private(f"{node.module}.{alias.name}")]
                assert not taken, f"{path.name} imports {taken} from {node.module}: take it from {LIST.name}"


def test_the_attributes_of_torchs_loaders_are_torchs() -> None:
    loader = torch.utils.data.DataLoader([1, 2], 1)
    for name in torch_private.OF_LOADERS:
        assert hasattr(loader, name), name
    iterator = iter(loader)
    for name in torch_private.OF_ITERATORS:
        assert hasattr(iterator, name), name


def test_the_symbols_are_in_the_module() -> None:
    code = Path(_core.__file__).read_bytes()
    for symbol in torch_private.SYMBOLS:
        assert symbol.encode() in code, symbol


@pytest.mark.parametrize(
    "gone, told",
    [
        ("torch._utils.ExceptionWrapper", "an error of a worker has torch's type and text"),
        ("torch.utils.data._utils.signal_handling._set_worker_pids", "a worker's death interrupts the loop"),
        ("torch.utils.data.dataloader._DatasetKind", "torch.utils.data.dataloader._DatasetKind.Map"),
    ],
)
def test_a_torch_that_lacks_one_is_refused_in_words(gone: str, told: str) -> None:
    owner, _, name = gone.rpartition(".")
    script = f"import torch, torch.utils.data\ndel {owner}.{name}\nfrom millrace import DataLoader"
    done = run_code(script, status=1)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: torch "), done.stderr
    assert f"lacks {gone}" in last and told in last and torch_private.TESTED in last
    assert "millrace needs" in last and "install" in last


def test_the_whole_list_is_in_this_torch() -> None:
    assert list(torch_private.missing()) == []
