"""FiveCrop and TenCrop: batches are those of torch's loader over the library's own results."""

import crop_cases as cases
import millrace
import pytest
import torch
from loader_data import make_folder, pictures
from millrace import transforms as ours
from view_cases import InPython, flat, structure

COUNT, BATCH = 7, 3
FAMILIES = ["v1", "v2", "ours"]
pytestmark = pytest.mark.filterwarnings("ignore:The transform `ToTensor")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("crops")
    make_folder(root, COUNT)
    return str(root)


@pytest.fixture
def family(torchvision):
    from torchvision import transforms as v1
    from torchvision.transforms import v2

    return {"v1": v1, "v2": v2, "ours": ours}.__getitem__


def dataset_of(root, t, steps):
    return pictures(root, transform=t.Compose(steps) if len(steps) > 1 else steps[0])


def check(dataset, workers):
    """The native batches, which are torch's."""
    loader = millrace.DataLoader(dataset, BATCH, num_workers=workers, native="require")
    batches, theirs = list(loader), list(torch.utils.data.DataLoader(InPython(dataset), BATCH))
    assert list(map(structure, batches)) == list(map(structure, theirs))
    for (views, labels), (expected, numbers) in zip(batches, theirs, strict=True):
        assert torch.equal(labels, numbers)
        assert all(map(torch.equal, flat(views), flat(expected)))
    return batches


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("case", cases.NATIVE)
def test_batches_are_torchs(case, name, family, root):
    make, stacked = cases.NATIVE[case]
    if (case, name) == ("tensors", "v2"):
        pytest.skip("its ToTensor is deprecated, and makes what a test below has")
    dataset = dataset_of(root, family(name), make(family(name)))
    batches = check(dataset, 2 if name == "v1" else 0)
    if stacked:
        assert batches[0][0].shape[:2] == (BATCH, stacked) and batches[0][0].is_contiguous()
    loader = millrace.DataLoader(dataset, 2)
    told = next(line for line in loader.explain().splitlines() if line.startswith("transform: native"))
    assert f"{stacked or 5} views{', stacked' if stacked else ''} (" in told and "Crop" in told


@pytest.mark.parametrize("case", cases.V2)
def test_steps_of_v2_take_all_pictures(case, family, root):
    check(dataset_of(root, family("v2"), cases.V2[case](family("v2"))), 0)


def test_lambda_of_v1(family, root):
    v1 = family("v1")
    functions = [cases.stacked(v1), cases.normalized(v1)]
    check(dataset_of(root, v1, [v1.Resize(20), v1.FiveCrop(11), *map(v1.Lambda, functions)]), 2)


@pytest.mark.parametrize("case", cases.NATIVE)
def test_single_samples(case, root):
    dataset = dataset_of(root, ours, cases.NATIVE[case][0](ours))
    for index, (expected, label) in enumerate(InPython(dataset)):
        made, number = dataset.at(index, 5, 0)
        assert number == label and type(made) is type(expected) is type(dataset[index][0])
        assert all(map(torch.equal, flat(made), flat(expected)))


def test_a_collate_fn_gets_samples(root):
    dataset = dataset_of(root, ours, cases.NATIVE["five"][0](ours))
    loader = millrace.DataLoader(dataset, BATCH, num_workers=2, native="require", collate_fn=list)
    for batch in loader:
        for made, label in batch:
            assert torch.equal(made, dataset.at(label, loader.seed, 0)[0]) and made.shape == (5, 3, 12, 9)


@pytest.mark.parametrize("case", cases.PYTHON)
def test_what_is_not_known_is_called(case, root):
    dataset = dataset_of(root, ours, cases.PYTHON[case](ours))
    with pytest.raises(millrace.UnavailableError, match="FiveCrop makes several pictures"):
        iter(millrace.DataLoader(dataset, BATCH, native="require"))


def test_what_only_the_first_tensor_gets_is_called(family, root):
    """v2 changes one of several plain tensors, so its Normalize is no view's."""
    v2 = family("v2")
    steps = [v2.PILToTensor(), v2.FiveCrop(11), v2.ToDtype(torch.float32, scale=True)]
    dataset = dataset_of(root, v2, steps)
    with pytest.raises(millrace.UnavailableError, match="changes only the first of several tensors"):
        iter(millrace.DataLoader(dataset, BATCH, native="require"))
    views, _ = next(iter(millrace.DataLoader(dataset, BATCH)))
    assert [view.dtype for view in views] == [torch.float32, *[torch.uint8] * 4]


def test_a_picture_that_is_too_small(family, root):
    v1 = family("v1")
    dataset = dataset_of(root, v1, [v1.FiveCrop((36, 20)), cases.stacked(v1)])
    words = r"Requested crop size \(36, 20\) is bigger than input size \(35, 35\)"
    with pytest.raises(ValueError, match=words):
        list(torch.utils.data.DataLoader(InPython(dataset), 1))
    with pytest.raises(ValueError, match=r"005\.jpg: " + words):
        list(millrace.DataLoader(dataset, 1, native="require"))


def test_states_and_numbers_of_workers(root):
    dataset = dataset_of(root, ours, [ours.Resize(20), ours.FiveCrop(9), cases.Each(_random())])
    torch.manual_seed(3)
    loader = millrace.DataLoader(dataset, 2, shuffle=True, native="require", num_workers=2)
    iterator = iter(loader)
    next(iterator)
    state, rest = loader.state_dict(), list(iterator)
    later = millrace.DataLoader(dataset, 2, shuffle=True, native="require")
    later.load_state_dict(state)
    for (crops, labels), (expected, numbers) in zip(later, rest, strict=True):
        assert torch.equal(labels, numbers) and torch.equal(crops, expected)


def _random():
    return ours.Compose([ours.RandomHorizontalFlip(), ours.ToTensor(), ours.RandomErasing()])
