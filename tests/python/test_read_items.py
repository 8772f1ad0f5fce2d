"""Datasets whose __getitem__ is read: what is native gives torch's batches, and nothing else is native."""

from __future__ import annotations

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
from millrace._pictures.asking import asks, stops_asking
from millrace._pictures.counts import PictureCounts
from pictures import make_picture
from seen_items import SEEN
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Subset

torchvision = torchvision_or_skip()
COUNT = 10
EVEN = transforms.Compose([transforms.Resize(20), transforms.CenterCrop(16), transforms.ToTensor()])
DRAWN = transforms.Compose([transforms.RandomResizedCrop(16), transforms.ToTensor()])


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("items")
    for i in range(COUNT):
        make_picture(40 + 3 * i, 50 - i, seed=i).save(folder / f"{i}.jpg", quality=95)
    return folder


@pytest.fixture
def unchecked(monkeypatch):
    """The reader alone, without the samples that are compared."""
    for name in ("difference", "part_difference"):
        monkeypatch.setattr(f"millrace._loader.plan.items.{name}", lambda *arguments: "")


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


def outcome(loader: Any) -> Any:
    torch.manual_seed(0)
    try:
        return list(loader)
    except Exception as error:
        return type(error)


def samples(batch: Any) -> Any:
    return batch


def others() -> list[Any]:
    try:
        import seen_other_items
    except ImportError:  # OpenCV or pandas
        return []
    return seen_other_items.SEEN


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("cls", [*SEEN, *others()])
def test_batches_are_torchs(cls, workers, root, request):
    if hasattr(cls, "alike"):
        request.getfixturevalue("unchecked")
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


def test_names_that_were_bound_before_millrace_stood_in_front(root, unchecked):
    seen = pytest.importorskip("seen_other_items")
    before = asks(PictureCounts())
    try:
        for cls in (seen.Read, seen.Colours, seen.OfFiles):
            assert is_native(loader_of(cls(root, COUNT, EVEN), 4))
    finally:
        stops_asking(before)


def test_a_folder_with_a_method_of_ones_own(root, tmp_path):
    """What is inherited is read, and what a library's class gives alone stays native without that."""
    seen = pytest.importorskip("seen_other_items")
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for file in sorted(root.iterdir())[:3]:
            (tmp_path / name / file.name).symlink_to(file)
    dataset = seen.Folder(tmp_path, None, EVEN)
    loader = loader_of(dataset, 4)
    assert is_native(loader) and "Folder of 6 samples, whose __getitem__ is read" in loader.explain()
    assert same(list(loader), list(TorchLoader(dataset, 4)))


def test_a_folder_with_a_loader_of_ones_own(root, tmp_path, monkeypatch):
    (tmp_path / "cat").mkdir()
    for file in sorted(root.iterdir())[:3]:
        (tmp_path / "cat" / file.name).symlink_to(file)
    dataset = torchvision.datasets.ImageFolder(tmp_path, EVEN, loader=seen_items.rgb_loader)
    loader = loader_of(dataset, 2)
    assert is_native(loader) and "ImageFolder of 3 samples, whose __getitem__ is read" in loader.explain()
    assert same(list(loader), list(TorchLoader(dataset, 2)))
    monkeypatch.setattr(torchvision, "get_image_backend", lambda: "accimage")
    dataset.loader = torchvision.datasets.folder.default_loader
    assert not is_native(loader)


@pytest.mark.parametrize("cls", SEEN)
def test_it_is_the_default(cls, root):
    dataset = cls(root, COUNT, EVEN)
    assert is_native(millrace.DataLoader(dataset, 4))
    assert not is_native(millrace.DataLoader(dataset, 4, pictures="lazy"))
    assert not is_native(loader_of(dataset, 4, native="never"))
    assert not is_native(loader_of(dataset, 4, on_error="skip"))
    assert not is_native(loader_of(dataset, batch_size=None))


class Sorts(seen_items.Pairs):
    def __getitem__(self, index):
        image = seen_items.rgb_loader(self.folder / self.names[index])
        return self.transform(image), sorted([index, 3])[0]


class Rolls(seen_items.Alone):
    def __getitem__(self, index):
        image = self.transform(seen_items.rgb_loader(self.folder / self.names[index]))
        return image.roll(index)


@pytest.mark.parametrize("cls, part", [(Sorts, "`sorted([index, 3])`"), (Rolls, "`image.roll(index)`")])
def test_what_is_not_read_is_named(cls, part, root):
    loader = loader_of(cls(root, COUNT, EVEN), 4)
    line = cls.__getitem__.__code__.co_firstlineno + 2
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


def test_pictures_of_a_sample_draw_for_themselves(root):
    seen = pytest.importorskip("seen_other_items")
    for cls in (seen.Views, seen.TwoFiles, seen.TwoCrops, seen.Frames, seen.Contrasts):
        batch = next(iter(loader_of(cls(root, COUNT, DRAWN), 4)))
        first, second, *_ = batch.values() if isinstance(batch, dict) else batch
        if second.ndim == 1:  # a stack, and labels
            first, second = first[:, 0], first[:, 1]
        assert first.shape == second.shape and not torch.equal(first, second)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_replayed(root, workers):
    dataset = seen_items.Pairs(root, COUNT, DRAWN)
    loader = loader_of(dataset, batch_sampler=[[1, 1, 2], [1, 0], [2, 1]], num_workers=workers, history=True)
    batches = list(loader)
    assert all(same(loader.replay(number), batch) for number, batch in enumerate(batches))


def test_each_line_says_who_does_it(root):
    begin = seen_items.Pairs.__getitem__.__code__.co_firstlineno
    told = [
        line
        for line in loader_of(seen_items.Pairs(root, COUNT, EVEN)).explain().splitlines()
        if line[:5] == "line "
    ]
    opens = 'image = Image.open(os.path.join(self.root, path)).convert("RGB")'
    assert told == [
        f"line {begin + 1}: python — path, label = self.samples[index]",
        f"line {begin + 2}: native, values python — {opens}",
        f"line {begin + 4}: native — image = self.transform(image)",
    ]


@pytest.mark.parametrize("cls", SEEN[:2])
def test_what_a_batch_was_made_of(root, cls):
    loader = loader_of(cls(root, COUNT, DRAWN), batch_sampler=[[3, -1]], history=True)
    list(loader)
    seen = loader.seen(0)
    assert seen["indices"] == [3, -1] and seen["paths"] == [str(root / f"{i}.jpg") for i in (3, 9)]
    assert "cost: native — " in loader.explain(samples=4)


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
    monkeypatch.setattr("millrace._loader.plan.item_prefix.read_item", read)
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
    monkeypatch.setattr("millrace._loader.plan.item_prefix.read_item", nowhere)
    loader = loader_of(seen_items.Pairs(root, COUNT, EVEN), 4)
    assert "Pairs runs in Python: the engine decodes no picture of its kind" in loader.explain()
    assert not recwarn.list and same(list(loader), list(TorchLoader(loader.dataset, 4)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", range(2, COUNT))
def test_what_is_drawn_is_no_mistake(root, count):
    """A flip is the same one in every other case, by both."""
    flips = transforms.Compose(
        [*EVEN.transforms[:2], transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    )
    assert is_native(loader_of(seen_items.Pairs(root, count, flips), 4))


def test_samples_are_compared_once(root, monkeypatch):
    compared = []
    monkeypatch.setattr(
        "millrace._loader.plan.items_check._of_sample", lambda *sample: compared.append(sample)
    )
    dataset = seen_items.Pairs(root, COUNT, DRAWN)
    for part in (dataset, dataset, Subset(dataset, [0])):
        list(loader_of(part, 4))
    assert len(compared) == 3
