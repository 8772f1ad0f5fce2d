"""Private names of other libraries: lists have them all, and a torch that lacks one is refused in words."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import millrace
import private_names
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace import _core
from millrace._common import torch_private
from python_code import run_code

PACKAGE = Path(millrace.__file__).parent
LIST = PACKAGE / "_common" / "torch_private.py"
FILES = sorted([*PACKAGE.rglob("*.py"), *PACKAGE.with_name("millrace_tools").rglob("*.py")])
SCANNED = [path for path in FILES if path != LIST]
BY_LIBRARY = private_names.NAMES
ELSEWHERE = {name: reason for names in BY_LIBRARY.values() for name, reason in names.items()}
LISTED = {**torch_private.NAMES, **ELSEWHERE}
#: Our classes that most files are handed without an import.
HANDED_ROUND = (
    *("dataloader.py", "_loader/iterator.py", "_loader/states/progress.py", "datasets/webdataset/chain.py"),
    "stores/engine.py",
)
#: What begins with an underscore and is no private name of a library's.
WORDS = {
    "_replace": "a documented method of named tuples",
    "_enforce_security": "a key of pickled WebDatasets",
    "_mask": "the end of a column's name",
    "_rel": "the end of timm's public names",
    "_ARRAY_DIMENSIONS": "xarray's key in Zarr's files",
    "_data_files": "a key of state.json, which save_to_disk() of datasets writes",
    "_type": "a key of the features that datasets writes into files",
}


def is_private(dotted: str) -> bool:
    parts = dotted.split(".")  # a package's own name says nothing: Python documents _thread
    return any(part.startswith("_") and not part.startswith("__") for part in parts[1:] or parts)


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


# ---------------------------------------------------------------- what a module reads


def names_of_libraries(module: list[ast.AST]) -> dict[str, str]:
    """What a module calls other packages' modules and what is in them: {"_utils": "torch.utils.data._utils"};
    "millrace" for what is ours.
    """
    found = {}
    ours = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in nodes(LIST)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch.")
        for alias in node.names
    }
    for node in module:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                called = alias.asname or alias.name
                if node.level == 0:
                    found[called] = f"{node.module}.{alias.name}"
                elif (node.module or "").endswith("torch_private") and alias.name in ours:
                    found[called] = ours[alias.name]
                else:
                    found[called] = "millrace"
    return {name: "millrace" if of.startswith("millrace") else of for name, of in found.items()}


def private_uses(module: list[ast.AST]) -> Iterator[str]:
    """The longest dotted names of other libraries' private parts that a module reads or sets: whole ones of
    what it imports, from the object on of what it is given, and of texts.
    """
    names = names_of_libraries(module)
    longer = {id(node.value) for node in module if isinstance(node, ast.Attribute)}
    inside = {
        id(part)
        for node in module
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Assign) and is_all(node))
        for part in ast.walk(node)
    }
    for node in module:
        parts, inner = [], node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        known = names.get(inner.id) if isinstance(inner, ast.Name) else None
        if known is not None and id(node) not in longer and known != "millrace":
            dotted = ".".join([known, *reversed(parts)])
            if is_private(dotted):
                yield dotted
        elif known is None and isinstance(node, ast.Attribute) and is_private(node.attr):
            yield node.attr
        elif isinstance(node, ast.Constant) and id(node) not in inside and is_name(node.value):
            yield node.value


def is_all(node: ast.Assign) -> bool:
    return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"


def is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and re.fullmatch(r"_?[A-Za-z]\w*(\.\w+)*", value) is not None
        and is_private(value)
        and not value.startswith("millrace.")
    )


# ---------------------------------------------------------------- what is ours


@cache
def members(path: Path) -> set[str]:
    """The attributes that a module's classes define."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
                found |= {t.id for t in targets if isinstance(t, ast.Name)} | {getattr(part, "name", "")}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= {node.attr} if ast.unparse(node.value) in ("self", "cls") else set()
    return found


@cache
def all_names(path: Path) -> set[str]:
    """And what it defines beside them."""
    defined = {node.name for node in nodes(path) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    stored = {n.id for n in nodes(path) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return members(path) | defined | stored | {path.stem}


@cache
def imported(path: Path) -> set[Path]:
    """Our files whose classes a module may have by its imports."""
    found: set[Path] = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            root = path.parents[node.level - 1] if node.level else PACKAGE.parent
            base = root.joinpath(*(node.module or "").split("."))
            found |= {base.with_suffix(".py"), base / "__init__.py"}
            found |= {base / f"{alias.name}.py" for alias in node.names}
    return found.intersection(FILES)


def ours(path: Path) -> set[str]:
    """Attributes that objects of our own may have in this module: those of its classes, of the files that it
    imports and that these import, and of what is handed round.
    """
    near = {path}
    for _ in range(2):
        near = near.union(*map(imported, near))
    return set().union(*map(members, near | {PACKAGE / name for name in HANDED_ROUND}))


def is_listed(dotted: str) -> bool:
    """Itself, or what has a name of the list; its further attributes are its own business. One that begins
    at an object is a part of some name.
    """
    if dotted.startswith("_"):
        return any(dotted in name.split(".") for name in LISTED)
    return any(
        dotted == name or dotted.startswith(name + ".") or name.startswith(dotted + ".") for name in LISTED
    )


@cache
def used() -> dict[str, set[str]]:
    """All private names of other libraries in the product, and the files that use them."""
    anywhere = set().union(*map(all_names, FILES))
    found: dict[str, set[str]] = {}
    for path in SCANNED:
        here = ours(path)
        texts = {n.value for n in nodes(path) if isinstance(n, ast.Constant)}
        for dotted in private_uses(nodes(path)):
            own = dotted.startswith("_millrace") or dotted in (anywhere if dotted in texts else here)
            if not own and dotted not in WORDS or is_listed(dotted):
                found.setdefault(dotted, set()).add(path.name)
    return found


@pytest.mark.parametrize(
    "source, seen",
    [
        ("from torch.utils import data as d\nd._utils.x.y", ["torch.utils.data._utils.x.y"]),
        ("import torch\ntorch._C.z()", ["torch._C.z"]),
        ("from ..a.torch_private import _utils as u\nu.worker.X(1)", ["torch.utils.data._utils.worker.X"]),
        ("image.info._a.b = 1", ["_a"]),
        ("getattr(image, '_c')", ["_c"]),
        ("sys.modules['timm._d.e']", ["timm._d.e"]),
        ("f'{f}_g'; 'g_h i'; '__j__'; image.__k__", []),
        ("from . import fetchers\nfetchers._Fetcher\n__all__ = ['_l']", []),
    ],
)
def test_the_scan_sees_what_is_written(source: str, seen: list[str]) -> None:
    assert list(private_uses(list(ast.walk(ast.parse(source))))) == seen
    assert not any(is_listed(name) for name in seen if "worker" not in name)


def test_every_private_name_that_is_used_is_in_a_list() -> None:
    unlisted = {dotted: files for dotted, files in used().items() if not is_listed(dotted)}
    assert not unlisted, f"list them in {TABLE.name} with a reason each, those of torch in {LIST.name}"


def test_no_word_is_left_over() -> None:
    texts = {
        getattr(node, "value", None) if isinstance(node, ast.Constant) else getattr(node, "attr", None)
        for path in SCANNED
        for node in nodes(path)
    }
    assert set(WORDS) <= texts


def test_torchs_names_are_used() -> None:
    in_cpp = {name for name, reason in torch_private.NAMES.items() if reason.startswith("C++")}
    imported = set(names_of_libraries(nodes(LIST)).values())
    for name in torch_private.NAMES.keys() - in_cpp:
        assert any(u == name or u.startswith((name + ".", name + "_")) for u in used()) or name in imported, (
            f"nobody uses {name} any more"
        )


@pytest.mark.parametrize("library", BY_LIBRARY)
def test_listed_names_are_used_and_explained(library: str) -> None:
    overridden = members(PACKAGE / "dataloader.py") | members(PACKAGE / "_loader/iterator.py")
    for name, reason in BY_LIBRARY[library].items():
        assert is_private(name) and reason
        last = name.rpartition(".")[2]
        known = last in used() or (library == "torch" and last in overridden)
        assert known or any(u == name or u.startswith(name + ".") for u in used()), (
            f"nobody uses {name} any more"
        )


# ---------------------------------------------------------------- what the libraries have


def owner_of(dotted: str) -> tuple[Any, str]:
    """(the module or class that has it, its name)"""
    *parts, last = dotted.split(".")
    found = importlib.import_module(parts[0])
    for depth, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[:depth]))
        found = getattr(found, part)
    return found, last


def has(owner: Any, name: str) -> bool:
    """Whether it has the name, or its code gives objects an attribute of it, or has it as a text."""
    if hasattr(owner, name):
        return True
    if hasattr(owner, "__path__") and importlib.util.find_spec(f"{owner.__name__}.{name}") is not None:
        return True
    spelled = re.sub(rf"^_{getattr(owner, '__name__', '')}__", "__", name)  # mangled names
    return any(gives(part, spelled) for part in getattr(owner, "__mro__", (owner,)) if part is not object)


def gives(part: Any, name: str) -> bool:
    """Whether the code of a module or class sets such an attribute, or has that text."""
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr == name
        or isinstance(node, ast.Constant)
        and node.value == name
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(part))))
    )


@pytest.mark.parametrize("library", BY_LIBRARY)
def test_the_installed_version_has_them(library: str) -> None:
    if library in ("torchvision", "timm"):
        torchvision_or_skip()
    if library != "python":
        pytest.importorskip(library, reason=f"{library} is not installed")
    gone = [
        name
        for name in BY_LIBRARY[library]
        if name not in private_names.SOME_VERSIONS and not has(*owner_of(name))
    ]
    assert not gone


def test_a_name_that_is_gone_is_missed() -> None:
    assert has(torch.nn.Module, "_forward_hooks") and not has(torch.nn.Module, "_forward_hook")
    assert not has(torch.nn, "_modul")


def test_the_attributes_of_torchs_loaders_are_torchs() -> None:
    loader = torch.utils.data.DataLoader([1, 2], 1)
    objects = {"DataLoader": loader, "_BaseDataLoaderIter": iter(loader)}
    for name in BY_LIBRARY["torch"]:
        kind, _, attribute = name.removeprefix("torch.utils.data.").rpartition(".")
        if kind.rpartition(".")[2] in objects:
            assert hasattr(objects[kind.rpartition(".")[2]], attribute), name


def test_other_files_import_none_of_torchs() -> None:
    for path in SCANNED:
        for node in nodes(path):
            if (
                isinstance(node, ast.ImportFrom)
                and node.level == 0
                and (node.module or "").startswith("torch.")
            ):
                taken = [alias.name for alias in node.names if is_private(f"{node.module}.{alias.name}")]
                assert not taken, f"{path.name} imports {taken} from {node.module}: take it from {LIST.name}"


def test_the_symbols_are_in_the_module() -> None:
    code = Path(_core.__file__).read_bytes()
    for symbol in private_names.SYMBOLS:
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
