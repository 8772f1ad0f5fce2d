"""timm's ImageDataset over folders: torch's batches, and timm's rule for pictures that cannot be read."""

import millrace
import pytest
import torch
from loader_data import make_folder, torchvision_or_skip
from picture_trees import ships
from torch.utils.data import ConcatDataset, DataLoader, Subset

torchvision_or_skip()
timm_data = pytest.importorskip("timm.data.dataset")

from torchvision import transforms  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

COUNT = 9


@pytest.fixture
def root(tmp_path):
    make_folder(tmp_path / "photos", COUNT)
    return str(tmp_path / "photos")


def images(root, *first, **options):
    steps = [*first, transforms.Resize((12, 12)), transforms.ToTensor()]
    return timm_data.ImageDataset(root, transform=transforms.Compose(steps), **options)


def check(dataset, workers=2, **options):
    options = {"batch_size": 4, **options}
    torch.manual_seed(5)
    expected = list(DataLoader(dataset, **options))
    torch.manual_seed(5)
    loader = millrace.DataLoader(dataset, num_workers=workers, native="require", **options)
    for (pictures, labels), (wanted, numbers) in zip(loader, expected, strict=True):
        assert (
            torch.equal(pictures, wanted) and labels.dtype == numbers.dtype and torch.equal(labels, numbers)
        )
    return loader


def reason(dataset):
    (line,) = [
        line
        for line in millrace.DataLoader(dataset, 2).explain().splitlines()
        if line.startswith(("dataset: python", "transform: python")) and "ready for" not in line
    ]
    return line


def test_folders(root):
    dataset = images(root)
    loader = check(dataset, shuffle=True)
    assert f"dataset: native — timm ImageDataset of {COUNT} files" in loader.explain()
    check(images(root, target_transform=lambda label: label + 0.5), workers=0)
    check(images(root, class_map={"c": 0, "a": 5}))
    check(Subset(dataset, [3, -1, 0]))
    assert "replaces what it cannot read by samples of its own" in reason(ConcatDataset([dataset, dataset]))


@pytest.mark.parametrize("policy", ["raise", "skip", "replace"])
def test_unreadable_pictures_are_replaced_as_timm_does(root, policy, monkeypatch):
    monkeypatch.setattr(timm_data._logger, "warning", lambda text: None)
    dataset = images(root, target_transform=float)
    samples = dataset.reader.samples
    for number in (1, 2, COUNT - 1):
        with open(samples[number][0], "wb") as file:
            file.write(b"no picture")
    dataset.reader.samples = [*samples[:4], ("gone.jpg", 9), *samples[5:]]
    loader = check(dataset, shuffle=True)
    assert loader.stats()["left_out"] == 5, "that behind a bad one twice"
    assert {error["index"] for error in loader.stats()["errors"]} == {1, 2, 4, COUNT - 1}
    loader = millrace.DataLoader(dataset, 2, on_error=policy, num_workers=2, native="require")
    assert [labels.tolist() for _, labels in loader] == [[0, 1], [1, 1], [1, 1], [2, 2], [0]]


@pytest.mark.parametrize("normalize", [True, False])
def test_timms_transforms_of_evaluation_are_native(root, normalize):
    from timm.data import create_transform

    dataset = images(root)
    for mode in ("bilinear", "bicubic"):
        dataset.transform = create_transform(20, interpolation=mode, crop_pct=0.9, normalize=normalize)
        check(dataset)
    for size in ((20, 16), (16, 20)):  # where the sides differ, timm resizes by ResizeKeepRatio
        dataset.transform = create_transform((3, *size), normalize=normalize)
        check(dataset)
    conversion = create_transform(20, is_training=True).transforms[-2]
    dataset.transform = transforms.Compose([transforms.ToTensor(), conversion])
    check(dataset, batch_size=1)


def test_no_readable_picture(root, monkeypatch):
    monkeypatch.setattr(timm_data._logger, "warning", lambda text: None)
    dataset = images(root)
    dataset.reader.samples = [(path + ".gone", label) for path, label in dataset.reader.samples]
    with pytest.raises(RuntimeError, match="Failed to load 10 consecutive samples"):
        next(iter(DataLoader(dataset)))
    with pytest.raises(OSError, match="none of the 9 samples can be read"):
        next(iter(millrace.DataLoader(dataset, native="require")))


def test_other_modes(root):
    for mode in ("", None):
        check(images(root, v2.RGB(), input_img_mode=mode))
        assert "begin the transform with torchvision.transforms.v2.RGB()" in reason(
            images(root, input_img_mode=mode)
        )
    assert "input_img_mode='L' has no native form" in reason(images(root, input_img_mode="L"))


def test_what_stays_in_python(root, monkeypatch):
    from timm.data.readers.reader_image_folder import ReaderImageFolder

    class Counted(ReaderImageFolder):
        def __getitem__(self, index):
            return super().__getitem__(index)

    assert "reads with Counted, in Python" in reason(images(root, reader=Counted(root)))
    assert "load_bytes and additional_features" in reason(images(root, load_bytes=True))
    own = images(root)
    own.__class__ = type("Own", (type(own),), {"__getitem__": lambda self, index: index})
    assert "Own overrides __getitem__ of ImageDataset" in reason(own)
    monkeypatch.setattr(ReaderImageFolder, "__getitem__", Counted.__getitem__)
    assert "ReaderImageFolder.__getitem__ was replaced" in reason(images(root))


OLDER = """
def __getitem__(self, index):
    img, target{features} = self.reader[index]
    try:
        img = img.read() if self.load_bytes else Image.open(img)
    except Exception as e:
        _logger.warning(self.reader.filename(index) + str(e))
        self._consecutive_errors += 1
        if self._consecutive_errors < _ERROR_RETRY:
            return self.__getitem__((index + 1) % len(self.reader))
        raise e
    self._consecutive_errors = 0
    if self.input_img_mode and not self.load_bytes:
        img = img.convert(self.input_img_mode)
    if self.transform is not None:
        img = self.transform(img)
    target = -1 if target is None else target
    if self.target_transform is not None:
        target = self.target_transform(target)
    return img, target{returned}
"""
GENERATIONS = {
    "features": {"features": ", *more", "returned": " if self.additional_features is None else more[0]"},
    "none": {"features": "", "returned": ""},
}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_older_versions(root, generation, monkeypatch):
    made = {}
    exec(OLDER.format(**GENERATIONS[generation]), vars(timm_data), made)
    ships(monkeypatch, timm_data.ImageDataset, "__getitem__", made["__getitem__"])
    dataset = images(root)
    dataset._consecutive_errors = 0
    if generation == "none":
        del dataset.additional_features
    with open(dataset.reader.samples[2][0], "wb") as file:
        file.write(b"no picture")
    monkeypatch.setattr(timm_data._logger, "warning", lambda text: None)
    assert "timm ImageDataset" in check(dataset, shuffle=True).explain()
