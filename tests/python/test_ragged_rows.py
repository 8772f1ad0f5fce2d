"""Pictures of several sizes, for a collate_fn that takes samples: rows of any shape in the batch's memory."""

import itertools
import random

import millrace
import pytest
import torch
from loader_data import make_folder, torchvision_or_skip
from millrace import transforms as t
from millrace._loader.plan import make_plan
from millrace._loader.remote.blocks import Landing, as_blocks, from_blocks
from millrace._loader.remote.maker import Work, maker_of
from millrace.datasets import ImageFolder
from PIL import Image
from shard_data import same
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Subset

COUNT = 23
NORMALIZE = t.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("ragged")
    make_folder(root, COUNT)
    return str(root)


# ------------------------------------------------------------------------------------------ collate functions


def untouched(batch):
    return batch


def columns(batch):
    return tuple(zip(*batch))


def padded(batch):
    """With the row's own size, so that a row of another sample's cannot go unseen."""
    pictures = [leaf for sample, _ in batch for leaf in leaves(sample)]
    height, width = (max(picture.shape[side] for picture in pictures) for side in (-2, -1))
    out = pictures[0].new_zeros(len(pictures), 3, height, width)
    for to, picture in zip(out, pictures):
        to[:, : picture.shape[-2], : picture.shape[-1]] = picture
    return {"pixels": out, "sizes": [tuple(p.shape) for p in pictures], "labels": [y for _, y in batch]}


def changed_in_place(batch):
    return [(leaf.mul_(2).add_(i), y) for i, (sample, y) in enumerate(batch) for leaf in leaves(sample)]


def sorted_by_size(batch):
    return sorted(batch, key=lambda pair: (leaves(pair[0])[0].numel(), pair[1]))


def leaves(sample):
    if isinstance(sample, torch.Tensor):
        return [sample]
    values = sample.values() if isinstance(sample, dict) else sample
    return [leaf for value in values for leaf in leaves(value)]


COLLATES = [untouched, columns, padded, changed_in_place, sorted_by_size]

# ------------------------------------------------------------------------------------------------- transforms

TRANSFORMS = {
    "as they are": lambda: t.ToTensor(),
    "shorter edge": lambda: t.Compose([t.Resize(12), t.ToTensor()]),
    "bytes": lambda: t.Compose([t.Resize(9), t.PILToTensor()]),
    "normalized": lambda: t.Compose([t.Resize(15), t.ToTensor(), NORMALIZE]),
    "large": lambda: t.Compose([t.Resize(150), t.ToTensor()]),
    "grey": lambda: t.Compose([t.Grayscale(3), t.Resize(10), t.ToTensor()]),
    "views": lambda: t.MultiView([t.ToTensor(), t.Compose([t.Resize(8), t.ToTensor()])]),
    "views, one of a size": lambda: t.MultiView(
        {"a": t.ToTensor(), "b": t.Compose([t.CenterCrop(6), t.ToTensor()])}
    ),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] if case % 12 else []) for case in range(300)]
)
def test_random_loaders(root, case):
    """Batches, states in the middle of an epoch, and what is replayed."""
    draw = random.Random(case)
    transform, collate = draw.choice([*TRANSFORMS.values()]), draw.choice(COLLATES)
    size, shuffle, workers = draw.randint(1, 9), draw.random() < 0.6, draw.choice([0, 1, 2])
    options = {
        "batch_size": size,
        "shuffle": shuffle,
        "drop_last": draw.random() < 0.3,
        "collate_fn": collate,
        "pin_memory": False,
    }

    def dataset():
        whole = ImageFolder(root, transform())
        return Subset(whole, range(20, 3, -1)) if case % 4 == 0 else whole

    def loader(cls, **more):
        return cls(dataset(), **options, generator=torch.Generator().manual_seed(case), **more)

    wanted = loader(TorchLoader)
    expected = [list(wanted), list(wanted)]
    native = {"num_workers": workers, "native": "require"}
    ours = loader(millrace.DataLoader, **native)
    for epoch in expected:
        assert same(list(ours), epoch, ordered=True)
    stop = draw.randrange(len(expected[0]) + 1)
    begun = loader(millrace.DataLoader, **native)
    first = list(itertools.islice(begun, stop))
    other = loader(millrace.DataLoader, **{**native, "num_workers": workers or 2})
    other.load_state_dict(begun.state_dict())
    whole = [first + list(other), list(other)] if stop else [list(other), list(other)]
    if stop == len(expected[0]):  # its end was not seen: the state's epoch is over
        whole[0] = first
    assert same(whole[0], expected[0], ordered=True)
    step = draw.randrange(len(expected[1]))
    assert same(ours.replay(step), expected[1][step], ordered=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_sizes_by_chance(root, workers):
    """Each row is what the dataset gives for its key."""
    torchvision_or_skip()
    from torchvision.transforms import v2

    for random_size in (v2.RandomShortestSize(8, 20), v2.ScaleJitter((18, 18))):
        dataset = ImageFolder(root, v2.Compose([random_size, v2.RGB(), v2.PILToTensor()]))
        loader = millrace.DataLoader(
            dataset, 5, num_workers=workers, collate_fn=untouched, native="require", shuffle=True
        )
        for _ in range(2):
            batches = list(loader)
            samples = [sample for batch in batches for sample in batch]
            assert len({picture.shape for picture, _ in samples}) > 3
            for (picture, label), index in zip(samples, indices_of(loader, batches)):
                expected, target = dataset.at(index, loader.seed, loader.epoch)
                assert torch.equal(picture, expected) and label == target


def indices_of(loader, batches):
    return [index for step in range(len(batches)) for index in loader.seen(step)["indices"]]


@pytest.mark.parametrize("make", ["torchvision", "timm", "datasets"])
@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_of_other_libraries(root, make, workers):
    v1 = torchvision_or_skip().transforms
    transform = v1.Compose([v1.Resize(11), v1.ToTensor()])
    if make == "torchvision":
        dataset = torchvision_or_skip().datasets.ImageFolder(root, transform)
    elif make == "timm":
        dataset = pytest.importorskip("timm.data").ImageDataset(root, transform=transform)
    else:
        hf = pytest.importorskip("datasets")
        paths = [path for path, _ in ImageFolder(root).samples]
        columns_ = hf.Dataset.from_dict({"image": paths, "label": list(range(COUNT))})

        def convert(examples):
            examples["image"] = [transform(picture.convert("RGB")) for picture in examples["image"]]
            return examples

        dataset = columns_.cast_column("image", hf.Image()).with_transform(convert)
    loader = millrace.DataLoader(dataset, 4, num_workers=workers, collate_fn=untouched, native="require")
    for _ in range(2):
        assert same(list(loader), list(TorchLoader(dataset, 4, collate_fn=untouched)), ordered=True)


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_that_cannot_be_read(tmp_path, policy, workers):
    paths = make_folder(tmp_path, COUNT)
    for number in (2, 3, 11):
        with open(paths[number], "wb") as file:
            file.write(b"no picture")
    dataset = ImageFolder(str(tmp_path), TRANSFORMS["shorter edge"]())
    loader = millrace.DataLoader(
        dataset, 4, num_workers=workers, collate_fn=untouched, on_error=policy, native="require"
    )
    batches = list(loader)
    samples = [picture for batch in batches for picture, _ in batch]
    assert len(samples) == (COUNT - 3 if policy == "skip" else COUNT)
    indices = indices_of(loader, batches)
    assert not {2, 3, 11} & set(indices)
    for picture, index in zip(samples, indices):
        assert torch.equal(picture, dataset[index][0])


def test_rows_lie_in_the_batchs_memory_and_outlive_it(root):
    dataset = ImageFolder(root, TRANSFORMS["large"]())
    loader = millrace.DataLoader(dataset, 4, num_workers=2, collate_fn=untouched, native="require")
    expected = [picture.clone() for batch in loader for picture, _ in batch]
    kept = [picture for batch in loader for picture, _ in batch]
    list(loader)
    assert all(map(torch.equal, kept, expected))
    last = list(loader)[-1]
    assert len({picture.untyped_storage().data_ptr() for picture, _ in last}) == len(last)
    assert all(picture.is_contiguous() and picture.data_ptr() % 64 == 0 for picture, _ in last)


def test_what_takes_a_batch_is_told_that_sizes_differ(root):
    """As torch has it."""
    dataset = ImageFolder(root, t.ToTensor())
    for collate_fn in (None, lambda batch: padded(torch.utils.data.default_collate(batch))):
        with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
            next(iter(millrace.DataLoader(dataset, 4, collate_fn=collate_fn, native="require")))


@pytest.mark.parametrize("views, edge", [(9, 12613), (5, 13300)])  # elements: beyond 2^32, and beyond 2^31
def test_views_that_are_too_many_for_a_row_are_an_error(tmp_path, views, edge):
    (tmp_path / "a").mkdir()
    Image.new("RGB", (64, 64)).save(tmp_path / "a" / "0.png")
    several = t.MultiView([t.Compose([t.Resize(edge), t.PILToTensor()]) for _ in range(views)])
    dataset = ImageFolder(str(tmp_path), several)
    with pytest.raises(ValueError, match="more than fit a row"):
        next(iter(millrace.DataLoader(dataset, 1, collate_fn=untouched, native="require")))


@pytest.mark.parametrize("name", ["shorter edge", "views"])
def test_other_machines_make_the_same_rows(root, name):
    dataset = ImageFolder(root, TRANSFORMS[name]())
    loader = millrace.DataLoader(dataset, 5, collate_fn=untouched, native="require")
    spec = make_plan(loader).spec
    maker = maker_of(spec, 2, 5, "system")
    try:
        for rows in ([3, 1, 2, 22, 0], [5]):
            pictures, labels = maker.make(Work((7, 0), torch.tensor(rows).numpy(), None))
            blocks = as_blocks((pictures, labels))
            arrays = [array.copy() for array in blocks.arrays]
            arrived = from_blocks((blocks.skeleton, blocks.tensors, arrays), Landing(False))
            samples = spec.python_collate(spec.collated(arrived))
            assert same(samples, [dataset[row] for row in rows], ordered=True)
            assert same(
                spec.python_collate(spec.collated(maker.first((pictures, labels), 1))),
                [dataset[rows[0]]],
                ordered=True,
            )
    finally:
        maker.close()
