"""ImageFolder: files that cannot be decoded, and what is said of them."""

import contextlib
import os

import pytest
import torch
from image_folder_cases import train_chain
from millrace import CorruptDataError, transforms
from millrace.datasets import ImageFolder
from pictures import jpeg_bytes, make_picture

GOOD = jpeg_bytes(make_picture(64, 48))


def with_size(width, height):
    """A JPEG whose header claims that size."""
    data = bytearray(GOOD)
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return bytes(data)


BAD = {
    "empty": b"",
    "text": b"this is not a picture\n" * 20,
    "two_bytes": b"\xff\xd8",
    "header_only": GOOD[:40],
    "no_scan": GOOD[: GOOD.index(b"\xff\xda")],
    "cut": GOOD[: len(GOOD) // 2],
    "bomb": with_size(60_000, 60_000),
    "zero_width": with_size(0, 48),
    "png_cut": None,
    "zeros": bytes(5000),
    "html": b"<html>404 not found</html>",
}


@pytest.fixture(scope="module")
def bad_root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad") / "c"
    folder.mkdir()
    make_picture(64, 48).save(folder / "whole.png")
    BAD["png_cut"] = (folder / "whole.png").read_bytes()[:900]
    for name, data in BAD.items():
        (folder / f"{name}.jpg").write_bytes(data)
    return folder.parent


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("part", ["crop", "whole"])
def test_bad_files_are_corrupt_data(bad_root, name, part):
    if (name, part) == ("cut", "crop"):
        pytest.skip("a crop above the damage does not see it")
    data = ImageFolder(bad_root, train_chain() if part == "crop" else transforms.ToTensor())
    path = str(bad_root / "c" / f"{name}.jpg")
    index = [p for p, _ in data.samples].index(path)
    for call in (lambda: data[index], lambda: data.at(index, 0, 0)):
        with pytest.raises(CorruptDataError) as error:
            call()
        assert path in str(error.value) and str(error.value).count(path) == 1
        assert error.value.path == path and isinstance(error.value.offset, int)
        assert isinstance(error.value, OSError)
    data.transform = None
    with pytest.raises(CorruptDataError) as error:
        data[index]
    assert path in str(error.value)


def test_the_pixel_limit_names_size_and_limit(bad_root):
    data = ImageFolder(bad_root, train_chain())
    index = [os.path.basename(p) for p, _ in data.samples].index("bomb.jpg")
    with pytest.raises(CorruptDataError, match="178,?956,?970") as error:
        data[index]
    assert "60000" in str(error.value).replace(",", "")


def test_a_good_file_after_a_bad_one(bad_root):
    data = ImageFolder(bad_root, train_chain())
    (good,) = [i for i, (p, _) in enumerate(data.samples) if p.endswith("whole.png")]
    before = data.at(good, 0, 0)[0]
    for other in range(len(data)):
        with contextlib.suppress(CorruptDataError):
            data.at(other, 0, 0)
        assert torch.equal(data.at(good, 0, 0)[0], before)


def test_unreadable_files(tmp_path):
    (tmp_path / "c" / "folder.jpg").mkdir(parents=True)
    (tmp_path / "c" / "good.jpg").write_bytes(GOOD)
    data = ImageFolder(tmp_path, train_chain())
    data.samples = [(str(tmp_path / "c" / name), 0) for name in ("folder.jpg", "missing.jpg", "good.jpg")]
    (tmp_path / "dangling.jpg").symlink_to(tmp_path / "nowhere")
    for transform in (train_chain(), None):
        data.transform = transform
        with pytest.raises(IsADirectoryError) as error:
            data[0]
        assert error.value.filename == data.samples[0][0]
        with pytest.raises(FileNotFoundError) as error:
            data[1]
        assert error.value.filename == data.samples[1][0] and error.value.errno == 2
    data.samples = [(str(tmp_path / "dangling.jpg"), 0)]
    with pytest.raises(FileNotFoundError, match="dangling.jpg"):
        data[0]
