"""ImageFolder as torchvision's: listing, attributes, and items in Python."""

import copy
import os
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from millrace import CorruptDataError, UnavailableError, transforms
from millrace.datasets import IMG_EXTENSIONS, ImageFolder
from pictures import jpeg_bytes, make_jpeg_folder, make_picture
from PIL import Image, ImageOps

TINY = jpeg_bytes(make_picture(9, 7))


def touch(root, *names):
    for name in names:
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(TINY)


@pytest.fixture()
def messy(tmp_path):
    """Nested folders, upper-case endings, links, other files, names that sort differently by byte, by case or
    as numbers.
    """
    root = tmp_path / "root"
    touch(root, "b/2.jpg", "b/10.jpg", "b/1.JPG", "b/x.jpeg")
    touch(root, "b/deep/er/z.png", "b/deep/a.jpg", "b/deep.d/a.jpg", "b/deep-d/a.jpg")
    touch(
        root,
        "B/a.webp",
        "B/.hidden.jpg",
        "B/notes.txt",
        "B/jpg",
        "B/a.jpg.bak",
        "B/x.tiff",
        "B/x.TiF",
        "B/x.pgm",
        "B/x.gif",
    )
    touch(root, "äther/ü.jpg", "äther/ÿ.bmp", "äther/𝄞.jpg", "äther/￿.jpg", "with space/a b.jpg")
    touch(root, "10/a.jpg", "9/a.jpg", ".hidden/a.jpg", "stray.jpg")
    touch(tmp_path, "elsewhere/l1.jpg", "elsewhere/sub/l2.jpg")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "b" / "inner").symlink_to(tmp_path / "elsewhere")
    (root / "b" / "file_link.jpg").symlink_to(tmp_path / "elsewhere" / "l1.jpg")
    (root / "b" / "dangling.jpg").symlink_to(tmp_path / "nowhere")
    (root / "b" / "folder.jpg").mkdir()
    (root / "b" / "empty").mkdir()
    return root


@pytest.fixture()
def v1(torchvision):
    return torchvision.datasets


def same_listing(mine, theirs):
    assert mine.samples == theirs.samples
    assert (mine.classes, mine.class_to_idx, mine.extensions) == (
        theirs.classes,
        theirs.class_to_idx,
        theirs.extensions,
    )
    assert mine.targets == theirs.targets and mine.imgs == theirs.imgs and len(mine) == len(theirs)


@pytest.mark.parametrize(
    "spell",
    [str, Path, lambda r: f"{r}/", lambda r: f"{r}//", lambda r: f"{r}/../root", os.path.relpath],
    ids=["str", "path", "slash", "two_slashes", "dots", "relative"],
)
def test_listing_equals_torchvision(v1, messy, spell):
    same_listing(ImageFolder(spell(messy)), v1.ImageFolder(spell(messy)))


def test_listing_of_home(v1, messy, monkeypatch):
    monkeypatch.setenv("HOME", str(messy.parent))
    mine, theirs = ImageFolder("~/root"), v1.ImageFolder("~/root")
    same_listing(mine, theirs)
    assert mine.root == theirs.root


def test_names_of_any_bytes(v1, tmp_path):
    folder = os.path.join(os.fsencode(tmp_path), b"r\xff", b"cl\xfe")
    os.makedirs(folder)
    with open(os.path.join(folder, b"\xe4.jpg"), "wb") as file:
        file.write(TINY)
    root = os.fsdecode(os.path.dirname(folder))
    mine = ImageFolder(root, transforms.ToTensor())
    same_listing(mine, v1.ImageFolder(root))
    assert mine[0][0].shape == (3, 7, 9)
    assert pickle.loads(pickle.dumps(mine)).samples == mine.samples


def test_is_valid_file_equals_torchvision(v1, messy):
    def valid(path):
        return "a" in os.path.basename(path)

    mine, theirs = (
        base(messy, is_valid_file=valid, allow_empty=True) for base in (ImageFolder, v1.ImageFolder)
    )
    same_listing(mine, theirs)


def test_overridden_find_classes_equals_torchvision(v1, messy):
    def make(base):
        class Two(base):
            def find_classes(self, directory):
                return ["b", "9"], {"b": 7, "9": 3}

        return Two(messy)

    same_listing(make(ImageFolder), make(v1.ImageFolder))


def test_own_extensions(messy):
    assert {
        os.path.basename(path)
        for path, _ in ImageFolder(messy, extensions=(".GIF", ".txt"), allow_empty=True).samples
    } == {"x.gif", "notes.txt"}
    assert len(ImageFolder(messy, extensions=".bmp", allow_empty=True)) == 1


def test_empty_classes(v1, messy):
    (messy / "void").mkdir()
    touch(messy, "null/readme.txt")
    for options in ({}, {"is_valid_file": lambda path: path.endswith(".jpg")}):
        with pytest.raises(FileNotFoundError) as theirs:
            v1.ImageFolder(str(messy), **options)
        with pytest.raises(FileNotFoundError) as mine:
            ImageFolder(str(messy), **options)
        assert str(mine.value) == str(theirs.value)
        assert "null, void" in str(mine.value)
        same_listing(
            *(base(str(messy), allow_empty=True, **options) for base in (ImageFolder, v1.ImageFolder))
        )


def test_missing_folder_and_no_classes(v1, tmp_path):
    touch(tmp_path, "flat/a.jpg", "file")
    for root in ("missing", "flat", "file"):
        with pytest.raises(OSError) as theirs:
            v1.ImageFolder(str(tmp_path / root))
        with pytest.raises(theirs.type) as mine:
            ImageFolder(str(tmp_path / root))
        assert str(tmp_path / root) in str(mine.value)
        assert mine.value.errno == theirs.value.errno
    assert str(mine.value.filename) == str(theirs.value.filename)


def test_wrong_arguments(jpeg_folder):
    with pytest.raises(TypeError, match="unexpected keyword argument 'transforms'"):
        ImageFolder(jpeg_folder, transforms=None)
    with pytest.raises(
        ValueError, match="Both extensions and is_valid_file cannot be None or not None at the same time"
    ):
        ImageFolder(jpeg_folder, extensions=(".jpg",), is_valid_file=os.path.exists)
    with pytest.raises(ValueError, match="exif=True needs the default loader"):
        ImageFolder(jpeg_folder, loader=Image.open, exif=True)
    with pytest.raises(ValueError, match="class_to_idx parameter cannot be None"):
        ImageFolder.make_dataset(jpeg_folder, None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"transform": transforms.Compose([transforms.Resize(8), transforms.ToTensor()])},
        {"target_transform": transforms.Resize(8), "transform": transforms.Resize(9)},
    ],
    ids=len,
)
def test_repr_equals_torchvision(v1, jpeg_folder, options):
    assert repr(ImageFolder(jpeg_folder, **options)) == repr(v1.ImageFolder(jpeg_folder, **options))


# -- samples and targets
# -------------------------------------------------------------------------------------------------------


def test_samples_read_like_a_list(jpeg_folder):
    data = ImageFolder(jpeg_folder)
    samples, targets = list(data.samples), list(data.targets)
    assert samples[0] == (os.path.join(jpeg_folder, "ant", "00.jpg"), 0) and type(samples[0][1]) is int
    for lazy, plain in ((data.samples, samples), (data.targets, targets), (data.imgs, samples)):
        assert isinstance(lazy[2:9:3], list)
        for index in (slice(None), slice(3, 1), slice(-4, None), slice(None, None, -2)):
            assert lazy[index] == plain[index]
        assert lazy[-1] == plain[-1] and lazy[np.int64(2)] == plain[2] and lazy[torch.tensor(2)] == plain[2]
        for outside in (24, -25):
            with pytest.raises(IndexError):
                lazy[outside]
        assert (
            lazy == plain
            and plain == lazy
            and lazy != plain[1:]
            and lazy != plain[1:] + plain[:1]
            and lazy != 5
        )
        assert (
            lazy + [1] == plain + [1] and [1] + lazy == [1] + plain and lazy + lazy == plain * 2 == lazy * 2
        )
        assert plain[9] in lazy
        assert (lazy.index(plain[9]), lazy.count(plain[9])) == (plain.index(plain[9]), plain.count(plain[9]))
        assert len(repr(lazy)) < 300 and "21 more" in repr(lazy)
        assert list(reversed(lazy)) == plain[::-1] and sorted(lazy) == sorted(plain) and lazy.copy() == plain
        assert copy.deepcopy(lazy) == plain and pickle.loads(pickle.dumps(lazy)) == plain
    assert Counter(data.targets) == {0: 8, 1: 8, 2: 8}
    array = np.asarray(data.targets)
    assert array.dtype == np.int64 and array.tolist() == targets
    array[:] = 77
    assert data.targets == targets
    assert (
        torch.tensor(data.targets).tolist() == targets
        and np.array(data.targets, dtype=np.float32).dtype == np.float32
    )


def test_samples_refuse_writes(jpeg_folder):
    data = ImageFolder(jpeg_folder)
    for name in ("samples", "targets"):
        lazy = getattr(data, name)
        for method, *arguments in (
            ("__setitem__", 0, 1),
            ("__delitem__", 0),
            ("append", 1),
            ("sort",),
            ("pop",),
        ):
            with pytest.raises(
                TypeError, match=f"{name} cannot be changed in place; assign a new list.*`dataset.{name} = "
            ):
                getattr(lazy, method)(*arguments)


def test_many_samples_are_compact(tmp_path):
    (tmp_path / "c").mkdir()
    data = ImageFolder(tmp_path, allow_empty=True)
    data.samples = [(f"/data/train/n{i // 1000:08}/n{i // 1000:08}_{i}.JPEG", i % 7) for i in range(100_000)]
    assert data.file_table()[0].memory_bytes <= 100_000 * 64
    assert data.samples[99_999] == ("/data/train/n00000099/n00000099_99999.JPEG", 99_999 % 7)


def test_assigning_samples(jpeg_folder):
    data = ImageFolder(jpeg_folder, transforms.ToTensor())
    kept = data.samples[3:10]
    data.samples = kept
    kept.pop()
    assert len(data) == 7 and data.targets == [0] * 5 + [1] * 2
    data.samples += [(data.samples[0][0], 2)]
    assert len(data) == 8 and data[7][1] == 2 and torch.equal(data[7][0], data[0][0])
    data.imgs = data.samples[::-1]
    assert data[0][1] == 2 and data.samples == data.imgs
    data.samples = [("a.jpg", 0.5), ("b.jpg", 1)]  # not ints: kept as they are, served by Python
    assert data.samples == [("a.jpg", 0.5), ("b.jpg", 1)] and data.targets == [0.5, 1]
    with pytest.raises(UnavailableError, match="samples"):
        data.at(0, 0, 0)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, tuple])
def test_assigning_targets(jpeg_folder, kind):
    data = ImageFolder(jpeg_folder, transforms.ToTensor())
    data.targets = kind([5 - t for t in data.targets])
    assert data.targets == [5] * 8 + [4] * 8 + [3] * 8 and data.samples[8][1] == 4
    assert data[8][1] == 4 and type(data[8][1]) is int and data.at(-1, 0, 0)[1] == 3
    data.targets = [0.25] * 24
    assert data[8][1] == 0.25 and data.targets[0] == 0.25
    data.targets = kind(range(24))
    assert data[8][1] == 8 and data.at(8, 0, 0)[1] == 8


def test_assigning_both_in_either_order(jpeg_folder):
    data = ImageFolder(jpeg_folder, transforms.ToTensor())
    chosen = [i for i, t in enumerate(data.targets) if t == 1]
    data.targets = [data.targets[i] for i in chosen]
    assert data.targets == [1] * 8
    with pytest.raises(ValueError, match="targets has 8 entries but samples has 24; assign both"):
        data[0]
    data.samples = [data.samples[i] for i in chosen]
    assert len(data) == 8 and data[0][1] == 1
    data.samples = data.samples[:4]
    data.targets = [9] * 4
    assert data[3][1] == 9


# -- items in Python
# -----------------------------------------------------------------------------------------------------------


def test_items_without_transform_equal_torchvision(v1, jpeg_folder):
    mine, theirs = ImageFolder(jpeg_folder), v1.ImageFolder(jpeg_folder)
    for i in (0, 5, -1, np.int64(3), torch.tensor(4)):
        (a, t), (b, u) = mine[i], theirs[i]
        assert a.mode == b.mode == "RGB" and a.tobytes() == b.tobytes() and t == u and type(t) is int
    for outside in (24, -25):
        with pytest.raises(IndexError):
            mine[outside]
    with pytest.raises(TypeError):
        mine[0.5]
    assert sum(1 for _ in mine) == 24


def test_python_transforms_and_loaders(jpeg_folder):
    data = ImageFolder(jpeg_folder, lambda image: image.size, target_transform=lambda t: f"class {t}")
    assert data[9] == (Image.open(data.samples[9][0]).size, "class 1")
    data = ImageFolder(jpeg_folder, loader=lambda path: path)
    assert data[3] == data.samples[3]
    assert ImageFolder(jpeg_folder).loader(data[3][0]).mode == "RGB"


def test_torchvisions_default_loader_counts_as_ours(v1, jpeg_folder):
    data = ImageFolder(jpeg_folder, transforms.ToTensor(), loader=v1.folder.default_loader)
    assert isinstance(data.at(0, 0, 0)[0], torch.Tensor)


def test_exif_in_python(tmp_path):
    (tmp_path / "c").mkdir()
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        make_picture(23, 11).save(tmp_path / "c" / f"{orientation}.jpg", exif=exif)
    stored, upright = ImageFolder(tmp_path), ImageFolder(tmp_path, exif=True)
    for i in range(8):
        assert stored[i][0].size == (23, 11)
        expected = ImageOps.exif_transpose(Image.open(stored.samples[i][0])).convert("RGB")
        assert upright[i][0].size == expected.size and upright[i][0].tobytes() == expected.tobytes()


def test_bad_files_are_named_in_python(tmp_path):
    (tmp_path / "c").mkdir()
    for name, data in (("text", b"hello"), ("empty", b""), ("cut", TINY[: len(TINY) // 2])):
        (tmp_path / "c" / f"{name}.jpg").write_bytes(data)
    data = ImageFolder(tmp_path)
    for i in range(3):
        with pytest.raises(CorruptDataError) as error:
            data[i]
        assert data.samples[i][0] in str(error.value) and error.value.path == data.samples[i][0]
    os.remove(data.samples[0][0])
    with pytest.raises(FileNotFoundError) as error:
        data[0]
    assert error.value.filename == data.samples[0][0]


def test_pickles_and_copies(jpeg_folder):
    data = ImageFolder(
        jpeg_folder, transforms.Compose([transforms.RandomResizedCrop(16), transforms.ToTensor()])
    )
    expected = data.at(4, 3, 2)
    for clone in (pickle.loads(pickle.dumps(data)), copy.deepcopy(data), copy.copy(data)):
        assert (
            clone.samples == data.samples
            and clone.classes == data.classes
            and clone.extensions == IMG_EXTENSIONS
        )
        assert torch.equal(clone.at(4, 3, 2)[0], expected[0])
    clone = copy.copy(data)
    clone.samples = clone.samples[:2]
    assert len(data) == 24


def test_lists_only_what_it_is_given(tmp_path):
    root = make_jpeg_folder(tmp_path / "r", classes=("one",), per_class=2)
    data = ImageFolder(root)
    touch(root, "one/later.jpg")
    assert len(data) == 2
