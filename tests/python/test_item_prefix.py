"""Datasets whose __getitem__ is read up to a step that is not known: the steps before it are native."""

from __future__ import annotations

import dataclasses
import traceback
from typing import Any

import millrace
import numpy as np
import pytest
import seen_items
import seen_prefix_items as seen
import torch
from loader_data import generator_states
from millrace import transforms
from millrace._common.lowering.read_items import read_item
from millrace._loader.engines.item_prefix import PrefixedItems
from pictures import jpeg_bytes, make_picture
from PIL import Image, ImageOps
from prefix_cases import Doubled, Raises, Shaken, Solarised
from test_read_items import COUNT, EVEN, is_native, others, root, same, samples  # noqa: F401
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Subset

KNOWN = [transforms.Resize(20), transforms.CenterCrop(16)]
TAIL = [transforms.ToTensor(), transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.2))]
PARTLY = transforms.Compose([*KNOWN, Solarised(), *TAIL])
DRAWN = [transforms.RandomResizedCrop(16), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]
HOW: list[dict[str, Any]] = [{}, {"num_workers": 2}, {"num_workers": 2, "worker_method": "thread"}]


class Unmade(BaseException):
    """A sample that the engine has no part in."""


@pytest.fixture
def made(monkeypatch):
    """Whatever the dataset itself would be asked for fails the test."""
    sample = PrefixedItems.sample

    def checked(self: Any, *key: int) -> Any:
        try:
            return sample(self, *key)
        except Exception as error:
            raise Unmade from error

    monkeypatch.setattr(PrefixedItems, "sample", checked)


def is_partly_native(loader: Any) -> bool:
    return is_native(loader) and "\ntransform: python — " in loader.explain()


def loader_of(dataset: Any, *arguments: Any, seed: int = 3, **options: Any) -> Any:
    torch.manual_seed(seed)
    return millrace.DataLoader(dataset, *arguments, **options)


def check(dataset: Any, how: dict[str, Any]) -> None:
    part = Subset(Subset(dataset, range(1, 9)), [5, 3, -1, 5, 0])
    cases: list[Any] = [(dataset, {"batch_sampler": [[1, -1], [2], [0, 1, 0]]}), (part, {"batch_size": 4})]
    if not how:
        cases += [(part, {"batch_size": 4, "collate_fn": samples}), (dataset, {"batch_size": 4})]
    for whole, options in cases:
        loader = loader_of(whole, **how, **options)
        assert is_partly_native(loader)
        assert same(list(loader), list(TorchLoader(whole, **options)))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("cls", seen.SEEN)
def test_batches_are_torchs(cls, how, root, made):
    check(cls(root, COUNT, transforms.Compose([*KNOWN, *TAIL])), how)


NEVER_PARTLY = "Sized", "Floats", "Functions", "OfTensors", "Read", "Decoded", "OfFiles"  # no transform


@pytest.mark.parametrize("cls", [*seen_items.SEEN, *others()])
def test_so_are_those_of_all_forms_of_datasets(cls, root, made):
    if cls.__name__ in NEVER_PARTLY:
        pytest.skip("it has no transform")
    dataset = cls(root, COUNT, PARTLY)
    if cls.__name__ in ("Grey", "Unlike", "Digits"):  # the rest would get a picture of one channel
        assert not is_native(loader_of(dataset))
    else:
        check(dataset, {})


@pytest.mark.parametrize("cls", seen.PYTHON)
def test_what_stays_in_python(cls, root):
    dataset = cls(root, COUNT, transforms.Compose([*KNOWN, *TAIL]))
    loader = loader_of(dataset, 4)
    assert not is_native(loader) and same(list(loader), list(TorchLoader(dataset, 4)))
    dataset = seen_items.Pairs(root, COUNT, PARTLY)
    for options in ({"pictures": "lazy"}, {"native": "never"}, {"on_error": "skip"}, {"batch_size": None}):
        assert is_native(loader_of(dataset)) and not is_native(loader_of(dataset, **options))


# ---------------------------------------------------------------- draws


@pytest.mark.parametrize("how", HOW)
def test_known_steps_draw_as_in_native_loaders(root, how, made):
    """Of each file, and of each view, by the sample's key."""
    options = {"batch_sampler": [[1, 1, 2], [1, 0, -1]], **how}
    step = transforms.Compose([*DRAWN, Doubled()])
    named = "TwoFiles", "Triplets", "Views", "TwoCrops", "Frames", "Contrasts"
    for cls in (seen.Known, *(other for other in others() if other.__name__ in named and not how)):
        loaders, batches = [], []
        for steps in (step, transforms.Compose(DRAWN)):
            loaders.append(loader_of(cls(root, COUNT, steps), **options))
            batches.append(list(loaders[-1]))
        assert list(map(is_partly_native, loaders)) == [True, False] and is_native(loaders[1])
        for both in zip(*batches, strict=True):
            for one, other in zip(*map(torch.utils._pytree.tree_leaves, both), strict=True):
                is_picture = isinstance(other, torch.Tensor) and other.dtype is torch.uint8
                assert same(one, other * 2 if is_picture else other)


def test_no_number_of_workers_changes_a_byte(root, made):
    dataset = seen_items.Dicts(root, COUNT, transforms.Compose([*DRAWN[:2], Shaken(), *DRAWN[2:]]))

    def batches(workers: int = 0, seed: int = 3, **options: Any) -> list[Any]:
        return list(loader_of(dataset, 3, seed=seed, shuffle=True, num_workers=workers, **options))

    whole = batches()
    assert not torch.equal(whole[0]["image"], batches(seed=4)[0]["image"])
    for workers in (1, 2):
        assert same(batches(workers), whole)
    assert same(batches(1, multiprocessing_context="spawn"), whole)
    loader = loader_of(dataset, 3, shuffle=True, num_workers=2, persistent_workers=True)
    assert same(list(loader), whole)
    again = list(loader)
    assert not torch.equal(again[0]["image"], whole[0]["image"])
    assert same(loader.replay(1), again[1])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_resumes_goes_on(root, workers, made):
    dataset = seen_items.Pairs(root, COUNT, transforms.Compose([*DRAWN[:2], Shaken(), *DRAWN[2:]]))

    def loader() -> Any:
        return loader_of(dataset, 3, shuffle=True, num_workers=workers)

    whole, begun = list(loader()), loader()
    iterator = iter(begun)
    first = [next(iterator), next(iterator)]
    other = loader()
    other.load_state_dict(begun.state_dict())
    assert same([*first, *other], whole)


# ---------------------------------------------------------------- errors


def error_of(loader: Any) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: B017, PT011
        list(loader)
    return caught.value


@pytest.mark.parametrize("how", HOW)
def test_errors_are_torchs(root, how):
    broken = seen_items.Pairs(root, COUNT, transforms.Compose([*KNOWN, Raises(), *TAIL]))
    ours, theirs = loader_of(broken, 4, **how), TorchLoader(broken, 4, num_workers=how.get("num_workers", 0))
    assert is_partly_native(ours)
    one, other = error_of(ours), error_of(theirs)
    assert type(one) is type(other) is ArithmeticError and "this step fails" in str(one)
    text = "".join(traceback.format_exception(one))
    assert "seen_items.py" in text and "During handling" not in text
    for change in (("missing.jpg", 0), (None, 0), ("3.jpg",)):
        dataset = seen_items.Pairs(root, COUNT, PARTLY)
        dataset.samples[3] = change
        loader = loader_of(dataset, 2, **how)
        assert is_partly_native(loader)
        iterator = iter(loader)
        assert same(next(iterator), next(iter(TorchLoader(Subset(dataset, [0, 1]), 2))))
        with pytest.raises(type(error_of(TorchLoader(dataset, 2)))):
            next(iterator)
        assert same(next(iterator), next(iter(TorchLoader(Subset(dataset, [4, 5]), 2))))


class Refuses:
    """Raises for one picture."""

    def __call__(self, picture: Any) -> Any:
        if float(picture.mean()) < 0.3:
            raise ArithmeticError("too dark")
        return picture


@pytest.mark.parametrize("how", HOW)
def test_what_a_try_catches_is_the_datasets(root, how):
    steps = transforms.Compose([*KNOWN, TAIL[0], Refuses()])
    dataset = seen.Tries(root, COUNT, steps)
    theirs = list(TorchLoader(dataset, 4))
    assert is_partly_native(loader_of(dataset, 4)) and same(list(loader_of(dataset, 4, **how)), theirs)


# ---------------------------------------------------------------- what is told


def test_each_line_says_who_does_it(root):
    dataset = seen.Between(root, COUNT, EVEN)
    begin = seen.Between.__getitem__.__code__.co_firstlineno
    told = loader_of(dataset, 4).explain().splitlines()
    assert told[0] == (
        "dataset: native — Between of 10 samples, whose __getitem__ is read, read and decoded where samples"
        " are made"
    )
    assert told[1] == 'transform: native — convert("RGB"), Resize'
    assert told[2].startswith("transform: python — darker (of seen_prefix_items) has no native form")
    behind = "Resize, CenterCrop, ToTensor, self.transform(image) * 2, self.transform(image) * 2 - 1"
    assert told[2].endswith(f". Behind it, in Python, too: {behind}")
    assert f"line {begin + 1}: native, then python — image = darker(self.resize(self.open(index)))" in told
    assert (
        f'line {begin + 2}: python — return {{"image": self.transform(image) * 2 - 1, "index": index}}'
        in told
    )


def test_each_step_in_python_has_its_cost(root):
    told = loader_of(seen.Masks(root, COUNT, EVEN), 4).explain(samples=4).splitlines()
    assert "transform: native — 2 pictures of a sample: " in told[1]
    (native, python) = (line for line in told if line.startswith("cost: "))
    assert native.startswith("cost: native — fetch ") and python.startswith("cost: python — darker ")


# ---------------------------------------------------------------- samples that are compared


def mistaken(change: Any) -> Any:
    def read(dataset: Any) -> Any:
        item = read_item(dataset)
        return dataclasses.replace(item, values=lambda index: change(*item.values(index)))

    return read


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("[0-3] for [0-2]\\)", lambda path, label: (path, label + 1)),
        ("a picture ", lambda path, label: (path[:-5] + "9.jpg", label)),
    ],
)
def test_mistakes_are_told_and_reach_no_batch(root, monkeypatch, said, change):
    monkeypatch.setattr("millrace._loader.plan.item_prefix.read_item", mistaken(change))
    dataset = seen_items.Pairs(root, COUNT, PARTLY)
    loader, before = loader_of(dataset, 4), generator_states()
    with pytest.warns(UserWarning, match=said):
        assert not is_native(loader)
    assert generator_states() == before
    with pytest.warns(UserWarning, match="not read rightly"):
        assert same(list(loader_of(dataset, 4)), list(TorchLoader(dataset, 4)))


class Noise:
    """Draws from a generator of its own, and counts its calls."""

    def __init__(self) -> None:
        self.generator, self.calls = np.random.default_rng(5), 0

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return tensor + self.generator.integers(1, 9) * 100


@pytest.mark.filterwarnings("error")
def test_what_is_drawn_is_no_mistake_and_nobody_notices(root, made):
    """Generators of one's own are where they were, behind the samples that are compared."""
    noise = Noise()
    dataset = seen_items.Pairs(root, COUNT, transforms.Compose([*KNOWN, *TAIL, noise]))
    loader = loader_of(dataset, 4)
    assert is_partly_native(loader) and noise.calls == 0
    ours = list(loader)
    assert noise.calls == COUNT
    noise.__init__()
    assert same(ours, list(TorchLoader(dataset, 4)))


def test_samples_are_compared_once(root, monkeypatch):
    compared = []
    monkeypatch.setattr("millrace._loader.plan.items_check._of_part", lambda *sample: compared.append(sample))
    dataset = seen_items.Pairs(root, COUNT, PARTLY)
    for part in (dataset, dataset, Subset(dataset, [0])):
        list(loader_of(part, 4, num_workers=1))
    assert len(compared) == 3


def test_what_pillow_knows_of_the_file_is_there(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    for i in range(2):
        content = jpeg_bytes(make_picture(50, 40, seed=i), exif=exif, dpi=(72, 72))
        (tmp_path / f"{i}.jpg").write_bytes(content)
    steps = [transforms.Resize((30, 20)), ImageOps.exif_transpose, transforms.ToTensor()]
    for cls in (seen_items.Pairs, *(one for one in others() if one.__name__ in ("Blobs", "Upright"))):
        dataset = cls(tmp_path, 2, transforms.Compose(steps))
        loader, theirs = loader_of(dataset), list(TorchLoader(dataset))
        assert is_partly_native(loader) and same(list(loader), theirs)
