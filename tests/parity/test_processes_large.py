"""Worker processes: rows that are large, and of different shapes."""

import millrace
import numpy as np
import pytest
import torch
from test_processes import first_lines
from torch.utils.data import DataLoader as TorchLoader


class Wide(torch.utils.data.Dataset):
    """Rows in fresh slots, contiguous and not, beside small ones; one sample of another shape."""

    def __init__(self, odd=-1):
        self.odd = odd

    def __len__(self):
        return 11

    def __getitem__(self, index):
        square = np.arange(index, index + 200 * 200, dtype=np.float32).reshape(200, 200)
        wide = torch.full((30_000 + (index == self.odd),), float(index))
        turned = torch.from_numpy(square).T
        return {
            "label": index,
            "wide": wide,
            "turned": square.T,
            "tensor": turned,
            "bytes": square.tobytes()[:9],
        }


def sums(batch):
    return [
        (
            tuple(value.shape) + (value.double().sum().item(), value[-1].flatten()[:3].tolist())
            if isinstance(value, torch.Tensor)
            else value
        )
        for value in batch.values()
    ]


@pytest.mark.parametrize("persistent", [False, True])
def test_large_rows(persistent):
    seen = []
    for kind in (TorchLoader, millrace.DataLoader):
        loader = kind(Wide(), batch_size=4, num_workers=2, persistent_workers=persistent)
        seen.append([sums(batch) for _ in range(2) for batch in loader])
    assert seen[0] == seen[1]


def test_large_rows_of_different_shapes():
    seen = []
    for kind in (TorchLoader, millrace.DataLoader):
        iterator, got = iter(kind(Wide(odd=6), batch_size=4, num_workers=2)), []
        for _ in range(3):
            try:
                got.append(sums(next(iterator)))
            except RuntimeError as error:
                got.append(first_lines(error)[:1])
        seen.append(got)
    assert seen[0] == seen[1]
