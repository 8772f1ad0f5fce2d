"""Loaders of whose transforms the engine knows the beginning: that runs natively, the rest in Python, where
samples are made. What samples they give: torch's, where nothing is drawn, else those of the keys.
"""

import pickle

import millrace
import numpy as np
import pytest
import torch
from loader_data import generator_states
from millrace import transforms
from millrace.datasets import ImageFolder
from pictures import jpeg_bytes, make_picture
from PIL import Image, ImageOps
from prefix_cases import (
    COUNT,
    MEAN,
    SIZE,
    STD,
    TAIL,
    Doubled,
    Notes,
    Shaken,
    Solarised,
    batches,
    loader_of,
    native_steps,
    notes,
    picture_of,
    random_steps,
    root,  # noqa: F401
    same,
    vision,  # noqa: F401
    with_steps,
)
from torch.utils.data import ConcatDataset, Subset

# ---------------------------------------------------------------- values


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("at", range(1, 3))
def test_a_known_beginning_without_chance_gives_torchs_batches(root, vision, workers, at):
    torchvision, v2 = vision
    T = torchvision.transforms
    known = [T.Resize(40), T.CenterCrop(SIZE)]
    for unknown, tail in (
        (Solarised(), [T.ToTensor(), T.Normalize(MEAN, STD)]),
        (Solarised(), [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]),
    ):
        steps = [*known[:at], unknown, *known[at:], *tail]
        dataset = torchvision.datasets.ImageFolder(root, T.Compose(steps))
        assert native_steps(dataset) == [["Resize", "Resize, CenterCrop"][at - 1]]
        options = {"num_workers": workers, "batch_size": 5}
        ours = [[part.clone() for part in batch] for batch in millrace.DataLoader(dataset, **options)]
        same(ours, list(torch.utils.data.DataLoader(dataset, **options)))


@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_of_one_channel(root, vision, workers):
    """Tensors of them are native; a step that takes the picture gets Pillow's own."""
    T = vision[0].transforms
    known = [T.Resize(40), T.CenterCrop(SIZE)]
    for steps, native in (
        ([*known, T.Grayscale(), T.ToTensor(), T.Normalize(0.4, 0.2)], None),
        ([*known, T.Grayscale(), T.RandomHorizontalFlip(1.0), T.PILToTensor()], None),
        ([*known, T.Grayscale(), T.ToTensor(), Doubled()], "Resize, CenterCrop, Grayscale, ToTensor"),
        ([*known, T.Grayscale(), Solarised(), T.ToTensor()], "Resize, CenterCrop"),
    ):
        dataset = vision[0].datasets.ImageFolder(root, T.Compose(steps))
        options = {"num_workers": workers, "batch_size": 5}
        loader = millrace.DataLoader(dataset, **options, native="auto" if native else "require")
        assert native is None or native_steps(dataset) == [native]
        ours = [[part.clone() for part in batch] for batch in loader]
        same(ours, list(torch.utils.data.DataLoader(dataset, **options)))


def test_what_the_rest_sees_is_what_it_would_have_got(root, vision):
    """Class, mode, values and memory layout, behind each known step."""
    torchvision, v2 = vision
    v1 = torchvision.transforms
    resized = [v1.Resize(40), v1.CenterCrop(SIZE)]
    floats = v2.ToDtype(torch.float32, scale=True)
    of_tensors = [v2.Resize((SIZE, SIZE), antialias=True), v2.RandomHorizontalFlip(1.0)]
    for steps in (
        resized,
        [*resized, v1.ToTensor()],
        [*resized, v1.ToTensor(), v1.Normalize(MEAN, STD)],
        [*resized, v1.PILToTensor()],
        [*resized, v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)],
        [*resized, v2.ToImage()],
        [*resized, v2.ToImage(), v2.ToPureTensor()],
        [*resized, v2.PILToTensor(), floats],
        [*resized, v2.ToImage(), floats, v2.Normalize(MEAN, STD)],
        [v2.ToImage(), *of_tensors],
        [v2.ToImage(), *of_tensors, floats, v2.Normalize(MEAN, STD)],
        [v2.ToImage(), v2.CenterCrop(SIZE), floats],
        [
            *resized,
            v2.ToImage(),
            floats,
            v2.RandomErasing(1.0, scale=(0.2, 0.2), ratio=(1.0, 1.0), value=0.5),
        ],
    ):
        seen = torchvision.datasets.ImageFolder(root, v1.Compose([*steps, Notes()]))
        assert len(native_steps(seen)[0].split(", ")) == len(steps)
        (ours, _), *_ = millrace.DataLoader(seen, 2)
        expected = notes(v1.Compose(steps)(seen.loader(seen.samples[0][0])))
        assert bytes(ours[0].tolist()).decode() == bytes(expected.tolist()).decode(), steps
        if "RandomErasing" not in str(steps):
            valued = torchvision.datasets.ImageFolder(
                root, v1.Compose([*steps, lambda picture: torch.as_tensor(np.asarray(picture).copy())])
            )
            same(
                [batch for batch in millrace.DataLoader(valued, 4)],
                [batch for batch in torch.utils.data.DataLoader(valued, 4)],
            )


@pytest.mark.parametrize("library", ["millrace", "torchvision"])
def test_the_known_steps_draw_as_the_engine_does(root, vision, library):
    torchvision, _ = vision
    known = with_steps(root, *random_steps(), transforms.PILToTensor())
    steps, tail = random_steps(), TAIL
    if library == "torchvision":
        T = torchvision.transforms
        steps = [T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip()]
        tail = [T.ToTensor(), T.Normalize(MEAN, STD)]
    kind = ImageFolder if library == "millrace" else torchvision.datasets.ImageFolder
    compose = transforms.Compose if library == "millrace" else torchvision.transforms.Compose
    dataset = kind(root, compose([*steps, Solarised(), *tail]))
    rest = compose([Solarised(), *tail])
    loader = loader_of(dataset, 2)
    made = [picture for batch, _ in loader for picture in batch]
    for index, picture in enumerate(made):
        assert torch.equal(picture, rest(picture_of(known, loader, index)))
    assert len({picture.numpy().tobytes() for picture in made}) == COUNT


def test_steps_of_tensors_draw_as_the_engine_does(root):
    steps = [*random_steps(), *TAIL, transforms.RandomErasing(1.0)]
    known, dataset = with_steps(root, *steps), with_steps(root, *steps, Doubled())
    loader = loader_of(dataset, 1)
    for index, picture in enumerate(picture for batch, _ in loader for picture in batch):
        assert torch.equal(picture, known.at(index, loader.seed, loader.epoch)[0] * 2)


def test_no_number_of_workers_changes_a_byte(root):
    """Nor who starts them, though the rest draws from all generators."""
    dataset = with_steps(root, *random_steps(), Shaken(), *TAIL)
    expected = batches(dataset, 0, shuffle=True)
    assert not torch.equal(expected[0][0], batches(dataset, 0, shuffle=True, seed=6)[0][0])
    for workers in (1, 2, 3):
        same(batches(dataset, workers, shuffle=True), expected)
    for start in ("spawn", "forkserver"):
        same(batches(dataset, 2, shuffle=True, multiprocessing_context=start), expected)


def test_each_epoch_draws_anew(root):
    known = with_steps(root, *random_steps(), transforms.PILToTensor())
    dataset = with_steps(root, *random_steps(), Shaken(), transforms.PILToTensor())
    for method in ("process", "thread"):
        loader = loader_of(dataset, 2, persistent_workers=True, worker_method=method)
        first = [picture for batch, _ in loader for picture in batch.clone()]
        for epoch in (1, 2):
            later = [picture for batch, _ in loader for picture in batch.clone()]
            assert loader.epoch == epoch
            shift = [
                (a.long() - torch.from_numpy(np.array(picture_of(known, loader, i))).permute(2, 0, 1)) % 256
                for i, a in enumerate(later)
            ]
            assert all(len(one.unique()) == 1 for one in shift)
            assert not any(map(torch.equal, first, later))


def test_the_training_loops_generators_stay(root):
    loader = loader_of(with_steps(root, *random_steps(), Shaken(), *TAIL))
    iterator = iter(loader)
    before = generator_states()
    next(iterator)
    assert generator_states() == before


def test_indices_that_come_again_draw_anew(root):
    known = with_steps(root, *random_steps(), transforms.PILToTensor())
    dataset = with_steps(root, *random_steps(), Solarised(), transforms.PILToTensor())
    order = [3, 3, 4, 3, 4, 5, 3]
    for workers in (0, 2):
        loader = loader_of(dataset, workers, 5, 2, sampler=order)
        made = [picture for batch, _ in loader for picture in batch.clone()]
        counts = {}
        for index, picture in zip(order, made):
            occurrence = counts[index] = counts.get(index, -1) + 1
            expected = Solarised()(picture_of(known, loader, index, occurrence))
            assert np.array_equal(picture.permute(1, 2, 0).numpy(), np.asarray(expected))
        for step in range(4):
            assert torch.equal(loader.replay(step)[0], torch.stack(made[2 * step : 2 * step + 2]))


# ---------------------------------------------------------------- other datasets


def test_subsets_and_joined_folders(root, vision):
    torchvision, _ = vision
    T = torchvision.transforms
    transform = T.Compose([T.Resize((SIZE, SIZE)), Solarised(), T.ToTensor()])
    folder = torchvision.datasets.ImageFolder(root, transform)
    for dataset in (
        Subset(folder, [5, 2, 23, -1]),
        Subset(Subset(folder, range(4, 20)), [3, 1]),
        ConcatDataset([folder, Subset(folder, [7, 9])]),
    ):
        assert native_steps(dataset) == ["Resize"]
        for workers in (0, 1):
            same(
                batches(dataset, workers),
                [list(batch) for batch in torch.utils.data.DataLoader(dataset, 5)],
            )


def test_pictures_in_memory(vision, tmp_path):
    torchvision, _ = vision
    T = torchvision.transforms
    generator = np.random.default_rng(3)
    cifar = object.__new__(torchvision.datasets.CIFAR10)
    cifar.data = generator.integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)
    cifar.targets, cifar.target_transform, cifar.root = list(range(7)), None, ""
    mnist = object.__new__(torchvision.datasets.MNIST)
    mnist.data = torch.from_numpy(generator.integers(0, 256, (7, 28, 28), dtype=np.uint8))
    mnist.targets, mnist.target_transform, mnist.root = torch.arange(7), None, ""
    for dataset in (cifar, mnist):
        dataset.transform = T.Compose([T.Resize(20), T.CenterCrop(16), Solarised(), T.ToTensor()])
        assert native_steps(dataset) == ["Resize, CenterCrop"]
        for workers in (0, 1):
            same(batches(dataset, workers), [list(b) for b in torch.utils.data.DataLoader(dataset, 5)])
        dataset.transform = T.Compose([T.Resize(16), T.ToTensor(), Doubled()])
        same(batches(dataset), [list(batch) for batch in torch.utils.data.DataLoader(dataset, 5)])


def test_targets_that_are_no_ints(root, vision):
    torchvision, _ = vision
    T = torchvision.transforms
    folder = torchvision.datasets.ImageFolder(root, T.Compose([T.Resize((8, 8)), Solarised(), T.ToTensor()]))
    folder.samples = [(path, {"name": path[-6:], "class": float(label)}) for path, label in folder.samples]
    for ours, theirs in zip(loader_of(folder, 1), torch.utils.data.DataLoader(folder, 5), strict=True):
        assert torch.equal(ours[0], theirs[0]) and ours[1]["name"] == theirs[1]["name"]
        assert torch.equal(ours[1]["class"], theirs[1]["class"])


def test_what_pillow_knows_of_the_file_is_there(tmp_path, vision):
    """A step behind the known ones that turns pictures by their EXIF finds it."""
    torchvision, _ = vision
    T = torchvision.transforms
    (tmp_path / "a").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a" / "x.jpg").write_bytes(jpeg_bytes(make_picture(50, 40), exif=exif, dpi=(72, 72)))
    seen = []

    def note(picture):
        seen.append(
            (dict(picture.info), pickle.loads(pickle.dumps(picture)).info, picture.copy().info["dpi"])
        )
        return picture

    steps = [T.Resize((30, 20)), T.Lambda(note), ImageOps.exif_transpose, T.ToTensor()]
    folder = torchvision.datasets.ImageFolder(tmp_path, T.Compose(steps))
    assert native_steps(folder) == ["Resize"]
    ((ours, _),) = millrace.DataLoader(folder)
    ((theirs, _),) = torch.utils.data.DataLoader(folder)
    assert ours.shape[-2:] == (20, 30) and torch.equal(ours, theirs)
    assert seen[0] == seen[1] and seen[0][0]["exif"]
