"""MixUp and CutMix in a collate_fn: done by the engine's threads where the function only mixes pictures, and
the same batches in any case as when it is called with them.
"""

import millrace
import numpy as np
import pytest
import torch
from loader_data import make_folder, pictures, torchvision_or_skip
from millrace import _core, transforms
from millrace._loader.engines.native import ImageSpec
from shard_data import same
from torch.utils.data import default_collate

COUNT, SIZE = 23, 24
CLASSES = COUNT  # each picture is one


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("mixing")
    make_folder(root, COUNT)
    return str(root)


def dataset(root, *steps):
    return pictures(
        root,
        transform=transforms.Compose(
            [
                transforms.RandomResizedCrop(SIZE),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
                *steps,
            ]
        ),
    )


def of_fields(function):
    def collate_fn(batch):
        return function(*default_collate(batch))

    return collate_fn


def of_batch(function):
    def collate_fn(batch):
        return function(default_collate(batch))

    return collate_fn


def epochs(data, collate_fn, count=1, **options):
    torch.manual_seed(3)
    options = {"batch_size": 5, "shuffle": True, "num_workers": 2, "native": "require"} | options
    loader = millrace.DataLoader(data, collate_fn=collate_fn, **options)
    return [[batch for batch in loader] for _ in range(count)]


@pytest.fixture
def in_python(monkeypatch):
    """The function is called with each batch, in next()."""

    def run(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(ImageSpec, "mixer", lambda *_: None)
            return epochs(*arguments, **options)

    return run


@pytest.fixture
def mixed(monkeypatch):
    """Counts the batches that the core is told to mix."""
    calls = []

    original = _core.Loader.submit_mixed

    def counted(core, *arguments):
        calls.append(arguments)
        return original(core, *arguments)

    monkeypatch.setattr(_core.Loader, "submit_mixed", counted)
    return calls


# -- what only mixes


class RandomMixup:
    """As in torchvision's references."""

    def __init__(self, p, alpha):
        self.p, self.alpha = p, alpha

    def __call__(self, images, labels):
        labels = torch.nn.functional.one_hot(labels, CLASSES).to(images.dtype)
        if torch.rand(1).item() >= self.p:
            return images, labels
        rolled, rolled_labels = images.roll(1, 0), labels.roll(1, 0)
        share = float(torch._sample_dirichlet(torch.tensor([self.alpha, self.alpha]))[0])
        rolled.mul_(1.0 - share)
        images.mul_(share).add_(rolled)
        rolled_labels.mul_(1.0 - share)
        labels.mul_(share).add_(rolled_labels)
        return images, labels


def by_permutation(batch):
    """As in the original code of MixUp, with numpy's draws."""
    images, labels = batch
    share = np.random.beta(0.4, 0.4)
    order = torch.randperm(images.size(0))
    mixed = share * images + (1 - share) * images[order, :]
    return {"image": mixed, "label": (labels, labels[order], share)}


def cut_by_permutation(batch):
    """As in the original code of CutMix: pixels of other rows are written into the batch."""
    images, labels = batch
    order = torch.randperm(len(images))
    left, top = int(torch.randint(SIZE, (1,))), int(torch.randint(SIZE, (1,)))
    images[:, :, top : top + 9, left:SIZE] = images[order, :, top : top + 9, left:SIZE]
    return [images, labels, labels[order]]


def flipped(images, labels):
    """As timm's, of whole batches."""
    share = torch.tensor(0.25)
    other = images.flip(0).mul_(1.0 - share)
    images.mul_(share).add_(other)
    return images, labels


def nothing(images, labels):
    return images, labels + 1


ONLY_MIXES = {
    "RandomMixup": of_fields(RandomMixup(0.7, 0.2)),
    "permutation": of_batch(by_permutation),
    "cut": of_batch(cut_by_permutation),
    "flip": of_fields(flipped),
}


@pytest.mark.parametrize("erasing", [False, True])
@pytest.mark.parametrize("name", ONLY_MIXES)
def test_batches_are_what_the_function_makes_of_them(root, name, erasing, in_python, mixed):
    data = dataset(root, *([transforms.RandomErasing(p=0.6, value="random")] if erasing else []))
    expected = in_python(data, ONLY_MIXES[name], count=2)
    assert not mixed
    ours = epochs(data, ONLY_MIXES[name], count=2)
    assert len(mixed) == 10 if name != "RandomMixup" else 0 < len(mixed) < 10
    assert same(ours, expected, ordered=True)


@pytest.mark.parametrize("name", ["MixUp", "CutMix", "RandomChoice"])
def test_torchvisions(root, name, in_python, mixed):
    torchvision_or_skip()
    from torchvision.transforms import v2

    mixup, cutmix = v2.MixUp(num_classes=CLASSES, alpha=0.4), v2.CutMix(num_classes=CLASSES)
    function = {"MixUp": mixup, "CutMix": cutmix}.get(name) or v2.RandomChoice([mixup, cutmix])
    data = dataset(root)
    expected = in_python(data, of_fields(function), count=3)
    assert same(epochs(data, of_fields(function), count=3), expected, ordered=True)
    assert len(mixed) == 15


def test_pictures_that_stay_as_they_are(root, in_python, mixed):
    data = dataset(root)
    assert same(epochs(data, of_fields(nothing)), in_python(data, of_fields(nothing)), ordered=True)
    assert not mixed


# -- what does something else: the function is called with the batch


def looks_at_values(images, labels):
    return images * float(images.mean() > 0) + images.roll(1, 0), labels


def three_of_them(images, labels):
    return 0.5 * images + 0.3 * images.roll(1, 0) + 0.2 * images.roll(2, 0), labels


def along_the_sides(images, labels):
    return images.roll(1, 2), labels


def moved(images, labels):
    images[:, :, 2:6, 2:6] = images.roll(1, 0)[:, :, 3:7, 2:6]
    return images, labels


def stale_part(images, labels):
    part = images.roll(1, 0)
    view = part[:, :, 2:6, 2:6]
    part.mul_(0.5)
    images[:, :, 2:6, 2:6] = view
    return images, labels


def arithmetic_in_a_part(images, labels):
    images[:, :, 2:6, 2:6].mul_(0.5)
    return images, labels


def some_rows(images, labels):
    return images[1:], labels[1:]


def repeated_rows(images, labels):
    return 0.5 * images + 0.5 * images[torch.zeros(len(images), dtype=torch.int64)], labels


def own_order(images, labels):
    return images.flip(0), labels


def twice(images, labels):
    return images, images.roll(1, 0), labels


def of_rows(images, labels):
    factors = torch.rand(len(images), 1, 1, 1)
    return images * factors + images.roll(1, 0) * (1 - factors), labels


def times(images, labels):
    return images * 0.5, labels


def rounded(images, labels):
    return images.half(), labels


def with_alpha(images, labels):
    return torch.add(images, images.roll(1, 0), alpha=0.5), labels


def mixed_again(images, labels):
    mixed = 0.5 * images + 0.5 * images.roll(1, 0)
    mixed[:, :, :4] = mixed.flip(0)[:, :, :4]
    return mixed, labels


def held(images, labels):
    class Box:
        value = images * 0.5 + images.roll(1, 0) * 0.5

    return Box.value.sum(), labels


ELSE = [
    looks_at_values, three_of_them, along_the_sides, moved, stale_part, arithmetic_in_a_part, some_rows,
    repeated_rows, own_order, twice, of_rows, times, rounded, with_alpha, mixed_again, held,
]  # fmt: skip


@pytest.mark.parametrize("function", ELSE, ids=lambda function: function.__name__)
def test_other_functions_are_called_with_the_batch(root, function, in_python, mixed):
    data = dataset(root)
    assert same(epochs(data, of_fields(function)), in_python(data, of_fields(function)), ordered=True)
    assert not mixed


@pytest.mark.parametrize(
    "options", [{"num_workers": 0}, {"on_error": "skip"}, {"on_error": "replace"}], ids=str
)
def test_loaders_whose_function_is_called_in_next(root, options, in_python, mixed):
    data = dataset(root)
    np.random.seed(1)
    expected = in_python(data, of_batch(by_permutation), **options)
    np.random.seed(1)
    assert same(epochs(data, of_batch(by_permutation), **options), expected, ordered=True)
    assert not mixed


@pytest.mark.parametrize(
    "steps",
    [
        [
            transforms.RandomResizedCrop(SIZE),
            transforms.ToTensor(),
            transforms.ConvertImageDtype(torch.float16),
        ],
        [transforms.RandomResizedCrop(SIZE), transforms.PILToTensor()],
    ],
    ids=["float16", "uint8"],
)
def test_pictures_of_other_types(root, steps, in_python, mixed):
    data = pictures(root, transform=transforms.Compose(steps))

    def function(images, labels):
        images = images.roll(1, 0) if images.dtype == torch.uint8 else 0.5 * images + 0.5 * images.flip(0)
        return images, labels

    assert same(epochs(data, of_fields(function)), in_python(data, of_fields(function)), ordered=True)
    assert not mixed


# -- errors, states, history


def test_errors_come_at_their_batch(root, mixed):
    def fails(images, labels):
        if 6 in labels:
            raise ZeroDivisionError("the sixth")
        return 0.5 * images + 0.5 * images.roll(1, 0), labels

    def collate_fn(batch):
        return fails(*default_collate(batch))

    loader = millrace.DataLoader(dataset(root), 2, collate_fn=collate_fn, num_workers=2, native="require")
    iterator = iter(loader)
    for first in range(0, COUNT, 2):
        if first == 6:
            with pytest.raises(ZeroDivisionError, match="the sixth"):
                next(iterator)
        else:
            assert next(iterator)[1].tolist() == list(range(COUNT))[first : first + 2]
    assert len(mixed) == (COUNT + 1) // 2 - 1


def test_an_index_that_is_none_is_an_error_of_its_batch(root):
    loader = millrace.DataLoader(
        dataset(root), batch_sampler=[[0, 1], [2, 99], [3, 4]], collate_fn=of_fields(flipped), num_workers=2
    )
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(IndexError):
        next(iterator)
    assert len(next(iterator)[1]) == 2


@pytest.mark.parametrize("stop", [1, 3])
def test_resumed_and_replayed(root, stop, mixed):
    data, options = dataset(root), {"shuffle": True, "num_workers": 2, "collate_fn": of_batch(by_permutation)}
    torch.manual_seed(4)
    loader = millrace.DataLoader(data, 5, **options)
    batches, state = [], None
    for step, batch in enumerate(loader):
        batches.append(batch)
        if step + 1 == stop:
            state = loader.state_dict()
    again = millrace.DataLoader(data, 5, **options)
    again.load_state_dict(state)
    assert same(list(again), batches[stop:], ordered=True)
    assert len(mixed) >= 2 * 5 - stop
    assert same(loader.replay(2), batches[2], ordered=True)
