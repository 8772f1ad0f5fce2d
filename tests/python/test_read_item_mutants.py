"""Changes of functions that are read: what is made of them is what torch makes, or Python makes it."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import random
from pathlib import Path
from typing import Any

import pytest
from seen_items import SEEN, Base
from test_read_items import (
    COUNT,
    EVEN,
    TorchLoader,
    is_native,
    loader_of,
    others,
    outcome,
    root,
    same,
    unchecked,
)

__all__ = ["root", "unchecked"]  # fixtures

CHANGES = """
return 0
return None
yield 3
self.count = getattr(self, 'count', 0) + 1
self.samples.append(self.samples[0])
self.transform = None
self.names = self.names[::-1]
self.names[0], self.names[1] = self.names[1], self.names[0]
self.labels[0] += 1
self.labels += 1
self.tensor.add_(1)
self.by_name.popitem()
self = self.__class__(self.root, 5, self.transform)
del self.names[0]
Image = self
os = None
label = 7
str = repr
len = max
rgb_loader = None
global Path
import random
print(end='')
torch.manual_seed(1)
INDEX = INDEX + 1
INDEX = (INDEX * 7) % len(self)
INDEX = -1 - INDEX
INDEX = min(INDEX, 3)
INDEX = int(torch.randint(5, (1,)))
INDEX = self.labels[INDEX]
INDEX = list(range(9))[INDEX]
if INDEX == 2: INDEX = 3
for k in range(2): INDEX = k
while INDEX > 5: INDEX -= 1
with open(self.root + '/0.jpg', 'rb') as f: img = f.read()
""".strip().splitlines()


COMPARED = [cls for cls in others() if not hasattr(cls, "alike")]  # which torch can decode everywhere


def mutated(draw: random.Random, classes: list[Any]) -> tuple[str, str]:
    """(name of a class, the module's source in which it is changed)"""
    cls = draw.choice(classes)
    tree, name = ast.parse(Path(inspect.getfile(cls)).read_text()), cls.__name__
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    functions = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    function = draw.choice([node for node in functions if node.name not in ("__init__", "__len__")])
    body, index = function.body, function.args.args[1].arg
    kind = draw.choice(["insert", "insert", "operator", "constant", "delete", "swap", "attribute"])
    if kind == "insert":
        at = draw.randrange(len(body) + 1)
        body[at:at] = ast.parse(draw.choice(CHANGES).replace("INDEX", index)).body
    elif kind == "delete" and len(body) > 1:
        body.pop(draw.randrange(len(body)))
    elif kind == "swap" and len(body) > 1:
        i, j = draw.sample(range(len(body)), 2)
        body[i], body[j] = body[j], body[i]
    nodes: list[Any] = list(ast.walk(function))
    draw.shuffle(nodes)
    for node in nodes:
        if kind == "operator" and isinstance(node, ast.BinOp):
            node.op = draw.choice([ast.Add(), ast.Sub(), ast.Mult(), ast.Div(), ast.Mod(), ast.FloorDiv()])
        elif kind == "constant" and isinstance(node, ast.Constant):
            node.value = node.value + 1 if type(node.value) is int else draw.choice(["x", "L", 3, None])
        elif kind == "attribute" and isinstance(node, ast.Attribute):
            node.attr = draw.choice(["names", "labels", "samples", "root", "transform", "convert", "join"])
        else:
            continue
        break
    return name, ast.unparse(ast.fix_missing_locations(tree))


def check_mutations(seed: int, count: int, root: Any, folder: Any, classes: list[Any]) -> int:
    """How many of them are native."""
    draw, native = random.Random(seed), 0
    for number in range(count):
        try:
            name, source = mutated(draw, classes)
        except ValueError:  # a number within an f-string has no source
            continue
        path = folder / f"mutated_{seed}_{number}.py"
        path.write_text(source)
        spec: Any = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except SyntaxError:
            continue

        def dataset(cls: Any = getattr(module, name)) -> Base:
            return cls(root, COUNT, EVEN)

        theirs = outcome(TorchLoader(dataset(), 4))
        ours = outcome(loader_of(dataset(), 4))
        assert ours is theirs or same(ours, theirs), f"seed {seed}, {number}, {name}:\n{source}"
        native += is_native(loader_of(dataset(), 4))
    return native


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.usefixtures("unchecked")
def test_a_changed_function_is_never_another_batch(root, tmp_path):
    assert 10 < check_mutations(1, 60, root, tmp_path, SEEN) < 50


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_changed_functions(root, tmp_path, seed):
    check_mutations(seed, 300, root, tmp_path, SEEN if seed % 2 else COMPARED)
