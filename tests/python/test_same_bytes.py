"""Whatever makes the batches: the same bytes. Native stages, and Python stages that draw nothing."""

from __future__ import annotations

import hashlib
import itertools

import millrace
import pytest
import torch
from loader_data import make_folder
from millrace import DataLoader
from millrace import transforms as T
from torch.utils.data import Dataset, Subset, TensorDataset


class Squares(Dataset):
    def __len__(self):
        return 37

    def __getitem__(self, index):
        return {"x": torch.full((3, 5), index**0.5), "name": f"{index}", "y": index}


def digest(loader, epochs=2):
    found = hashlib.sha256()
    for _ in range(epochs):
        for batch in loader:
            for part in batch.values() if isinstance(batch, dict) else batch:
                found.update(
                    part.contiguous().numpy().tobytes()
                    if isinstance(part, torch.Tensor)
                    else repr(part).encode()
                )
    return found.hexdigest()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    make_folder(folder)
    chain = [
        T.RandomResizedCrop(16),
        T.RandomHorizontalFlip(),
        T.ToTensor(),
        T.Normalize((0.5,) * 3, (0.2,) * 3),
    ]
    return millrace.datasets.ImageFolder(folder, T.Compose(chain))


DATA = {
    "photos": lambda photos: photos,
    "some photos": lambda photos: Subset(photos, list(range(20, 3, -1))),
    "rows": lambda _: TensorDataset(
        torch.rand(37, 70_000, generator=torch.Generator().manual_seed(1)), torch.arange(37)
    ),
    "python": lambda _: Squares(),
}


@pytest.mark.parametrize("data", DATA)
def test_workers_prefetch_pinning_and_methods(photos, data):
    dataset, digests = DATA[data](photos), {}
    for workers, prefetch, method, pin in itertools.product(
        (0, 1, 2, 5), (1, 4), ("process", "thread"), (False, True)
    ):
        if workers == 0 and (prefetch, method) != (1, "process"):
            continue
        options = {"num_workers": workers, "pin_memory": pin, "worker_method": method}
        if workers:
            options["prefetch_factor"] = prefetch
            options["persistent_workers"] = False
        torch.manual_seed(3)
        loader = DataLoader(dataset, 4, shuffle=True, generator=torch.Generator().manual_seed(2), **options)
        digests[workers, prefetch, method, pin] = digest(loader)
    assert len(set(digests.values())) == 1, digests
