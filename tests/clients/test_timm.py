"""timm: create_loader() sets its own transforms; MultiEpochsDataLoader switches torch's guard off and on."""

import importlib

import millrace
import pytest
import torch
import torch.utils.data
from loader_data import SIZE, torchvision_or_skip
from training import noted, torchs

torchvision_or_skip()
pytest.importorskip("timm")
timm_loader = pytest.importorskip("timm.data.loader")


@pytest.fixture
def imported_while_installed(installed):
    """MultiEpochsDataLoader has the base it was defined with; defined now, it has ours."""
    yield importlib.reload(timm_loader)
    millrace.uninstall()
    importlib.reload(timm_loader)


def epochs(loader):
    return [noted(batch) for _ in range(2) for batch in loader]


def create(dataset, multi, **options):
    torch.manual_seed(3)
    return timm_loader.create_loader(
        dataset,
        (3, SIZE, SIZE),
        4,
        num_workers=2,
        use_prefetcher=False,
        use_multi_epochs_loader=multi,
        **options,
    )


@pytest.mark.parametrize("multi", [False, True], ids=["plain", "multi-epochs"])
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_create_loader(root, multi, training, request):
    folder = torchvision_or_skip().datasets.ImageFolder
    expected = epochs(create(folder(root), multi, is_training=training))
    request.getfixturevalue("imported_while_installed")
    loader = create(folder(root), multi, is_training=training)
    seen = epochs(loader)
    assert isinstance(loader, millrace.DataLoader)
    assert loader.stats()["engine"] == "threads" and len(seen) == 2 * (3 if training else 4)
    if training:  # the engine draws crops and colours of its own
        seen, expected = ([labels for labels, _ in batches] for batches in (seen, expected))
    assert seen == expected


def collate_line(loader):
    return next(line for line in loader.explain().splitlines() if line.startswith("collate_fn"))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("of_arrays", [False, True], ids=["tensors", "arrays"])
def test_fast_collate(root, of_arrays, workers, installed):
    """Its batches are the engine's, whose rows its own code would copy once more."""
    from timm.data import ImageDataset, create_transform
    from timm.data.transforms import ToNumpy

    steps = create_transform((3, SIZE, SIZE), use_prefetcher=True)
    if of_arrays:  # as older versions have it
        steps.transforms[-1] = ToNumpy()
    dataset = ImageDataset(root, transform=steps)

    def make(**options):
        return millrace.DataLoader(dataset, 4, num_workers=workers, **options)

    def seen(loader):
        return [(type(batch), batch[0].dtype, batch[1].dtype, noted(batch)) for batch in loader]

    expected = seen(torchs()(dataset, 4, collate_fn=timm_loader.fast_collate))
    loader = make(collate_fn=timm_loader.fast_collate, native="require")
    assert seen(loader) == expected
    assert (
        collate_line(loader) == "collate_fn: native — fast_collate; rows are written straight into the batch"
    )

    dataset.target_transform = float
    assert seen(make(collate_fn=timm_loader.fast_collate, native="require")) == expected
    assert collate_line(make(collate_fn=timm_loader.fast_collate)).startswith("collate_fn: python")
    dataset.target_transform = None
    dataset.transform = create_transform((3, SIZE, SIZE))
    assert collate_line(make(collate_fn=timm_loader.fast_collate)).startswith("collate_fn: python")
    floats = seen(make(collate_fn=timm_loader.fast_collate))
    assert floats == seen(torchs()(dataset, 4, collate_fn=timm_loader.fast_collate))


def test_fast_collate_that_somebody_changed(root, installed, monkeypatch):
    from timm.data import ImageDataset, create_transform

    dataset = ImageDataset(root, transform=create_transform((3, SIZE, SIZE), use_prefetcher=True))
    original = timm_loader.fast_collate
    monkeypatch.setattr(timm_loader, "default_collate", lambda labels: torch.tensor(labels) + 1)
    loader = millrace.DataLoader(dataset, 13, collate_fn=original, native="require")
    assert collate_line(loader).startswith("collate_fn: python")
    assert next(iter(loader))[1].tolist() == [label + 1 for _, label in dataset.reader.samples]
    monkeypatch.undo()
    monkeypatch.setattr(timm_loader, "fast_collate", lambda samples: original(samples))
    loader = millrace.DataLoader(dataset, 13, collate_fn=timm_loader.fast_collate)
    assert collate_line(loader).startswith("collate_fn: python")


@pytest.mark.parametrize("multi", [False, True], ids=["plain", "multi-epochs"])
def test_its_loaders_run_natively_over_transforms_that_the_engine_knows(photos, multi, request):
    def make():
        torch.manual_seed(3)
        cls = timm_loader.MultiEpochsDataLoader if multi else torch.utils.data.DataLoader
        seeding = timm_loader.partial(timm_loader._worker_init, worker_seeding="all")
        return cls(photos, 4, shuffle=True, num_workers=2, worker_init_fn=seeding, persistent_workers=True)

    expected = epochs(make())
    request.getfixturevalue("imported_while_installed")
    loader = make()
    assert epochs(loader) == expected and loader.stats()["engine"] == "threads"
