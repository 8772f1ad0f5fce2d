"""Datasets of archives, databases, caches, other libraries: with lazy pictures their batches are torch's."""

import io
import tarfile
import zipfile

import millrace
import numpy as np
import pytest
import torch
from lazy_cases import PROCESSES, epochs
from millrace._pictures.pillow import record_of
from picture_files import COUNT, TRAINING, WAYS, Files, check, px
from PIL import Image
from test_picture_datasets import FromCsv
from torch.utils.data import get_worker_info

# ------------------------------------------------------------------ other sources


class TarMembers(Files):
    """Members of a tar file, which each worker opens for itself."""

    def __init__(self, root, archive):
        super().__init__(root)
        self.archive, self.tar = archive, None

    def __getitem__(self, index):
        info = get_worker_info()
        worker = -1 if info is None else info.id
        if self.tar is None or self.tar[0] != worker:
            self.tar = worker, tarfile.open(self.archive)
        with self.tar[1].extractfile(self.paths[index].name) as member:
            return TRAINING(Image.open(member).convert("RGB")), index

    def __getstate__(self):
        return {**self.__dict__, "tar": None}


class ZipMembers(Files):
    def __init__(self, root, archive):
        super().__init__(root)
        self.archive = archive

    def __getitem__(self, index):
        with zipfile.ZipFile(self.archive) as archive:
            data = archive.read(self.paths[index].name)
        return TRAINING(Image.open(io.BytesIO(data)).convert("RGB")), index


def make_archives(gallery, folder):
    """folder/a.tar and folder/a.zip."""
    with tarfile.open(folder / "a.tar", "w") as tar, zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for path in (gallery / "images").iterdir():
            tar.add(path, path.name)
            archive.write(path, path.name)


@WAYS
def test_members_of_archives(gallery, way, tmp_path):
    make_archives(gallery, tmp_path)
    check(TarMembers(gallery, tmp_path / "a.tar"), way)
    check(ZipMembers(gallery, tmp_path / "a.zip"), way)


class Lmdb(Files):
    def __init__(self, root, folder):
        super().__init__(root)
        self.folder, self.environment = str(folder), None

    def __getitem__(self, index):
        import lmdb

        if self.environment is None:
            self.environment = lmdb.open(self.folder, readonly=True, lock=False, readahead=False)
        with self.environment.begin(buffers=True) as transaction:
            image = Image.open(io.BytesIO(transaction.get(b"%08d" % index))).convert("RGB")
        return TRAINING(image), index

    def __getstate__(self):
        return {**self.__dict__, "environment": None}


def make_lmdb(gallery, folder):
    import lmdb

    with (
        lmdb.open(str(folder), map_size=1 << 28) as environment,
        environment.begin(write=True) as put,
    ):
        for i, path in enumerate(sorted((gallery / "images").iterdir())):
            put.put(b"%08d" % i, path.read_bytes())
    return folder


@WAYS
def test_bytes_of_lmdb(gallery, way, tmp_path):
    pytest.importorskip("lmdb")
    check(Lmdb(gallery, make_lmdb(gallery, tmp_path / "db")), way)


class Cached(Files):
    """Pictures opened once, in __init__ or at the first use, and kept."""

    def __init__(self, root, at_once):
        super().__init__(root)
        self.kept = {i: self.open(i) for i in range(len(self))} if at_once else {}

    def __getitem__(self, index):
        if index not in self.kept:
            self.kept[index] = self.open(index)
        return TRAINING(self.kept[index]), index


def test_pictures_kept_in_a_list(gallery):
    """The second epoch opens none; what is kept are files, not pixels."""
    options = {"batch_size": 4, "shuffle": True}
    for way in ({}, {**PROCESSES, "persistent_workers": True}):
        plain = torch.utils.data.DataLoader(Cached(gallery, at_once=False), **options, **way)
        expected = epochs(plain, count=3)
        dataset = Cached(gallery, at_once=False)
        loader = millrace.DataLoader(dataset, **options, **way, pictures="lazy")
        assert epochs(loader, count=3) == expected
        pictures = loader.stats()["pictures"]
        if way:
            assert COUNT <= pictures["opened"] <= 2 * COUNT, "by each worker at most once"
        else:
            assert pictures["opened"] == 0 and len(dataset.kept) == COUNT
            assert all(record_of(image) is not None for image in dataset.kept.values())


def test_pictures_kept_since_before_the_loader(gallery):
    expected = epochs(torch.utils.data.DataLoader(Cached(gallery, at_once=True), 4, **PROCESSES))
    loader = millrace.DataLoader(Cached(gallery, at_once=True), 4, **PROCESSES, pictures="lazy")
    assert epochs(loader) == expected
    assert loader.stats()["pictures"]["opened"] == 0, "no loader asked for them"


# ------------------------------------------------------------------ other libraries


def hugging_face_images(gallery):
    import datasets

    datasets.disable_progress_bars()
    return datasets.load_dataset("imagefolder", data_dir=str(gallery / "classes"), split="train")


@pytest.fixture
def hugging_face(gallery):
    pytest.importorskip("datasets")
    return hugging_face_images(gallery)


def of_columns(examples):
    """Not native, as it changes the labels."""
    examples["label"] = [label + 1 for label in examples["label"]]
    examples["pixel_values"] = [TRAINING(image.convert("RGB")) for image in examples.pop("image")]
    return examples


@WAYS
@pytest.mark.parametrize("method", ["set_transform", "with_transform"])
def test_hugging_face_image_folders(hugging_face, way, method):
    dataset = getattr(hugging_face, method)(of_columns) or hugging_face
    try:
        check(dataset, way)
    finally:
        hugging_face.reset_format()


def timms_transform(training):
    import timm.data

    options = {"auto_augment": "rand-m9-mstd0.5-inc1", "re_prob": 0.25} if training else {"crop_pct": 0.9}
    return timm.data.create_transform(px(32), is_training=training, interpolation="bicubic", **options)


@WAYS
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_timms_transforms(gallery, way, training):
    pytest.importorskip("timm.data")
    check(FromCsv(gallery, timms_transform(training)), way)


class Albumentations(Files):
    def __init__(self, root, transform):
        super().__init__(root)
        self.transform = transform

    def __getitem__(self, index):
        self.transform.set_random_seed(index)
        return self.transform(image=np.array(self.open(index)))["image"], index


def albumentations_chain():
    import albumentations as A

    chain = [A.RandomResizedCrop((px(32), px(32))), A.HorizontalFlip(), A.RandomBrightnessContrast()]
    return A.Compose([*chain, A.Normalize()])


@WAYS
def test_albumentations(gallery, way):
    pytest.importorskip("cv2")
    pytest.importorskip("albumentations")
    check(Albumentations(gallery, albumentations_chain()), way)


class ByCv2(Files):
    """Pictures of Pillow changed by cv2, which reads none itself here."""

    def __getitem__(self, index):
        import cv2

        pixels = cv2.cvtColor(np.asarray(self.open(index)), cv2.COLOR_RGB2BGR)
        pixels = cv2.resize(pixels, (px(32), px(32)), interpolation=cv2.INTER_AREA)
        return torch.from_numpy(cv2.GaussianBlur(pixels, (3, 3), 0).transpose(2, 0, 1).copy()), index


@WAYS
def test_cv2(gallery, way):
    pytest.importorskip("cv2")
    check(ByCv2(gallery), way)
