"""A collate_fn in Python over native batches: what it is given, what it may draw, and its errors."""

import functools
import random

import millrace
import numpy as np
import pytest
import torch
from loader_data import make_folder, pictures, torchvision_or_skip
from millrace import transforms
from seen_collates import (
    OF_SAMPLES,
    OF_THE_BATCH,
    ONLY_LOOK_LIKE_IT,
    as_dict,
    by_star,
    closure,
    other_default,
    untouched,
    with_argument,
)
from shard_data import same
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import TensorDataset, default_collate

COUNT = 21
WORKERS = [0, 2]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("collate")
    make_folder(root, COUNT)
    return str(root)


@pytest.fixture
def dataset(root):
    return pictures(root)


def collate_line(loader):
    return next(line for line in loader.explain().splitlines() if line.startswith("collate_fn"))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", [*OF_THE_BATCH, *OF_SAMPLES])
def test_batches_are_torchs(dataset, name, workers):
    collate_fn = {**OF_THE_BATCH, **OF_SAMPLES}[name]
    loader = millrace.DataLoader(dataset, 4, num_workers=workers, collate_fn=collate_fn, native="require")
    batches = list(loader)
    assert len(batches) == 6
    assert all(
        map(functools.partial(same, ordered=True), batches, TorchLoader(dataset, 4, collate_fn=collate_fn))
    )
    stats = loader.stats()
    assert stats["engine"] == ("threads" if workers else "inline")
    assert stats["bytes"] > 0
    assert stats["samples"] == COUNT
    told = "native default_collate; " if name in OF_THE_BATCH else "native decode, collate_fn in Python: "
    assert collate_line(loader).startswith(f"collate_fn: python — {told}")


def test_the_native_batch_is_handed_over_as_it_is(dataset):
    """No stacking: what the function gets are the slot's own tensors."""
    seen = []

    def keep(images, labels):
        seen.append((images.shape, images.is_contiguous(), images.untyped_storage().data_ptr() % 64))
        return images, labels

    calls = []

    def spy(batch):
        calls.append(batch)
        return default_collate(batch)

    loader = millrace.DataLoader(dataset, 4, collate_fn=closure(keep), native="require")
    assert len(list(loader)) == 6 and seen[0] == (torch.Size([4, 3, 16, 16]), True, 0)
    list(millrace.DataLoader(dataset, 4, collate_fn=spy, native="require"))
    rows = [image for image, _ in calls[0]]
    assert [row.untyped_storage().data_ptr() for row in rows] == [
        rows[0].untyped_storage().data_ptr()
    ] * 4  # rows of one slot


def test_what_only_looks_like_it(dataset):
    """These are not default_collate, so the function itself gets the samples."""
    for collate_fn in ONLY_LOOK_LIKE_IT:
        assert "native decode, collate_fn in Python" in collate_line(
            millrace.DataLoader(dataset, 4, collate_fn=collate_fn)
        )
    with pytest.raises(TypeError):  # as torch: other_default's mix gets a dict
        next(iter(millrace.DataLoader(dataset, 4, collate_fn=other_default)))


def test_default_collate_by_another_name(dataset):
    for collate_fn in (lambda batch: default_collate(batch), functools.partial(default_collate)):
        loader = millrace.DataLoader(dataset, 4, collate_fn=collate_fn, native="require")
        assert collate_line(loader).startswith("collate_fn: native — ")
        assert same(list(loader), list(TorchLoader(dataset, 4)), ordered=True)


def test_rows_in_memory():
    data = TensorDataset(torch.randn(20, 3, 8), torch.arange(20))
    for name, collate_fn in OF_THE_BATCH.items():
        for workers in WORKERS:
            loader = millrace.DataLoader(
                data, 6, num_workers=workers, collate_fn=collate_fn, native="require"
            )
            assert same(list(loader), list(TorchLoader(data, 6, collate_fn=collate_fn)), ordered=True), name
    odd = millrace.DataLoader(data, batch_sampler=[[1, -1], []], collate_fn=by_star, native="require")
    batches = iter(odd)
    assert same(next(batches), by_star([data[1], data[-1]]), ordered=True)
    with pytest.raises(IndexError):
        next(batches)


# -- torchvision's MixUp and CutMix
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", WORKERS)
def test_torchvisions_mixup_and_cutmix(dataset, workers, monkeypatch):
    torchvision_or_skip()
    from torchvision.transforms import v2

    mixup_or_cutmix = v2.RandomChoice([v2.MixUp(num_classes=COUNT), v2.CutMix(num_classes=COUNT)])
    forms = [
        lambda batch: mixup_or_cutmix(*default_collate(batch)),
        closure(v2.MixUp(num_classes=COUNT)),
        functools.partial(with_argument, transform=v2.CutMix(num_classes=COUNT)),
    ]
    for collate_fn in forms:
        loader = millrace.DataLoader(
            dataset, 7, num_workers=workers, collate_fn=collate_fn, native="require", shuffle=True
        )
        images, labels = next(iter(loader))
        assert images.shape == (7, 3, 16, 16)
        assert labels.shape == (7, COUNT)
        assert torch.allclose(labels.sum(1), torch.ones(7))
        assert "native default_collate; " in collate_line(loader) and loader.stats()["bytes"] > 0
    # The same draws, the same batches.
    loader = millrace.DataLoader(dataset, 7, collate_fn=forms[0], native="require")
    torch.manual_seed(3)
    ours = list(loader)
    torch.manual_seed(3)
    assert same(ours, list(TorchLoader(dataset, 7, collate_fn=forms[0])), ordered=True)


# -- samples are those of dataset[i]
# ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
def test_samples_have_the_types_of_the_transforms(root):
    torchvision_or_skip()
    import torchvision.transforms as v1
    from torchvision import datasets
    from torchvision.transforms import v2

    scale = v2.ToDtype(torch.float32, scale=True)
    chains = [
        [v1.ToTensor()],
        [v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)],
        [v2.PILToTensor()],
        [v2.ToImage()],
        [v2.ToImage(), scale, v2.Normalize([0.5] * 3, [0.5] * 3)],
        [v2.ToImage(), v2.RandomHorizontalFlip(1.0), v2.CenterCrop(12), scale, v2.RandomErasing(0.0)],
        [v2.ToImage(), scale, v2.ToPureTensor()],
        [v2.PILToTensor(), v2.ToImage(), v2.Resize(10)],
        [v2.ToTensor(), v2.Normalize([0.5] * 3, [0.5] * 3)],
        [transforms.ToImage(), transforms.ToDtype(torch.float32, scale=True)],
    ]
    for chain in chains:
        folder = datasets.ImageFolder(root, v2.Compose([v1.Resize((14, 14)), *chain]))
        loader = millrace.DataLoader(folder, 3, collate_fn=untouched, native="require")
        for (image, label), (expected, expected_label) in zip(
            next(iter(loader)), [folder[i] for i in range(3)], strict=True
        ):
            assert (
                type(image) is type(expected)
                and image.dtype == expected.dtype
                and image.shape == expected.shape
            ), chain
            assert type(label) is int and label == expected_label
            assert torch.allclose(
                image.as_subclass(torch.Tensor).float(), expected.as_subclass(torch.Tensor).float(), atol=1e-5
            )
    mixed = datasets.ImageFolder(
        root, v1.Compose([v2.Resize((14, 14)), v2.ToImage(), scale, v1.Normalize([0.5] * 3, [0.5] * 3)])
    )
    assert "make samples of no certain type" in millrace.DataLoader(mixed, 3, collate_fn=untouched).explain()
    assert "native — " in millrace.DataLoader(mixed, 3).explain()


def test_left_out_samples(root, tmp_path):
    dataset = pictures(root)
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    dataset.samples = [*dataset.samples[:5], (str(tmp_path / "bad.jpg"), 99), *dataset.samples[5:8]]
    loader = millrace.DataLoader(
        dataset, 3, num_workers=2, on_error="skip", collate_fn=as_dict, native="require"
    )
    assert [batch["labels"] for batch in loader] == [[0, 1, 2], [3, 4, 7], [5, 6]]
    with pytest.raises(millrace.CorruptDataError):
        list(millrace.DataLoader(dataset, 3, collate_fn=as_dict, native="require"))


# -- draws
# ------------------------------------------------------------------------------------------------------------


def drawing(batch):
    """What it draws goes into the batch."""
    return torch.rand(2), random.random(), float(np.random.rand()), [label for _, label in batch]


def drawing_mix(images, labels):
    return images * torch.rand(()), labels, random.random(), float(np.random.rand())


# -- errors
# ------------------------------------------------------------------------------------------------------------


def test_where_it_stays_in_python(dataset):
    told = millrace.DataLoader(dataset, batch_size=None, collate_fn=as_dict).explain()
    assert "as_dict is not torch's default_collate" in told
    data = TensorDataset(torch.arange(5))
    assert "as_dict is not torch's default_collate" in millrace.DataLoader(data, collate_fn=as_dict).explain()
