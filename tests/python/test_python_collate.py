"""A collate_fn in Python over native batches: what it is given, what it may draw, and its errors."""

import functools
import random

import millrace
import numpy as np
import pytest
import torch
from loader_data import make_folder, pictures, torchvision_or_skip
from millrace import transforms
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


# -- the forms of MixUp
# ----------------------------------------------------------------------------------------------------------


def mix(images, labels):
    """MixUp whose draws are fixed."""
    return 0.3 * images + 0.7 * images.roll(1, 0), torch.stack([labels, labels.roll(1)], 1)


def mix_list(batch):
    return list(mix(*batch))


def by_star(batch):
    return mix(*default_collate(batch))


def by_list(batch):
    return mix_list(default_collate(batch))


def by_module(batch):
    return mix(*torch.utils.data.default_collate(batch))


def by_dataloader_module(batch):
    return mix(*torch.utils.data.dataloader.default_collate(batch))


def in_two_steps(batch):
    batch = default_collate(batch)
    return mix(*batch)


def with_names(batch):
    images, labels = default_collate(batch)
    images, labels = mix(images, labels)
    return images, labels


def with_names_at_once(batch):
    images, labels = default_collate(batch)
    return mix(images, labels)


def with_more_names(batch):
    """The names of a batch before and behind."""
    collated = default_collate(batch)
    (images, labels) = collated
    mixed: tuple = mix(images, labels)
    images, labels = mixed
    return images, labels


def with_a_switch(batch, transform=mix, off=False):
    if off or transform is None:
        return default_collate(batch)
    return transform(*default_collate(batch))


def with_argument(batch, transform):
    return transform(*default_collate(batch))


def closure(transform):
    def collate_fn(batch):
        return transform(*default_collate(batch))

    return collate_fn


class Collator:
    def __init__(self):
        self.transform = mix

    def __call__(self, batch):
        return self.transform(*default_collate(batch))

    def method(self, batch):
        return self.transform(*default_collate(batch))


OF_THE_BATCH = {
    "star": by_star,
    "list": by_list,
    "module": by_module,
    "dataloader_module": by_dataloader_module,
    "two_steps": in_two_steps,
    "names": with_names,
    "names_at_once": with_names_at_once,
    "more_names": with_more_names,
    "switch": with_a_switch,
    "one_of_a_line": [lambda batch: default_collate(batch), lambda batch: mix(*default_collate(batch))][1],
    "lambda": lambda batch: mix(*default_collate(batch)),
    "closure": closure(mix),
    "partial": functools.partial(with_argument, transform=mix),
    "object": Collator(),
    "method": Collator().method,
}


def sorted_rows(batch):
    return default_collate(sorted(batch, key=lambda sample: -sample[1]))


def as_dict(batch):
    return {
        "pixels": torch.stack([image for image, _ in batch]),
        "labels": [label for _, label in batch],
        "n": len(batch),
    }


def images_only(batch):
    return torch.stack([image.mul_(2) for image, _ in batch])  # in place: rows are the function's own


def untouched(batch):
    return batch


def columns(batch):
    return tuple(zip(*batch))


OF_SAMPLES = {
    "sorted": sorted_rows,
    "dict": as_dict,
    "in_place": images_only,
    "samples": untouched,
    "made_list": list,
    "zip": columns,
}


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
    mine = closure(mix)

    def other_default(batch, default_collate=as_dict):
        return mix_list(default_collate(batch))

    def more(batch):
        print(end="")
        return mix(*default_collate(batch))

    def twice(batch):
        left = mix(*default_collate(batch))  # it may draw
        images, labels = default_collate(batch)
        return mix(images, labels) or left

    def left(batch):
        _ = mix(*default_collate(batch))
        return default_collate(batch)

    def of_two(batch):
        images, _ = default_collate(batch)
        _, labels = default_collate(batch)
        return mix(images, labels)

    def turned(batch):
        images, labels = default_collate(batch)
        return list(mix(labels, images))

    def turned_behind(batch):
        images, labels = default_collate(batch)
        images, labels = mix(images, labels)
        return labels, images

    def a_part(batch):
        images, labels = default_collate(batch)
        return mix(images, labels)[0]

    def not_mixed(batch):
        images, labels = default_collate(batch)
        return images, labels

    def by_chance(batch):
        if random.random() < 0.5:
            return mix(*default_collate(batch))
        return default_collate(batch)

    for collate_fn in (
        lambda batch: mix(*mine(batch)),
        other_default,
        more,
        lambda batch: mix(*default_collate(batch[:2])),
        lambda batch: mix(*default_collate(batch), **{}),
        twice,
        left,
        of_two,
        turned,
        turned_behind,
        a_part,
        not_mixed,
        by_chance,
    ):
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
