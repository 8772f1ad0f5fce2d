"""Which loaders run natively, and what explain() says of those that do not."""

import functools
import sys
import types

import millrace
import numpy as np
import pytest
import torch
from loader_data import make_folder, pictures, torchvision_or_skip
from millrace import transforms
from torch.utils.data import Subset, default_collate
from torch.utils.data._utils.collate import default_collate_fn_map

COUNT = 9
LINES = ["dataset", "transform", "sampler", "collate_fn", "worker_init_fn"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("plan")
    make_folder(root, COUNT)
    return str(root)


@pytest.fixture
def dataset(root):
    return pictures(root)


def lines(dataset, **arguments):
    """The plan in explain(), as {stage: (native or python, reason)}."""
    text = millrace.DataLoader(dataset, **arguments).explain()
    return {
        name: tuple(rest.split(" — ", 1))
        for name, rest in (line.split(": ", 1) for line in text.splitlines())
        if name != "pictures"
    }


def refusal(stage, dataset, **arguments):
    """The reason of `stage`, which must be the only one that refuses."""
    told = lines(dataset, **arguments)
    assert {word for word, _ in told.values()} == {"python"}
    assert all(
        reason == f"ready for the engine, but {stage} is not"
        for name, (_, reason) in told.items()
        if name != stage
    )
    return told[stage][1]


def test_a_native_loader(dataset):
    told = lines(dataset, batch_size=4, shuffle=True, num_workers=2)
    assert list(told) == LINES and {word for word, _ in told.values()} == {"native"}
    assert told["dataset"][1] == f"millrace ImageFolder of {COUNT} files"
    assert told["transform"][1] == "Resize, ToTensor"


def test_subsets(dataset):
    assert lines(Subset(Subset(dataset, range(5)), [1]))["dataset"] == (
        "native",
        f"Subset of Subset of millrace ImageFolder of {COUNT} files",
    )


def test_never(dataset):
    assert lines(dataset, native="never") == {"loader": ("python", 'native="never" was asked for')}


def test_other_datasets():
    assert refusal("dataset", range(3)).startswith(
        "range is Python code; the engine reads millrace.datasets.ImageFolder"
    )

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(())

    assert "Stream is Python code" in refusal("dataset", Stream())


def test_every_reason_is_told_at_once(dataset):
    dataset.transform = None
    told = lines(dataset, batch_size=None, collate_fn=list, num_workers=1, worker_init_fn=print)
    assert "without a transform" in told["transform"][1]
    assert "list is not torch's default_collate" in told["collate_fn"][1]
    assert "print may do anything" in told["worker_init_fn"][1]
    assert (
        told["dataset"][1]
        == "ready for the engine, but transform and sampler and collate_fn and worker_init_fn are not"
    )


def test_dataset_details(root, dataset):
    told = lines(pictures(root, target_transform=str))
    assert told["dataset"][0] == "native"
    assert told["target_transform"] == (
        "python",
        "str, called in next() for each sample of the batch, in order",
    )
    assert "has its own loader function" in refusal("dataset", pictures(root, loader=open))
    dataset.samples = [(path, "label") for path, _ in dataset.samples]
    assert "pairs" in refusal("dataset", dataset)


def test_subclasses(root):
    class Quiet(millrace.datasets.ImageFolder):
        """Finds its files in its own way; gives samples as its base does."""

        def find_classes(self, directory):
            return ["a"], {"a": 0}

    class Loud(millrace.datasets.ImageFolder):
        def __getitem__(self, index):
            return super().__getitem__(index)[::-1]

    to_tensor = transforms.ToTensor()
    assert lines(Quiet(root, to_tensor))["dataset"] == ("native", "millrace Quiet of 3 files")
    assert "Loud overrides __getitem__ of ImageFolder" in refusal("dataset", Loud(root, to_tensor))


def test_a_wrong_chain_is_told_and_left_to_python(root):
    dataset = pictures(
        root,
        transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5] * 2, [0.5] * 2)]),
    )
    assert refusal("transform", dataset)
    with pytest.raises(millrace.UnavailableError, match="transform: python"):
        iter(millrace.DataLoader(dataset, native="require"))


def test_without_batches(dataset):
    told = lines(dataset, batch_size=None)
    assert (
        "batch_size=None hands out single samples" in told["sampler"][1] and told["collate_fn"][0] == "python"
    )


def test_samplers(dataset):
    assert (
        lines(dataset, shuffle=True)["sampler"][1] == "RandomSampler in batches of 1, torch's order and draws"
    )
    assert lines(dataset, batch_sampler=[[1]])["sampler"] == (
        "native",
        "list runs in the consumer's thread and feeds the engine",
    )


# -- collate
# ------------------------------------------------------------------------------------------------------------


def test_collate_functions(dataset):
    assert lines(dataset, collate_fn=default_collate)["collate_fn"][0] == "native"
    for same in (lambda batch: default_collate(batch), functools.partial(default_collate)):
        assert lines(dataset, collate_fn=same)["collate_fn"][0] == "native"
    word, reason = lines(dataset, collate_fn=list)["collate_fn"]
    assert (word, reason.partition(": ")[0]) == ("python", "native decode, collate_fn in Python")
    assert lines(dataset, collate_fn=list)["dataset"][0] == "native"
    in_memory = torch.utils.data.TensorDataset(torch.arange(3))
    assert "return f(default_collate(samples))" in refusal("collate_fn", in_memory, collate_fn=list)
    own = types.new_class("Own", (torch.utils.data.Dataset,))()
    assert (
        "list is not torch's default_collate; it is called where"
        in lines(own, collate_fn=list)["collate_fn"][1]
    )
    pictures_line = millrace.DataLoader(own).explain().splitlines()[-1]
    assert all(name in pictures_line for name in ("Pillow", "cv2", "torchvision.io", "torchcodec"))


@pytest.mark.parametrize(
    "key, part", [(torch.Tensor, "Tensor"), (int, "int"), (tuple, "tuple"), (object, "tuple")]
)
def test_a_changed_collate_map(dataset, monkeypatch, key, part):
    monkeypatch.setitem(default_collate_fn_map, key, lambda batch, *, collate_fn_map: batch)
    assert f"default_collate_fn_map was changed for {part}" in refusal("collate_fn", dataset)
    loader = millrace.DataLoader(dataset, 2)
    assert iter(loader) is not None and loader.stats()["engine"] == "inline"


def test_a_collate_map_with_more_in_it(dataset, monkeypatch):
    monkeypatch.setitem(default_collate_fn_map, types.SimpleNamespace, lambda batch, *, collate_fn_map: batch)
    assert lines(dataset)["collate_fn"][0] == "native"


# -- worker_init_fn
# ------------------------------------------------------------------------------------------------------------


def test_worker_init_functions(dataset, monkeypatch):
    def seed_worker(worker_id, num_workers=0, rank=0):
        raise AssertionError("not called")

    assert "seed_worker may do anything to a worker process" in refusal(
        "worker_init_fn", dataset, num_workers=1, worker_init_fn=seed_worker
    )
    assert lines(dataset, worker_init_fn=seed_worker)["worker_init_fn"] == (
        "native",
        "never called with num_workers=0",
    )

    module = types.ModuleType("transformers.trainer_utils")
    module.seed_worker = seed_worker
    monkeypatch.setitem(sys.modules, "transformers.trainer_utils", module)
    for function in (seed_worker, functools.partial(functools.partial(seed_worker, num_workers=2), rank=1)):
        loader = millrace.DataLoader(dataset, num_workers=1, worker_init_fn=function, native="require")
        assert "transformers.trainer_utils.seed_worker only seeds" in loader.explain()
        assert len(list(loader)) == COUNT


# -- torchvision
# ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(root):
    torchvision_or_skip()
    from torchvision import datasets

    return datasets.ImageFolder(root, transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()]))


def test_torchvision_folders(folder, root):
    assert lines(folder)["dataset"] == ("native", f"torchvision ImageFolder of {COUNT} files")
    from torchvision.datasets import DatasetFolder
    from torchvision.datasets.folder import pil_loader

    plain = DatasetFolder(root, pil_loader, (".jpg",), folder.transform)
    assert lines(Subset(plain, [0]))["dataset"][0] == "native"
    expected = list(millrace.DataLoader(folder, 4, native="never"))
    for (images, labels), (images_expected, labels_expected) in zip(
        millrace.DataLoader(folder, 4, native="require"), expected, strict=True
    ):
        assert torch.equal(images, images_expected) and torch.equal(labels, labels_expected)


def test_torchvision_samples_may_change_between_epochs(folder):
    loader = millrace.DataLoader(folder, COUNT, native="require")
    before = next(iter(loader))[1].tolist()
    folder.samples[0] = (folder.samples[0][0], 77)
    assert next(iter(loader))[1].tolist() == [77, *before[1:]]
    del folder.samples[3:]
    assert [labels.tolist() for _, labels in millrace.DataLoader(folder, 2, native="require")] == [
        [77, 0],
        [0],
    ]
    folder.samples[1] = (folder.samples[1][0], np.float32(1))
    (labels,) = [labels for _, labels in millrace.DataLoader(folder, 4, native="require")]
    assert labels.tolist() == [77, 1, 0]
    folder.samples[1] = list(folder.samples[1])
    unread = {"pictures": "lazy"}
    assert "not all tuples of two" in refusal("dataset", folder, **unread)
    assert "whose __getitem__ is read" in lines(folder)["dataset"][1], "a list of two will do for that"
    folder.samples[1] = (folder.samples[1][0].encode(), 0)
    assert "not all strings or pathlib's" in refusal("dataset", folder, **unread)
    assert next(iter(millrace.DataLoader(folder, 3, native="require")))[1].tolist() == [77, 0, 0]


def test_torchvision_details(folder, monkeypatch):
    import torchvision

    class Watched(type(folder)):
        @property
        def samples(self):
            return self._samples

        @samples.setter
        def samples(self, samples):
            self._samples = samples

    watched = Watched(folder.root, folder.transform)
    assert "Watched overrides samples of DatasetFolder" in refusal("dataset", watched)
    monkeypatch.setattr(torchvision, "get_image_backend", lambda: "accimage")
    assert "image backend is not PIL" in refusal("dataset", folder)
    folder.loader = open
    assert "has its own loader function" in refusal("dataset", folder)
    folder.loader = torchvision.datasets.folder.pil_loader
    assert lines(folder)["dataset"][0] == "native"
    monkeypatch.setattr(torchvision.datasets.DatasetFolder, "__getitem__", lambda self, index: index)
    assert "DatasetFolder.__getitem__ was replaced" in refusal("dataset", folder)


def test_odd_arguments_are_left_to_python(root):
    """What a recogniser stumbles over is never worse than torch: the stage stays in Python."""
    odd = transforms.RandomHorizontalFlip()
    odd.p = "often"
    dataset = pictures(root, transform=transforms.Compose([odd, transforms.ToTensor()]))
    assert "could not be understood (ValueError" in refusal("transform", dataset)
    assert iter(millrace.DataLoader(dataset)) is not None
