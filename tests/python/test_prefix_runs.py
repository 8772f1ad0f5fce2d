"""Loaders that know the beginning of a transform: states, replay, errors, explain(), who has none."""

import traceback

import millrace
import numpy as np
import pytest
import torch
from loader_data import advanced, generator_states, going_on
from millrace import transforms
from millrace.datasets import ImageFolder, WebDataset
from pictures import make_jpeg_folder
from PIL import Image
from prefix_cases import (
    COUNT,
    TAIL,
    Doubled,
    Raises,
    Shaken,
    Solarised,
    batches,
    fixed_steps,
    loader_of,
    native_steps,
    picture_of,
    random_steps,
    root,  # noqa: F401
    same,
    stages,
    vision,  # noqa: F401
    with_steps,
)
from shard_data import make_picture_shards
from torch.utils.data import ConcatDataset, Subset

# ---------------------------------------------------------------- states


@pytest.mark.parametrize("workers", [0, 2])
def test_resumed_in_the_middle_of_an_epoch(root, workers):
    dataset = with_steps(root, *random_steps(), Shaken(), *TAIL)

    def made():
        sampler = torch.utils.data.RandomSampler(dataset, True, 40, torch.Generator().manual_seed(1))
        return loader_of(dataset, workers, sampler=sampler)

    loader = made()
    whole = [[part.clone() for part in batch] for batch in loader]
    again = made()
    _held = advanced(again, 3)
    state = again.state_dict()
    for others in (workers, 1):
        resumed = made()
        resumed = going_on(loader_of(dataset, others, seed=99, sampler=resumed.sampler), state)
        same([list(batch) for batch in resumed], whole[3:])
    assert torch.equal(loader.replay(6)[0], whole[6][0])
    assert torch.equal(resumed.replay(4)[0], whole[4][0])
    forgotten = made()
    forgotten.history = millrace.BatchHistory(steps=1)
    forgotten.load_state_dict(loader.state_dict() | {})
    last = made()
    last.history = millrace.BatchHistory(steps=1)
    list(last)
    assert torch.equal(last.replay(5)[0], whole[5][0])


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_rest_has_its_traceback(root, workers):
    loader = loader_of(with_steps(root, *random_steps(), Raises(), *TAIL), workers)
    with pytest.raises(ArithmeticError, match="this step fails") as caught:
        next(iter(loader))
    text = "".join(traceback.format_exception(caught.value))
    assert "prefix_cases.py" in text and "in __call__" in text
    if workers:
        assert "Caught ArithmeticError in DataLoader worker process 0" in text
        assert "(raised by dataset[0])" in text


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_cannot_be_read_is_the_datasets_own_error(tmp_path, vision, workers):
    torchvision, _ = vision
    T = torchvision.transforms
    root = make_jpeg_folder(tmp_path / "photos", per_class=2)
    folder = torchvision.datasets.ImageFolder(root, T.Compose([T.Resize((8, 8)), Solarised(), T.ToTensor()]))
    bad, gone = folder.samples[1][0], folder.samples[3][0]
    with open(bad, "wb") as file:
        file.write(b"no picture")
    (tmp_path / gone).unlink()

    def outcomes(kind):
        loader, found = kind(folder, 1, num_workers=workers), []
        iterator = iter(loader)
        while True:
            try:
                found.append(next(iterator)[0].tolist())
            except StopIteration:
                return found
            except Exception as error:
                found.append((type(error), str(error).splitlines()[-1]))

    found, theirs = outcomes(millrace.DataLoader), outcomes(torch.utils.data.DataLoader)
    assert [type(one) for one in found] == [type(one) for one in theirs] and len(found) == 6
    assert found[0] == theirs[0] and found[5] == theirs[5]
    assert found[1][0] is theirs[1][0] and bad in found[1][1] if not workers else found[1][0] is theirs[1][0]
    assert found[3][0] is theirs[3][0] is FileNotFoundError
    for policy, count in (("skip", 4), ("replace", 6)):
        loader = loader_of(folder, workers, batch_size=2, on_error=policy)
        assert sum(len(labels) for _, labels in loader) == count
        assert loader.stats()["left_out"] == 2


# ---------------------------------------------------------------- what is known, and what is said


def test_explain_says_where_each_step_runs(root):
    dataset = with_steps(root, *random_steps(), Solarised(), *TAIL)
    found = stages(dataset, batch_size=4, shuffle=True, num_workers=2)
    assert found[0] == (
        "dataset",
        "native",
        f"millrace ImageFolder of {COUNT} files, read and decoded where samples are made",
    )
    assert found[1] == ("transform", "native", "RandomResizedCrop, RandomHorizontalFlip")
    name, how, reason = found[2]
    assert (name, how) == ("transform", "python")
    assert reason.startswith("Solarised (of prefix_cases) has no native form; the engine knows")
    assert reason.endswith(". Behind it, in Python, too: ToTensor, Normalize")
    assert {how for _, how, _ in found[3:]} == {"python"} and len(found) == 6
    loader = millrace.DataLoader(dataset, 4, num_workers=2)
    assert loader.stats()["engine"] == "processes"


def test_require_means_no_python_step(root):
    dataset = with_steps(root, *random_steps(), Solarised(), *TAIL)
    with pytest.raises(millrace.UnavailableError, match="a part of it runs in Python"):
        iter(millrace.DataLoader(dataset, native="require"))
    assert stages(dataset, native="never")[0][0] == "loader"


class Preset:
    """As torchvision's references have it."""

    def __init__(self, *steps):
        self.transforms = transforms.Compose(list(steps))

    def __call__(self, picture):
        return self.transforms(picture)


def test_holders_are_looked_through(root):
    steps = [*random_steps(), Solarised(), *TAIL]
    plain = with_steps(root, *steps)
    expected = batches(plain, 1)
    nested = transforms.Compose([transforms.Compose(steps[:1]), transforms.Compose(steps[1:])])
    modules = torch.nn.Sequential(*steps[:2], transforms.Compose([Preset(*steps[2:])]))
    for transform in (nested, modules, Preset(*steps), Preset(nested)):
        dataset = ImageFolder(root, transform)
        assert native_steps(dataset) == ["RandomResizedCrop, RandomHorizontalFlip"]
        same(batches(dataset, 1), expected)


class Counting(ImageFolder):
    def __getitem__(self, index):
        return super().__getitem__(index)


def double(label):
    return 2 * label


@pytest.mark.parametrize("workers", [0, 2])
def test_functions_of_targets_are_called_where_samples_are_made(root, workers):
    steps = transforms.Compose([*fixed_steps(), Solarised(), *TAIL])
    dataset = ImageFolder(root, steps, target_transform=double)
    assert native_steps(dataset) == ["Resize, CenterCrop"]
    same(batches(dataset, workers), batches(dataset, workers, native="never"))
    subset = Subset(ConcatDataset([dataset, ImageFolder(root, steps)]), [3, COUNT + 3, 5])
    same(batches(subset, workers), batches(subset, workers, native="never"))


def test_where_nothing_is_won_or_sure_all_stays_in_python(root):
    steps = [*random_steps(), Solarised(), *TAIL]
    compose = transforms.Compose(steps)
    for dataset in (
        with_steps(root, Solarised(), *random_steps(), *TAIL),
        with_steps(root, transforms.ToTensor(), Doubled()),
        with_steps(root, transforms.RandomApply([*random_steps(), Solarised()]), *TAIL),
        ImageFolder(root, compose, loader=Image.open),
        Counting(root, compose),
        ConcatDataset([ImageFolder(root, compose), with_steps(root, *steps)]),
    ):
        assert {how for _, how, _ in stages(dataset)} == {"python"}
    hooked = transforms.Compose(steps)
    hooked.register_forward_hook(lambda *_: None)
    assert native_steps(ImageFolder(root, hooked)) == []
    dataset = ImageFolder(root, compose)
    assert native_steps(dataset, batch_size=None) == []
    assert native_steps(dataset, num_workers=1, worker_init_fn=print) == []
    assert native_steps(dataset, collate_fn=list) == ["RandomResizedCrop, RandomHorizontalFlip"]


def test_indexed_shards_are_read_by_their_dataset(tmp_path):
    make_picture_shards(tmp_path, [4])
    compose = transforms.Compose([*random_steps(), Solarised(), *TAIL])
    stream = WebDataset(f"{tmp_path}/train-000.tar").decode("pil").to_tuple("jpg", "cls").map_tuple(compose)
    assert native_steps(stream) and native_steps(stream.indexed()) == []


def test_a_generator_of_another_kind_is_the_users(root):
    dataset = with_steps(root, *random_steps(), Solarised(), *TAIL)
    expected = batches(dataset)
    usual = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        same(batches(dataset), expected)
    finally:
        np.random.set_bit_generator(usual)


def test_pictures_for_a_collate_fn_of_ones_own(root):
    dataset = with_steps(root, *random_steps())
    known = with_steps(root, *random_steps(), transforms.PILToTensor())
    loader = loader_of(dataset, 1, collate_fn=list)
    assert native_steps(dataset, collate_fn=list) == ["RandomResizedCrop, RandomHorizontalFlip"]
    for index, (picture, _) in enumerate(sample for batch in loader for sample in batch):
        assert np.array_equal(np.asarray(picture), np.asarray(picture_of(known, loader, index)))


def told(picture):
    info = torch.utils.data.get_worker_info()
    return torch.tensor([info.id, type(info.dataset) is ImageFolder, len(info.dataset)])


def test_a_worker_has_the_dataset_itself(root):
    ((seen, _),) = loader_of(with_steps(root, *random_steps(), told), 1, batch_size=COUNT)
    assert seen.tolist() == [[0, True, COUNT]] * COUNT


def test_threads(root):
    """Their generators are the training loop's, which are not seeded: the known steps are as ever."""
    known = with_steps(root, *random_steps(), transforms.PILToTensor())
    dataset = with_steps(root, *random_steps(), Solarised(), transforms.PILToTensor())
    loader = loader_of(dataset, 2, worker_method="thread")
    before = None
    for number, (batch, _) in enumerate(loader):
        before = before or generator_states()
        for row, picture in enumerate(batch):
            expected = Solarised()(picture_of(known, loader, 5 * number + row))
            assert np.array_equal(picture.permute(1, 2, 0).numpy(), np.asarray(expected))
    assert generator_states() == before
