"""timm: its create_loader() sets transforms of its own, and MultiEpochsDataLoader switches torch's attribute
guard off and on.
"""

import importlib

import millrace
import pytest
import torch
import torch.utils.data
from loader_data import SIZE, torchvision_or_skip
from training import noted

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
