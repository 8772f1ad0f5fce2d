"""Datasets whose __getitem__ is read: what is native gives torch's batches, and nothing else is native."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import millrace
import pytest
import seen_items
import torch
from loader_data import torchvision_or_skip
from millrace import transforms
from millrace._common.lowering.read_items import read_item
from pictures import make_picture
from seen_items import SEEN, Base
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Subset

torchvision_or_skip()
COUNT = 10
EVEN = transforms.Compose([transforms.Resize(20), transforms.CenterCrop(16), transforms.ToTensor()])
DRAWN = transforms.Compose([transforms.RandomResizedCrop(16), transforms.ToTensor()])


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("items")
    for i in range(COUNT):
        make_picture(40 + 3 * i, 50 - i, seed=i).save(folder / f"{i}.jpg", quality=95)
    return folder


def same(ours: Any, theirs: Any) -> bool:
    """Pictures to the bit but for the resize's rounding, all else exactly."""
    if isinstance(theirs, torch.Tensor):
        near = ours.shape == theirs.shape and ours.dtype == theirs.dtype
        return near and torch.allclose(ours.double(), theirs.double(), atol=1.01 / 255)
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, (list, tuple)):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


def loader_of(dataset: Any, *arguments: Any, **options: Any) -> Any:
    return millrace.DataLoader(dataset, *arguments, **options, pictures="native")


def is_native(loader: Any) -> bool:
    return loader.explain().startswith("dataset: native — ")


def samples(batch: Any) -> Any:
    return batch


def _others() -> list[Any]:
    try:
        import seen_other_items
    except ImportError:  # OpenCV or pandas
        return []
    return seen_other_items.SEEN


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("cls", [*SEEN, *_others()])
def test_batches_are_torchs(cls, workers, root):
    dataset, alike = cls(root, COUNT, EVEN), getattr(cls, "alike", cls)(root, COUNT, EVEN)

    def parts(whole: Any) -> list[Any]:
        return [whole, Subset(whole, [5, 3, -1, 5, 0]), Subset(Subset(whole, range(2, 9)), [6, 0])]

    for part, other in zip(parts(dataset), parts(alike)):
        for options in ({}, {"collate_fn": samples}, {"batch_sampler": [[1, -1], [2], [0, 1, 0]]}):
            if part is not dataset and "batch_sampler" in options:
                continue
            size = () if "batch_sampler" in options else (4,)
            loader = loader_of(part, *size, num_workers=workers, **options)
            assert is_native(loader)
            assert same(list(loader), list(TorchLoader(other, *size, **options)))
            assert loader.stats()["bytes"] > 0


@pytest.mark.parametrize("cls", SEEN)
def test_it_is_asked_for(cls, root):
    """Draws are the engine's, so torch's are the default."""
    dataset = cls(root, COUNT, EVEN)
    assert not is_native(millrace.DataLoader(dataset, 4))
    assert not is_native(loader_of(dataset, 4, native="never"))
    assert not is_native(loader_of(dataset, 4, on_error="skip"))
    assert not is_native(loader_of(dataset, batch_size=None))


class Tries(seen_items.Pairs):
    def __getitem__(self, index):
        try:
            image = seen_items.rgb_loader(self.folder / self.names[index])
        except OSError:
            image = seen_items.rgb_loader(self.folder / self.names[0])
        return self.transform(image), index


class Turns(seen_items.Alone):
    def __getitem__(self, index):
        image = self.transform(seen_items.rgb_loader(self.folder / self.names[index]))
        return image.flip(-1)


@pytest.mark.parametrize("cls, part", [(Tries, "`try:`"), (Turns, "`image.flip(-1)`")])
def test_what_is_not_read_is_named(cls, part, root):
    loader = loader_of(cls(root, COUNT, EVEN), 4)
    line = cls.__getitem__.__code__.co_firstlineno + 1 + (cls is Turns)
    assert f"and not read is {part} in line {line} of test_read_items.py\n" in loader.explain()
    assert same(list(loader), list(TorchLoader(loader.dataset, 4)))


def test_what_an_epoch_reads_is_what_there_is(root):
    """Attributes and lists that are exchanged count from the next iterator on."""
    dataset = seen_items.Pairs(root, COUNT, EVEN)
    loader, theirs = loader_of(dataset, 5), TorchLoader(dataset, 5)
    list(loader)
    dataset.samples = dataset.samples[::-1]
    assert same(list(loader), list(theirs))
    dataset.samples[2] = dataset.samples[0]
    assert same(list(loader), list(theirs))
    dataset.transform = transforms.Compose([transforms.Resize((9, 7)), transforms.ToTensor()])
    assert same(list(loader), list(theirs)) and next(iter(loader))[0].shape == (5, 3, 9, 7)
    dataset.transform = None
    assert not is_native(loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_draws_are_keyed_and_states_go_on(root, workers):
    dataset = seen_items.Dicts(root, COUNT, DRAWN)

    def loader(**options: Any) -> Any:
        torch.manual_seed(3)
        return loader_of(dataset, 3, num_workers=workers, **options)

    whole = list(loader(shuffle=True))
    assert same(list(loader(shuffle=True)), whole)
    begun = loader(shuffle=True)
    iterator = iter(begun)
    first = [next(iterator), next(iterator)]
    other = loader(shuffle=True)
    other.load_state_dict(begun.state_dict())
    assert same([*first, *other], whole)
    again = loader_of(dataset, batch_sampler=[[1, 1, 2], [1, 0]], num_workers=workers)
    (a, b, _), (c, _) = (batch["image"].unbind() for batch in again)
    assert not torch.equal(a, b) and not torch.equal(b, c), "an index that comes again is another sample"


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_replayed(root, workers):
    dataset = seen_items.Pairs(root, COUNT, DRAWN)
    loader = loader_of(dataset, batch_sampler=[[1, 1, 2], [1, 0], [2, 1]], num_workers=workers, history=True)
    batches = list(loader)
    assert all(same(loader.replay(number), batch) for number, batch in enumerate(batches))


def test_errors_are_torchs(root, tmp_path):
    def broken(change):
        dataset = seen_items.Pairs(root, COUNT, EVEN)
        change(dataset)
        return dataset

    (tmp_path / "text.jpg").write_bytes(b"no picture")
    changes = [
        lambda d: d.samples.__setitem__(3, ("missing.jpg", 0)),
        lambda d: d.samples.__setitem__(3, (None, 0)),
        lambda d: d.samples.__setitem__(3, ("3.jpg",)),
        lambda d: d.samples.__setitem__(3, ("", 0)),  # a folder
        lambda d: d.samples.__setitem__(3, (str(tmp_path / "text.jpg"), 0)),
        lambda d: setattr(d, "names", None) or d.samples.__setitem__(3, 5),
    ]
    for change in changes:
        for workers in (0, 2):
            dataset = broken(change)
            loader = loader_of(dataset, 2, num_workers=workers)
            assert is_native(loader)
            with pytest.raises(Exception) as theirs:  # noqa: B017, PT011
                list(TorchLoader(dataset, 2))
            iterator = iter(loader)
            first = next(iterator)
            assert same(first, next(iter(TorchLoader(Subset(dataset, [0, 1]), 2))))
            with pytest.raises(type(theirs.value)):
                next(iterator)
            assert same(next(iterator), next(iter(TorchLoader(Subset(dataset, [4, 5]), 2))))


class Lying(seen_items.Pairs):
    def __len__(self):
        return COUNT + 2


class Keys(seen_items.Pairs):
    def __init__(self, root, count, transform):
        super().__init__(root, count, transform)
        self.samples = dict(zip("abcdefghij", self.samples))


def test_indices_of_other_kinds(root):
    """Whatever is no number goes to the dataset itself."""
    with pytest.raises(IndexError):
        list(loader_of(Lying(root, COUNT, EVEN), 4))
    lists = [["a", "c"], ["j"]]
    loader = loader_of(Keys(root, COUNT, EVEN), batch_sampler=lists)
    assert is_native(loader)
    assert same(list(loader), list(TorchLoader(Keys(root, COUNT, EVEN), batch_sampler=lists)))


# -- a reader that makes mistakes
# ----------------------------------------------------------------------------------------------


def mistaken(values: Any = lambda path, label: (path, label), **changes: Any) -> Any:
    def read(dataset: Any) -> Any:
        item = read_item(dataset)
        return replace(item, values=lambda index: values(*item.values(index)), **changes)

    return read


MISTAKES = [
    ("[0-3] for [0-2]\\)", mistaken(lambda path, label: (path, label + 1)), DRAWN),
    ("a picture 0", mistaken(lambda path, label: (str(Path(path).with_name("9.jpg")), label)), EVEN),
    ("list for tuple", mistaken(form=[-1, 0]), EVEN),
    ("int for Tensor", mistaken(form=(0, -1)), DRAWN),
    ("3 values for 2", mistaken(form=(-1, 0, 0)), EVEN),
]


@pytest.mark.parametrize(("said", "read", "transform"), MISTAKES)
def test_mistakes_are_told_and_reach_no_batch(root, monkeypatch, said, read, transform):
    monkeypatch.setattr("millrace._loader.plan.items.read_item", read)
    dataset = seen_items.Pairs(root, COUNT, transform)
    loader = loader_of(Subset(dataset, [8, 6, 4, 2, 7]), 4)
    before = torch.get_rng_state()
    with pytest.warns(UserWarning, match=said):
        assert not is_native(loader)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.warns(UserWarning, match="not read rightly"):
        assert same(outcome(loader), outcome(TorchLoader(loader.dataset, 4)))


def test_pictures_that_the_engine_does_not_make_are_pythons(root, monkeypatch, recwarn):
    """Of all files: one among others is made by Python, with its batch."""
    nowhere = mistaken(lambda path, label: ("nowhere", label))
    monkeypatch.setattr("millrace._loader.plan.items.read_item", nowhere)
    loader = loader_of(seen_items.Pairs(root, COUNT, EVEN), 4)
    assert "Pairs runs in Python: the engine decodes no picture of its kind" in loader.explain()
    assert not recwarn.list and same(list(loader), list(TorchLoader(loader.dataset, 4)))


def test_samples_are_compared_once(root, monkeypatch):
    compared = []
    monkeypatch.setattr(
        "millrace._loader.plan.items_check._of_sample", lambda *sample: compared.append(sample)
    )
    dataset = seen_items.Pairs(root, COUNT, DRAWN)
    for part in (dataset, dataset, Subset(dataset, [0])):
        list(loader_of(part, 4))
    assert len(compared) == 3


# -- what is changed in such a function
# ----------------------------------------------------------------------------------------------

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


def mutated(draw: random.Random, classes: list[Any]) -> tuple[str, str]:
    """(name of a class, the module's source in which it is changed)"""
    cls = draw.choice(classes)
    tree, name = ast.parse(Path(inspect.getfile(cls)).read_text()), cls.__name__
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    function = draw.choice([node for node in found.body if isinstance(node, ast.FunctionDef)])
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


def outcome(loader: Any) -> Any:
    torch.manual_seed(0)
    try:
        return list(loader)
    except Exception as error:
        return type(error)


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


@pytest.fixture
def unchecked(monkeypatch):
    """The reader alone, without the samples that are compared."""
    monkeypatch.setattr("millrace._loader.plan.items.difference", lambda *arguments: "")


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.usefixtures("unchecked")
def test_a_changed_function_is_never_another_batch(root, tmp_path):
    assert 10 < check_mutations(1, 60, root, tmp_path, SEEN) < 50


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_changed_functions(root, tmp_path, seed):
    check_mutations(seed, 300, root, tmp_path, SEEN if seed % 2 else _others())
