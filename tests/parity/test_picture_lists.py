"""torchvision's datasets that are lists of paths and labels: each batch is that of torch's loader."""

import gc
import random
import sys
import weakref

import millrace
import numpy as np
import pytest
import torch
from loader_data import generator_states, torchvision_or_skip
from picture_trees import (
    IN_ANY_MODE,
    OPENED_AS_RGB,
    accept_files,
    food101,
    image_folder,
    pets,
    places,
    plants,
    ships,
)
from shard_data import same
from torch.utils.data import ConcatDataset, DataLoader, Subset, default_collate, random_split


@pytest.fixture(autouse=True)
def whole(monkeypatch):
    torchvision_or_skip()
    accept_files(monkeypatch)


def chain(*first, size=12):
    from torchvision import transforms

    return transforms.Compose([*first, transforms.Resize((size, size)), transforms.ToTensor()])


def to_rgb():
    from torchvision.transforms import v2

    return v2.RGB()


def check(dataset, *, workers=2, **options):
    """The batches of both loaders; the native one's explain()."""
    options = {"batch_size": 2, **options}
    with_workers = options.pop("torch_workers", 0)
    torch.manual_seed(5)
    expected = list(DataLoader(dataset, num_workers=with_workers, **options))
    torch.manual_seed(5)
    loader = millrace.DataLoader(dataset, num_workers=workers, native="require", **options)
    batches = list(loader)
    assert loader.stats()["engine"] == ("threads" if workers else "inline")
    assert len(batches) == len(expected) > 0
    for batch, wanted in zip(batches, expected):
        assert same(batch, wanted, ordered=True)
    return loader.explain()


@pytest.mark.parametrize("make", OPENED_AS_RGB, ids=lambda make: make.__name__)
def test_lists_of_torchvision(tmp_path, make):
    dataset = make(tmp_path, {"transform": chain()})
    assert f"dataset: native — torchvision {type(dataset).__name__} of {len(dataset)} files" in check(dataset)
    check(dataset, workers=0, shuffle=True)
    check(Subset(dataset, [len(dataset) - 1, -1, 0]))


@pytest.mark.parametrize("make", OPENED_AS_RGB + IN_ANY_MODE, ids=lambda make: make.__name__)
def test_target_transforms(tmp_path, make):
    seen = []

    def told(target):
        seen.append(target)
        return str(target)

    any_mode = make in IN_ANY_MODE
    options = {"transform": chain(to_rgb()) if any_mode else chain(), "target_transform": told}
    explained = check(make(tmp_path, options), shuffle=True, workers=0)
    assert "target_transform: python — told, called in next()" in explained
    half = len(seen) // 2
    assert seen[:half] == seen[half:], "the same targets, in the same order"
    assert [type(target) for target in seen[:half]] == [type(target) for target in seen[half:]]


@pytest.mark.parametrize("make", IN_ANY_MODE, ids=lambda make: make.__name__)
def test_pictures_in_their_own_modes_are_native_behind_rgb(tmp_path, make):
    dataset = make(tmp_path, {"transform": chain(to_rgb())})
    assert {str(dataset[i][0].shape) for i in range(len(dataset))} == {"torch.Size([3, 12, 12])"}
    check(dataset)
    from torchvision.transforms import Lambda

    steps = (lambda picture: picture.convert("RGB"), Lambda(lambda x: x.convert("RGB")), converted)
    for step in (*steps, lambda x, mode="RGB": x.convert(mode)):
        dataset.transform = chain(step)
        assert 'convert("RGB")' in check(dataset)
    dataset.transform = chain()
    explained = millrace.DataLoader(dataset, 2).explain()
    assert "leaves pictures in the modes of their files; begin the transform with" in explained
    with pytest.raises(RuntimeError, match="equal size|same size"):
        list(millrace.DataLoader(dataset, 2))


def converted(picture):
    return picture.convert("RGB")


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x.convert("L"),
        lambda x, mode="L": x.convert(mode),
        lambda x: x.rotate("RGB"),
        lambda x: x.convert("RGB").rotate(9),
        lambda *x: x[0].convert("RGB"),
    ],
)
def test_other_conversions_stay_in_python(tmp_path, step):
    assert "has no native form" in reason(image_folder(tmp_path, {"transform": chain(step)}), "transform")


# -- targets


class Drawing:
    """A target_transform that draws from the global generators."""

    def __call__(self, target):
        return target + random.random() + np.random.rand() + float(torch.rand(()))


def test_a_target_transform_draws_as_under_torch(tmp_path):
    dataset = image_folder(tmp_path, {"transform": chain(), "target_transform": Drawing()})
    states = []
    for loader in (DataLoader(dataset, 4), millrace.DataLoader(dataset, 4, native="require")):
        torch.manual_seed(1), random.seed(1), np.random.seed(1)
        states.append((list(loader), generator_states()))
    assert same(states[1][0], states[0][0], ordered=True)
    assert states[0][1] == states[1][1]


def test_what_a_target_transform_draws_does_not_depend_on_the_number_of_workers(tmp_path):
    dataset = image_folder(tmp_path, {"transform": chain(), "target_transform": Drawing()})
    runs = []
    for workers in (1, 2):
        torch.manual_seed(2)
        loader = millrace.DataLoader(dataset, 4, num_workers=workers, native="require")
        before = random.getstate()
        runs.append(list(loader))
        assert random.getstate() == before
        assert same(loader.replay(1), runs[-1][1], ordered=True)
    assert same(runs[1], runs[0], ordered=True)


def test_collate_functions_get_transformed_targets(tmp_path):
    options = {
        "transform": chain(),
        "target_transform": lambda target: {"label": target, "name": str(target)},
    }
    dataset = image_folder(tmp_path, options)
    check(dataset)
    check(dataset, collate_fn=lambda batch: (torch.stack([x for x, _ in batch]), [y for _, y in batch]))
    check(dataset, collate_fn=lambda batch: doubled(*default_collate(batch)))


def doubled(pictures, targets):
    return pictures * 2, targets["label"] * 2, targets["name"]


def test_an_error_of_a_target_transform_is_raised_and_the_next_batch_follows(tmp_path):
    def refuse(target):
        if target == 0:
            raise KeyError(target)
        return target

    dataset = image_folder(tmp_path, {"transform": chain(), "target_transform": refuse})
    batches = iter(millrace.DataLoader(dataset, 3, num_workers=2, native="require"))
    with pytest.raises(KeyError, match="0"):
        next(batches)
    assert next(batches)[1].tolist() == [1, 1, 1]


def test_targets_follow_their_samples_where_others_are_left_out(tmp_path):
    dataset = image_folder(tmp_path, {"transform": chain(), "target_transform": lambda target: target})
    dataset.samples = [(path, number) for number, (path, _) in enumerate(dataset.samples)]
    with open(dataset.samples[1][0], "wb") as file:
        file.write(b"no picture")
    for policy, expected in (("skip", [[0, 5], [2, 3], [4]]), ("replace", [[0, 2], [2, 3], [4, 5]])):
        loader = millrace.DataLoader(dataset, 2, num_workers=2, on_error=policy, native="require")
        assert [targets.tolist() for _, targets in loader] == expected
        assert loader.stats()["left_out"] == 1


def test_targets_resume(tmp_path):
    dataset = food101(tmp_path, {"transform": chain(), "target_transform": str})
    loader = millrace.DataLoader(dataset, 2, shuffle=True, num_workers=2, native="require")
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = list(batches)
    again = millrace.DataLoader(dataset, 2, shuffle=True, num_workers=2, native="require")
    again.load_state_dict(state)
    assert same(list(again), rest, ordered=True)


def test_targets_that_no_batch_can_hold_are_torchs_error(tmp_path):
    dataset = places(tmp_path, {"transform": chain()})
    dataset.imgs = [(path, None) for path, _ in dataset.imgs]
    for loader in (DataLoader(dataset), millrace.DataLoader(dataset, native="require")):
        with pytest.raises(TypeError, match="NoneType"):
            next(iter(loader))


# -- what is refused


def reason(dataset, stage="dataset", **options):
    lines = millrace.DataLoader(dataset, 2, **options).explain().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{stage}: python")]
    return line


def test_what_is_not_provably_the_librarys(tmp_path, monkeypatch):
    dataset = food101(tmp_path, {"transform": chain()})
    own = type("Own", (type(dataset),), {"__getitem__": lambda self, index: (torch.zeros(1), 0)})
    quiet = type("Quiet", (type(dataset),), {"describe": lambda self: "food"})
    dataset.__class__ = own
    assert "Own overrides __getitem__ of Food101" in reason(dataset)
    dataset.__class__ = quiet
    check(dataset)
    dataset.__getitems__ = lambda indices: [(torch.zeros(1), 0)] * len(indices)
    assert "was given a __getitems__ of its own" in reason(dataset)
    del dataset.__getitems__
    dataset.loader = lambda path: None
    assert "has its own loader function" in reason(dataset)
    dataset.loader = None
    assert "has its own loader function" in reason(dataset)
    monkeypatch.setattr(quiet.__mro__[1], "__getitem__", own.__getitem__)
    assert "Food101.__getitem__ was replaced" in reason(dataset)


def test_another_version_of_the_library_stays_in_python(tmp_path, monkeypatch):
    dataset = food101(tmp_path, {"transform": chain()})
    module = type(dataset).__module__
    source = "def __getitem__(self, index):\n return self.loader(self._image_files[index]).rotate(9), 0"
    names = vars(sys.modules[module])
    exec(source, names)
    ships(monkeypatch, type(dataset), "__getitem__", names.pop("__getitem__"))
    assert "opens pictures in a way that is not known here" in reason(dataset)


def test_targets_that_are_pictures_and_joint_transforms_stay_in_python(tmp_path):
    def both(picture, target):
        return chain()(picture), target

    dataset = pets(tmp_path, {"transforms": both})
    assert "takes picture and label together" in reason(dataset)
    assert list(millrace.DataLoader(dataset, 3))[0][1].tolist() == [1, 0, 1]
    dataset = pets(tmp_path / "other", {"transform": chain(), "target_types": "segmentation"})
    assert "gives segmentations, or no target" in reason(dataset)


def test_other_datasets_of_torchvision_stay_in_python(tmp_path):
    from torchvision.datasets import FakeData

    assert "FakeData is Python code; the engine reads torchvision's ImageFolder" in reason(
        FakeData(4, (3, 8, 8), transform=chain())
    )


def test_a_dataset_whose_own_method_is_its_target_transform_is_dropped(tmp_path):
    from torchvision.datasets import ImageFolder

    class Named(ImageFolder):
        def name(self, target):
            return self.classes[target]

    image_folder(tmp_path, {})
    dataset = Named(str(tmp_path), chain())
    dataset.target_transform = dataset.name
    check(dataset)
    known = weakref.ref(dataset)
    del dataset
    gc.collect()
    assert known() is None


def test_columns_that_changed_count_from_the_next_epoch(tmp_path):
    dataset = food101(tmp_path, {"transform": chain()})
    check(dataset)
    dataset._labels[0], dataset._image_files[1] = 77, dataset._image_files[0]
    check(dataset)
    dataset.target_transform = float
    check(dataset)
    dataset._labels.pop()
    assert "there are 4 labels for 5 paths" in reason(dataset, pictures="lazy")
    with pytest.raises(IndexError):  # its __getitem__ is read, and says the rest
        list(millrace.DataLoader(dataset, 2))
    animals = plants(tmp_path / "plants", {"transform": chain(to_rgb())})
    check(animals)
    animals.target_type = ["full"]
    check(animals)


# -- ConcatDataset, random_split


def test_concatenated_pictures(tmp_path):
    first = image_folder(tmp_path / "a", {"transform": chain()})
    second = food101(tmp_path / "b", {"transform": chain()})
    joined = ConcatDataset([first, Subset(second, [4, -1, 0])])
    explained = check(joined, shuffle=True)
    assert (
        "ConcatDataset of 2 x torchvision ImageFolder, Subset of torchvision Food101 of 11 files" in explained
    )
    check(Subset(joined, [8, 0, -1]))
    check(ConcatDataset([joined, first]), workers=0)
    one, two = random_split(joined, [4, 5], torch.Generator().manual_seed(3))
    check(ConcatDataset([two, one]))
    ours = millrace.datasets.ImageFolder(first.root, first.transform)
    check(ConcatDataset([ours, first]))
    second.target_transform = float
    check(ConcatDataset([second, second]))
    first.target_transform = float
    check(ConcatDataset([first, second]), shuffle=True)


@pytest.mark.parametrize("indices", [[-12], [11], [0, 99]])
def test_indices_outside_of_what_is_joined(tmp_path, indices):
    first = image_folder(tmp_path / "a", {"transform": chain()})
    joined = ConcatDataset([first, food101(tmp_path / "b", {"transform": chain()})])
    told = []
    for loader in (
        DataLoader(joined, batch_sampler=[indices]),
        millrace.DataLoader(joined, batch_sampler=[indices], native="require"),
    ):
        with pytest.raises((IndexError, ValueError)) as error:
            next(iter(loader))
        told.append(error.type)
    assert told[0] is told[1]


def test_what_cannot_be_joined(tmp_path):
    first = image_folder(tmp_path / "a", {"transform": chain()})
    second = food101(tmp_path / "b", {"transform": chain(size=9)})
    assert "ConcatDataset's parts have different transforms" in reason(
        ConcatDataset([first, second]), "transform"
    )
    numbers = torch.utils.data.TensorDataset(torch.arange(3))
    assert "TensorDataset is Python code" in reason(ConcatDataset([first, numbers]))
    upright = millrace.datasets.ImageFolder(first.root, first.transform, exif=True)
    assert "differ in how they turn pictures" in reason(ConcatDataset([upright, first]))
    assert "Subset of torchvision ImageFolder reaches from index 0 to 6" in reason(
        ConcatDataset([Subset(first, [0, 6]), first])
    )
    longer = ConcatDataset([first])
    first.samples.append(first.samples[0])
    assert "parts have changed their length" in reason(longer)
