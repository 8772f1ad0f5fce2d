"""Each parameter has an effect: no function leaves one unread but for a signature that others give, and no
option is stored for nobody.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from repo_tree import ROOT

PACKAGES = ROOT / "python"
Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Unread, and why that is right. A signature that another function of this name reads in full needs no entry.
ALLOWED = {
    "datasets/sequences/layout.py document_mask_mod.mask_mod: head": "torch's flex_attention calls it",
    "datasets/webdataset/chain.py Chain.with_length: silent": (
        "webdataset's argument; documented: there is no warning"
    ),
    "datasets/webdataset/dataset.py WebDataset.__init__: detshuffle": (
        "webdataset's argument; documented: all shuffles are"
    ),
    "datasets/webdataset/filters.py _shuffle: handler": (
        "webdataset's argument; documented: nothing fails in a shuffle"
    ),
    "_loader/engines/mixing.py _Pictures.__repr__: tensor_contents": "torch calls it",
    "_loader/engines/mixing.py _Pictures.__torch_dispatch__: types": "torch calls it",
    "_pictures/replaced.py _Finder.find_spec: path": "the import system calls it",
    "_pictures/replaced.py _Finder.find_spec: target": "the import system calls it",
    "_pictures/pillow.py _CoreImage.pixel_access: readonly": "Pillow calls it",
    "_pictures/pillow.py _CoreImage.convert: dither": "Pillow calls it; for palettes",
    "stores/clients.py FsspecClient.__init__: connect_timeout": (
        "documented: fsspec's file systems have options of their own"
    ),
}
#: Parameters of functions in tables, which are called alike.
BY_TABLE = {
    # Their tables have one function for each transform.
    "_common/lowering/transforms.py": {"family", "t"},
    "_common/lowering/branches.py": {"family"},
    "_common/lowering/geometry.py": {"family"},
    "_common/lowering/policies.py": {"family"},
    "_common/lowering/timm_policies.py": {"family"},
    "_common/lowering/timm_transforms.py": {"chain", "family", "t"},
    "transforms/policies.py": {"bins", "height", "width"},  # a table of magnitudes by operation
    "datasets/webdataset/decoders.py": {"pickles"},  # TABLE: one function for each extension
    "datasets/webdataset/handlers.py": {"error"},  # handlers are functions of an exception
}


def names_of(function: Function) -> list[str]:
    arguments = function.args
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    found += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [argument.arg for argument in found if argument.arg not in ("self", "cls")]


def reads(function: Function) -> set[str]:
    found = {
        node.id
        for line in function.body
        for node in ast.walk(line)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    found |= {
        line.target.id
        for line in ast.walk(function)
        if isinstance(line, ast.AugAssign) and isinstance(line.target, ast.Name)
    }
    return found | set(names_of(function)) if "locals" in found else found


def says_nothing(function: Function) -> bool:
    """Whether it only declares: a protocol's method, or one that raises."""
    return all(
        isinstance(line, (ast.Pass, ast.Raise))
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in function.body
    )


def functions(node: ast.AST, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield (*names, child.name), child
        inner = (
            (*names, child.name)
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            else names
        )
        yield from functions(child, inner)


def package() -> list[tuple[Path, tuple[str, ...], Function]]:
    return [
        (Path(path.relative_to(PACKAGES).as_posix().removeprefix("millrace/")), names, function)
        for path in sorted(PACKAGES.rglob("*.py"))
        for names, function in functions(ast.parse(path.read_text()))
    ]


def unread(all_functions: list[tuple[Path, tuple[str, ...], Function]]) -> set[str]:
    read_somewhere = {
        (names[-1], name)
        for _, names, function in all_functions
        for name in reads(function) & set(names_of(function))
    }
    declared = {
        (names[-1], name)
        for _, names, function in all_functions
        if says_nothing(function)
        for name in names_of(function)
    }
    found = set()
    for path, names, function in all_functions:
        if says_nothing(function) or names[-1] in ("__exit__", "__deepcopy__"):
            continue
        for name in set(names_of(function)) - reads(function) - BY_TABLE.get(path.as_posix(), set()):
            is_interface = (
                names[-1] != "__init__" and len(names) > 1 and (names[-1], name) in read_somewhere | declared
            )
            if not name.startswith("_") and not is_interface:
                found.add(f"{path.as_posix()} {'.'.join(names)}: {name}")
    return found


def test_each_parameter_is_read() -> None:
    assert unread(package()) == set(ALLOWED)


def test_the_look_sees_one() -> None:
    body = "class A:\n    def __init__(self, size, lost): self.size = size\n    def m(self, x, y): return x\n"
    found = [(Path("a.py"), names, function) for names, function in functions(ast.parse(body))]
    assert unread(found) == {"a.py A.__init__: lost", "a.py A.m: y"}
    other = ast.parse("class B:\n    def m(self, x, y): return y\n")
    assert unread([*found, *((Path("b.py"), names, f) for names, f in functions(other))]) == {
        "a.py A.__init__: lost"
    }


#: Options that are attributes only for those who look at them.
FOR_OTHERS = {
    "DriftError.alarm": "what the user's handler of the error reads",
}


def test_each_stored_argument_is_used() -> None:
    trees = {path: ast.parse(path.read_text()) for path in sorted(PACKAGES.rglob("*.py"))}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    used |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    idle = set()
    for made in (node for node in nodes if isinstance(node, ast.ClassDef)):
        for function in (f for f in made.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"):
            given = set(names_of(function))
            for target, value in (
                pair for node in ast.walk(function) if isinstance(node, ast.Assign) for pair in assigned(node)
            ):
                from_argument = isinstance(value, ast.Name) and value.id in given
                if from_argument and isinstance(target, ast.Attribute) and target.attr not in used:
                    idle.add(f"{made.name}.{target.attr}")
    assert idle == set(FOR_OTHERS)


def assigned(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts)
        else:
            yield target, node.value
