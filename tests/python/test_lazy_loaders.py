"""Loaders over Python datasets whose pictures wait: batches, draws and errors are those of torch's loader."""

import io
import threading
import time

import millrace
import numpy as np
import pytest
import torch
from lazy_cases import WAYS, epochs, lazy_jpegs, lazy_pictures, same_batches, written
from loader_data import torchvision_or_skip
from millrace._pictures.pillow import record_of
from pictures import jpeg_bytes, make_picture
from PIL import Image, ImageFile

torchvision = torchvision_or_skip()
from torchvision.transforms import functional, v2  # noqa: E402

T = torchvision.transforms
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
COUNT = 13
HERE = ("inline", "fork", "threads")
TRANSFORMS = {
    "v1": T.Compose(
        [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]
    ),
    "v1 in pixels": T.Compose(
        [T.RandomRotation(15), T.ColorJitter(0.3, 0.3, 0.3, 0.1), T.RandomCrop(24, 4), T.ToTensor()]
    ),
    "v2": v2.Compose(
        [
            v2.RandomResizedCrop(24),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    ),
    "RandAugment": T.Compose([T.RandAugment(), T.Resize((24, 24)), T.PILToTensor()]),
}


def files():
    return [jpeg_bytes(make_picture(60 + 3 * i, 50 + i, seed=i), quality=80) for i in range(COUNT)]


class Photos(torch.utils.data.Dataset):
    """Files and their numbers."""

    def __init__(self, paths, transform):
        self.paths, self.transform = paths, transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as image:
            return self.transform(image.convert("RGB")), index


def by_index(image):
    """What depends on the picture alone, so that threads may share no generator."""
    random = np.random.default_rng(image.width)
    left, top, turn = (int(n) for n in random.integers(0, 20, 3))
    image = image.crop((left, top, left + 30, top + 25)).resize((20, 22), Image.Resampling.BICUBIC)
    return functional.to_tensor(image.transpose(Image.Transpose(turn % 2)))


@pytest.fixture
def paths(tmp_path):
    found = []
    for i, data in enumerate(files()):
        found.append(tmp_path / f"{i:02}.jpg")
        found[-1].write_bytes(data)
    return found


@pytest.mark.parametrize("way", ["inline", "fork"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_batches_are_torchs(paths, transform, way):
    pictures = same_batches(Photos(paths, TRANSFORMS[transform]), way, count=2, shuffle=True)
    assert (pictures["opened"], pictures["left_to_pillow"], pictures["skipped"]) == (COUNT, 0, 0)


@pytest.mark.slow
def test_batches_of_spawned_workers(paths):
    pictures = same_batches(Photos(paths, TRANSFORMS["v2"]), "spawn", shuffle=True)
    assert (pictures["opened"], pictures["left_to_pillow"]) == (COUNT, 0)


def test_batches_of_threads(paths):
    pictures = same_batches(Photos(paths, by_index), "threads", count=2, shuffle=True)
    assert (pictures["opened"], pictures["left_to_pillow"]) == (COUNT, 0)


def test_workers_that_persist(paths):
    pictures = same_batches(
        Photos(paths, TRANSFORMS["v1"]),
        "fork",
        count=3,
        shuffle=True,
        persistent_workers=True,
        drop_last=True,
    )
    assert pictures["opened"] == 36 and pictures["left_to_pillow"] == 0, "of 3 epochs without the last"


class Streamed(torch.utils.data.IterableDataset):
    def __init__(self, paths):
        self.paths = paths

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        begin, step = (0, 1) if info is None else (info.id, info.num_workers)
        for path in self.paths[begin::step]:
            yield TRANSFORMS["v1"](Image.open(path)), str(path.name)


@pytest.mark.parametrize("way", ["inline", "fork"])
def test_iterable_datasets(paths, way):
    pictures = same_batches(Streamed(paths), way)
    assert (pictures["opened"], pictures["left_to_pillow"]) == (COUNT, 0)


def as_pictures(samples):
    return [image for image, _ in samples], [label for _, label in samples]


@pytest.mark.parametrize("way", HERE)
def test_pictures_that_leave_the_loader(paths, way):
    """PIL images in the batch are Pillow's, in whatever process they were opened."""
    dataset = Photos(paths, Halved())
    pictures = same_batches(dataset, way, collate_fn=as_pictures)
    assert (pictures["opened"], pictures["left_to_pillow"]) == (COUNT, 0)
    for images, _ in millrace.DataLoader(dataset, 4, collate_fn=as_pictures, **WAYS[way], pictures="lazy"):
        assert all(type(image) is Image.Image for image in images)
        images[0].putpixel((0, 0), (1, 2, 3))
        assert images[0].getpixel((0, 0)) == (1, 2, 3)


class Halved:
    def __call__(self, image):
        return image.resize((image.width // 2, image.height // 2))


class Broken(Photos):
    def __getitem__(self, index):
        if index == 5:
            return self.transform(Image.open(io.BytesIO(files()[5][:-300])).convert("RGB")), index
        return super().__getitem__(index)


def until_it_fails(loader):
    torch.manual_seed(3)
    seen = []
    try:
        for images, labels in loader:
            seen.append((labels.tolist(), float(images.sum())))
    except Exception as error:
        named = type(error).__name__ + ": "
        lines = [line.removeprefix(named) for line in str(error).splitlines()]
        seen.append((type(error), [line for line in lines if "truncated" in line]))
    return seen


@pytest.mark.parametrize("way", HERE)
def test_a_broken_picture_raises_what_pillow_raises(paths, way):
    dataset = Broken(paths, by_index)
    theirs = {name: value for name, value in WAYS[way].items() if name != "worker_method"}
    expected = until_it_fails(torch.utils.data.DataLoader(dataset, 2, **theirs))
    seen = until_it_fails(millrace.DataLoader(dataset, 2, **WAYS[way], pictures="lazy"))
    assert seen == expected and seen[-1][1] and len(seen) == 3


@pytest.mark.parametrize("way", HERE)
def test_broken_pictures_are_left_out(paths, way):
    loader = millrace.DataLoader(
        Broken(paths, by_index), 4, **WAYS[way], pictures="lazy", on_error="skip", drop_last=False
    )
    labels = sorted(label for _, batch in loader for label in batch.tolist())
    assert labels == [i for i in range(COUNT) if i != 5]
    assert [error["index"] for error in loader.stats()["errors"]] == [5]


def test_the_switch_of_the_environment(paths, monkeypatch):
    dataset = Photos(paths, by_index)
    for mode, opened in (("lazy", COUNT), ("pillow", 0)):
        monkeypatch.setenv("MILLRACE_PICTURES", mode)
        loader = millrace.DataLoader(dataset, 4)
        list(loader)
        assert (loader.pictures, loader.stats()["pictures"]["opened"]) == (mode, opened)
    monkeypatch.setenv("MILLRACE_PICTURES", "both")
    with pytest.raises(ValueError, match="both"):
        millrace.DataLoader(dataset, 4)


def test_only_pictures_of_the_loader_wait(paths):
    """Those that the loop opens between batches are Pillow's, and so are those of a thread beside it."""
    stop, waited = threading.Event(), []

    def opens():
        while not stop.is_set():
            image = Image.open(paths[0])
            image.load()
            waited.append(record_of(image) is not None)
            time.sleep(0.001)

    thread = threading.Thread(target=opens)
    thread.start()
    try:
        for _ in millrace.DataLoader(Photos(paths, by_index), 2, pictures="lazy"):
            image = Image.open(paths[0])
            image.load()
            assert record_of(image) is None
    finally:
        stop.set()
        thread.join()
    assert waited and not any(waited)


def test_a_picture_kept_by_the_dataset_is_looked_at_later(paths):
    kept = []

    def keep(image):
        kept.append(image.crop((3, 3, 40, 40)))
        return torch.zeros(1)

    loader = millrace.DataLoader(Photos(paths, keep), 4, pictures="lazy")
    list(loader)
    assert loader.stats()["pictures"]["skipped"] == COUNT
    for image, path in zip(kept, paths):
        assert record_of(image) is not None
        assert np.array_equal(image, Image.open(path).convert("RGB").crop((3, 3, 40, 40)))


def test_calls_of_the_script_are_named(paths):
    def looks(image):
        image.getpixel((3, 3))
        return torch.from_numpy(np.array(image.resize((20, 20))))

    loader = millrace.DataLoader(Photos(paths, looks), 4, pictures="lazy")
    list(loader)
    calls = loader.stats()["pictures"]["calls"]
    assert sum(calls.values()) >= COUNT and any(
        call.startswith("getpixel() in test_lazy_loaders.py:") for call in calls
    ), calls


def test_other_files_are_left_to_pillow(paths, tmp_path, monkeypatch):
    """Counted, and the same."""
    cmyk = tmp_path / "cmyk.jpg"
    make_picture(60, 50, mode="CMYK").save(cmyk)
    bitmap = tmp_path / "a.bmp"
    make_picture(60, 50).save(bitmap)
    pictures = same_batches(Photos([*paths, cmyk, bitmap], by_index))
    assert (pictures["opened"], pictures["left_to_pillow"]) == (COUNT, 2)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    pictures = same_batches(Photos(paths, by_index))
    assert (pictures["opened"], pictures["left_to_pillow"]) == (0, COUNT)


def test_an_epoch_that_is_broken_off(paths):
    loader = millrace.DataLoader(Photos(paths, by_index), 2, **WAYS["fork"], pictures="lazy")
    expected = epochs(millrace.DataLoader(Photos(paths, by_index), 2, pictures="pillow"))
    for _ in range(3):
        iterator = iter(loader)
        next(iterator)
        del iterator
    assert epochs(loader) == expected


@pytest.mark.parametrize("way", HERE)
def test_every_kind_of_jpeg(tmp_path, way):
    found = []
    for name, data in lazy_jpegs().items():
        found.append(tmp_path / f"{name}.jpg")
        found[-1].write_bytes(data)
    pictures = same_batches(Photos(found, by_index), way)
    assert (pictures["opened"], pictures["left_to_pillow"]) == (len(found), 0)


def test_memory_of_tensors_is_the_callers():
    """Nobody else writes there, and it may be written, resized and shared."""
    with lazy_pictures():
        image = Image.open(io.BytesIO(files()[0]))
        first, second = functional.to_tensor(image), functional.to_tensor(image)
        before = written(second)
        first.zero_()
        assert written(second) == before and written(functional.to_tensor(image)) == before
        second.resize_(3, 5, 5)
        assert functional.pil_to_tensor(image).share_memory_().is_shared()
        file = io.BytesIO()
        torch.save(first, file)
        assert len(file.getvalue()) < first.numel() * 4 + 4096
