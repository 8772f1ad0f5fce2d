"""What a script replaces in torch, torchvision or Pillow runs, as it does under torch's loader; and what
torch is told for the whole process counts: the default dtype, the default device.
"""

import functools

import numpy as np
import pytest
import torch
from loader_data import make_folder, torchvision_or_skip
from millrace import DataLoader
from millrace._common.shipped import replaced, replaced_builtin, replaced_in
from millrace.collate import Pad, native_collate, runs_natively
from millrace.datasets import ImageFolder
from PIL import Image
from shard_data import same
from torch.utils import data
from torch.utils.data._utils import collate

torchvision_or_skip()
from torchvision import datasets, transforms  # noqa: E402
from torchvision.datasets import folder  # noqa: E402
from torchvision.transforms import functional, v2  # noqa: E402
from torchvision.transforms.v2 import functional as v2_functional  # noqa: E402


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("replaced")
    make_folder(root, 6)
    return root


STEPS = {
    "v1": lambda: transforms.Compose(
        [
            transforms.Resize((20, 18)),
            transforms.CenterCrop(16),
            transforms.ToTensor(),
            transforms.Normalize([0.5] * 3, [0.2] * 3),
        ]
    ),
    "v2": lambda: v2.Compose(
        [
            v2.Resize((20, 18)),
            v2.CenterCrop(16),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3),
        ]
    ),
}


class Own(data.Dataset):
    def __init__(self, root, transform):
        self.paths, self.transform = sorted(root.rglob("*.jpg")), transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]).convert("RGB"))


def backwards(iterator):
    return iter([*iterator][::-1])


def mirrored(picture):
    return (
        picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if isinstance(picture, Image.Image)
        else picture + 1
    )


# (who has it, its name, what becomes of its result), and of which data sets it is a part
REPLACED = {
    "order": (data.SequentialSampler, "__iter__", backwards, "v1 rows"),
    "shuffle": (data.RandomSampler, "__iter__", backwards, "rows"),
    "lists": (data.BatchSampler, "__iter__", backwards, "v1 rows own"),
    "row": (data.TensorDataset, "__getitem__", lambda row: (row[0] + 1,), "rows"),
    "sample": (datasets.DatasetFolder, "__getitem__", lambda pair: (pair[0] + 1, pair[1]), "v1"),
    "loader": (folder, "default_loader", mirrored, "v1"),
    "pil_loader": (folder, "pil_loader", mirrored, "v1"),
    "open": (Image, "open", mirrored, "v1 v2 own"),
    "convert": (Image.Image, "convert", mirrored, "v1 own"),
    "resize of Pillow": (Image.Image, "resize", mirrored, "v1"),
    "ToTensor": (transforms.ToTensor, "__call__", mirrored, "v1 own"),
    "Normalize": (transforms.Normalize, "forward", mirrored, "v1 own"),
    "Compose": (transforms.Compose, "__call__", mirrored, "v1 own"),
    "to_tensor": (functional, "to_tensor", mirrored, "v1 own"),
    "normalize": (functional, "normalize", mirrored, "v1 own"),
    "resize": (functional, "resize", mirrored, "v1"),
    "crop": (functional, "crop", mirrored, "v1"),
    "v2's Resize": (v2.Resize, "transform", mirrored, "v2"),
    "v2's normalize": (v2_functional, "normalize", mirrored, "v2 own2"),
    "v2's to_dtype": (v2_functional, "to_dtype", mirrored, "v2"),
    "any module": (torch.nn.Module, "__call__", mirrored, "v1 v2"),
    "stack": (torch, "stack", mirrored, "v1 rows own"),
    "collate": (collate, "collate", lambda batch: "mine", "v1 rows own"),
    "ints": (collate, "collate_int_fn", lambda batch: batch + 1, "v1"),
    "default_collate": (collate, "default_collate", lambda batch: "mine", "v1 rows own"),
}


def made(kind, root):
    if kind == "rows":
        return data.TensorDataset(torch.arange(12.0).reshape(6, 2))
    if kind.startswith("own"):
        return Own(root, STEPS["v2" if kind == "own2" else "v1"]())
    return datasets.ImageFolder(root, STEPS[kind]())


def batches(loader, dataset, **options):
    torch.manual_seed(0)
    try:
        return list(loader(dataset, 4, **options))
    except Exception as error:  # as v2's functions give, which know their kernels by themselves
        return [type(error).__name__]


def agree(dataset, **options):
    return same(batches(DataLoader, dataset, **options), batches(data.DataLoader, dataset, **options))


@pytest.mark.parametrize("name", REPLACED)
def test_what_is_replaced_runs(name, root, monkeypatch):
    owner, attribute, change, kinds = REPLACED[name]
    original = getattr(owner, attribute)

    @functools.wraps(original)
    def theirs(*arguments, **named):
        return change(original(*arguments, **named))

    for kind in kinds.split():
        dataset, options = made(kind, root), {"shuffle": name == "shuffle"}
        with monkeypatch.context() as patch:
            patch.setattr(owner, attribute, theirs)
            assert agree(dataset, **options), kind
            if kind in STEPS and name not in ("order", "lists", "default_collate"):
                assert "was replaced" in str(DataLoader(dataset, 4).explain())
        assert agree(dataset, **options), kind  # in the next epoch it is torch's again
        if kind in STEPS:
            assert len(list(DataLoader(dataset, 4, native="require"))) == 2


@pytest.mark.parametrize(
    ("kind", "function", "samples"),
    [
        (float, lambda batch: torch.tensor(batch, dtype=torch.float32), [0.5, 1.5, 2.5]),
        (int, lambda batch: torch.tensor(batch, dtype=torch.int16), [1, 2, 3]),
        (str, "|".join, ["a", "b", "c"]),
        (bytes, b"|".join, [b"a", b"b", b"c"]),
        (torch.Tensor, lambda batch: torch.stack(batch).half(), [torch.ones(2)] * 3),
        (np.ndarray, len, [np.ones(2)] * 3),
    ],
)
@pytest.mark.parametrize("workers", [0, 1])
def test_default_collates_table_may_be_changed_between_epochs(kind, function, samples, workers, monkeypatch):
    assert agree([{"value": samples[0]}] * 3, num_workers=workers)
    monkeypatch.setitem(
        collate.default_collate_fn_map, kind, lambda batch, *, collate_fn_map=None: function(batch)
    )
    assert agree([{"value": value} for value in samples], num_workers=workers)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.float32])
def test_the_default_dtype_counts_from_the_next_epoch_on(dtype, root):
    dataset, ours = made("v1", root), ImageFolder(root, STEPS["v1"]())
    loaders = [loader(each, 6) for each in (dataset, ours) for loader in (DataLoader, data.DataLoader)]
    for loader in loaders:
        list(loader)
    torch.set_default_dtype(dtype)
    try:
        first, *others = [list(loader) for loader in loaders]
        assert first[0][0].dtype is dtype and all(same(first, other) for other in others)
        for kind in ("v2", "own", "own2"):
            assert agree(made(kind, root)), kind
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_default_device_leaves_the_loader_to_python(root):
    with torch.device("meta"):
        assert "default device" in str(DataLoader(made("v1", root), 4).explain())
    assert len(list(DataLoader(made("v1", root), 4, native="require"))) == 2


def test_nothing_of_these_packages_seems_replaced():
    for module in (
        "PIL.Image",
        "PIL.ImageFile",
        "torch.utils.data.sampler",
        "torch.utils.data.dataset",
        collate.__name__,
    ):
        assert replaced(module) is None
    for cls in (
        v2.Resize,
        v2.RandomResizedCrop,
        transforms.ColorJitter,
        data.DistributedSampler,
        datasets.ImageFolder,
    ):
        assert replaced_in(cls) is None


def test_only_default_collate_itself_is_default_collate():
    """Nor is what somebody puts around it, this package's own functions and objects among them."""

    @functools.wraps(collate.default_collate)
    def around(samples):
        return collate.default_collate(samples)

    assert runs_natively(collate.default_collate)
    for other in (
        around,
        Pad(),
        native_collate(data.default_collate),
        lambda samples: samples,
        data.default_convert,
    ):
        assert not runs_natively(other)
        assert native_collate(other) is other or other is data.default_convert


def test_what_is_replaced_after_it_was_found_as_shipped(monkeypatch):
    def other(self, *arguments):
        return iter(())

    cls = data.BatchSampler
    places = [(cls, "__iter__", other), (cls, "drop_last", property(other)), (data.Sampler, "seen", other)]
    places += [(cls.__iter__, "__code__", other.__code__), (torch, "stack", other)]
    for place, name, value in places:
        for _ in range(2):  # looked at, and found as it was
            assert replaced_in(cls) is None and replaced_builtin("torch") is None
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value, raising=False)
            found = replaced_builtin("torch") if place is torch else replaced_in(cls)
            assert found is not None, name
