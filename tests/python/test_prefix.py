"""Loaders of whose transforms the engine knows the beginning: that runs natively, the rest in Python, where
samples are made.
"""

import pickle
import traceback

import millrace
import numpy as np
import pytest
import torch
from loader_data import generator_states
from millrace import transforms
from millrace.datasets import ImageFolder
from pictures import jpeg_bytes, make_jpeg_folder, make_picture
from PIL import Image, ImageOps
from prefix_cases import (
    MEAN,
    SIZE,
    STD,
    Doubled,
    Notes,
    Raises,
    Shaken,
    Solarised,
    notes,
    random_steps,
    with_steps,
)
from torch.utils.data import ConcatDataset, Subset

COUNT = 24
TAIL = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_jpeg_folder(tmp_path_factory.mktemp("prefix") / "photos")


@pytest.fixture(scope="module")
def vision(torchvision):
    from torchvision.transforms import v2

    return torchvision, v2


def loader_of(dataset, workers=0, seed=5, batch_size=5, **options):
    torch.manual_seed(seed)
    return millrace.DataLoader(dataset, batch_size, num_workers=workers, **options)


def batches(dataset, workers=0, **options):
    return [[part.clone() for part in batch] for batch in loader_of(dataset, workers, **options)]


def same(one, other):
    assert len(one) == len(other)
    for batch, expected in zip(one, other):
        for part, whole in zip(batch, expected):
            assert part.dtype == whole.dtype and torch.equal(part, whole)


def stages(dataset, **options):
    """[(stage, native or python, reason)] of explain()."""
    lines = millrace.DataLoader(dataset, **options).explain().splitlines()
    pairs = [line.split(": ", 1) for line in lines]
    return [(name, *rest.split(" — ", 1)) for name, rest in pairs if name != "pictures"]


def native_steps(dataset, **options):
    """What explain() says is native of the transform."""
    return [
        reason for name, how, reason in stages(dataset, **options) if (name, how) == ("transform", "native")
    ]


def picture_of(known, loader, index, occurrence=0):
    """The PIL image that `known`, a dataset of the known steps and PILToTensor, gives with that key."""
    tensor, _ = known.at(index, loader.seed, loader.epoch, occurrence)
    return Image.fromarray(tensor.permute(1, 2, 0).numpy())


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
        same(batches(dataset), [list(batch) for batch in torch.utils.data.DataLoader(dataset, 5)])
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
    iterator = iter(again)
    for _ in range(3):
        next(iterator)
    state = again.state_dict()
    for others in (workers, 1):
        resumed = made()
        resumed = loader_of(dataset, others, seed=99, sampler=resumed.sampler)
        resumed.load_state_dict(state)
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
    with pytest.raises(millrace.UnavailableError, match="a part of its transform runs in Python"):
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


def test_where_nothing_is_won_or_sure_all_stays_in_python(root):
    steps = [*random_steps(), Solarised(), *TAIL]
    compose = transforms.Compose(steps)
    for dataset in (
        with_steps(root, Solarised(), *random_steps(), *TAIL),
        with_steps(root, transforms.ToTensor(), Doubled()),
        with_steps(root, transforms.RandomApply([*random_steps(), Solarised()]), *TAIL),
        ImageFolder(root, compose, target_transform=double),
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
