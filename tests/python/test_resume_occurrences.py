"""An index that comes again goes on being another sample, and in_order=False loses nothing."""

import json

import millrace
import pytest
import torch
from loader_data import make_folder, pictures
from millrace import transforms as T


class Repeating(torch.utils.data.Sampler):
    """Of the user's, without a state."""

    def __init__(self, indices):
        self.indices = indices

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return len(self.indices)


ORDERS = {
    "lists": {"batch_sampler": [[0, 1], [1, 2]] * 4},
    "tensors": {"batch_sampler": [torch.tensor([0, 1]), torch.tensor([1, 1])] * 4},
    "a sampler": {"sampler": Repeating([0, 1, 1, 2] * 4), "batch_size": 2},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("occurrences")
    make_folder(root, 4)
    return str(root)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("order", ORDERS)
def test_occurrences_are_counted_from_the_epochs_start(folder, order, workers):
    def loader():
        data = pictures(folder, transform=T.Compose([T.RandomResizedCrop(16), T.ToTensor()]))
        seed = torch.Generator().manual_seed(1)
        options = {**ORDERS[order], "num_workers": workers, "generator": seed, "native": "require"}
        return millrace.DataLoader(data, **options)

    whole = [batch[0] for batch in loader()]
    assert not torch.equal(whole[0], whole[2]), "the same pictures, cropped anew"
    begun = loader()
    iterator = iter(begun)
    first = [next(iterator)[0] for _ in range(3)]
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    rest = [batch[0] for batch in resumed]
    assert len(first + rest) == len(whole)
    assert all(torch.equal(one, other) for one, other in zip(first + rest, whole))


def test_native_batches_are_in_order_and_so_are_their_states(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"n": n}) + "\n" for n in range(16)))

    def loader():
        return millrace.DataLoader(millrace.datasets.JSONL(str(path)), 4, num_workers=2, in_order=False)

    begun = loader()
    iterator = iter(begun)
    assert [next(iterator)["n"].tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    assert [batch["n"].tolist() for batch in resumed] == [[8, 9, 10, 11], [12, 13, 14, 15]]
