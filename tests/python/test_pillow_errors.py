"""Errors and warnings about pictures are Pillow's, too, whoever decodes."""

from __future__ import annotations

import io
import pickle
import warnings

import millrace
import pytest
from millrace import CorruptDataError, DataLoader, transforms
from millrace.datasets import ImageFolder, WebDataset
from millrace.datasets.webdataset.decoders import DecodingError
from pictures import jpeg_bytes, make_picture
from PIL import Image, UnidentifiedImageError


def encoded(format, size=(60, 40), **more):
    file = io.BytesIO()
    make_picture(*size, seed=1).save(file, format, **more)
    return file.getvalue()


def contents():
    """{name: bytes}, all but the first two of them damaged."""
    jpeg = jpeg_bytes(make_picture(60, 40, seed=1))
    png = encoded("PNG")
    webp = encoded("WEBP")
    gif = encoded("GIF")
    frame = jpeg.index(b"\xff\xc0")
    return {
        "sound.jpg": jpeg,
        "sound.png": png,
        "text.jpg": b"this is no picture\n" * 10,
        "empty.jpg": b"",
        "zeros.png": bytes(100),
        "magic alone.jpg": jpeg[:3],
        "no frame.jpg": jpeg[:frame],
        "half a frame.jpg": jpeg[: frame + 6],
        "no size.jpg": jpeg[: frame + 5] + bytes(4) + jpeg[frame + 9 :],
        "half.jpg": jpeg[: len(jpeg) // 2],
        "magic alone.png": png[:8],
        "half a header.png": png[:20],
        "wrong sum.png": png[:20] + b"\x99" + png[21:],
        "half.png": png[: len(png) // 2],
        "magic alone.webp": webp[:12],
        "half.webp": webp[: len(webp) // 2],
        "gif alone.png": gif[:6],
        "half a gif.png": gif[: len(gif) // 2],
    }


def of_pillow(path):
    """What Image.open(path).convert("RGB") raises."""
    try:
        with Image.open(path) as image:
            image.convert("RGB")
    except Exception as error:
        return error
    return None


@pytest.fixture
def one(tmp_path):
    """Makes a folder of one picture; returns its dataset and path."""

    def make(name, data):
        folder = tmp_path / name / "class"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(data)
        return ImageFolder(
            folder.parent, transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()])
        ), folder / name

    return make


WAYS = {
    "native": lambda dataset: next(iter(DataLoader(dataset, 1, num_workers=1, native="require"))),
    "one": lambda dataset: dataset[0],
    "python": lambda dataset: next(iter(DataLoader(dataset, 1, num_workers=0, native="never"))),
    "processes": lambda dataset: next(iter(DataLoader(dataset, 1, num_workers=1, native="never"))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", contents())
def test_what_pillow_cannot_identify(name, way, one):
    dataset, path = one(name, contents()[name])
    expected = of_pillow(path)
    if expected is None:
        WAYS[way](dataset)
        return
    with pytest.raises(OSError) as caught:
        WAYS[way](dataset)
    assert isinstance(caught.value, CorruptDataError) and str(path) in str(caught.value)
    assert isinstance(caught.value, UnidentifiedImageError) == isinstance(expected, UnidentifiedImageError), (
        caught.value,
        expected,
    )
    if way != "processes":  # there torch makes it anew of its text
        assert caught.value.path == str(path)


def test_the_classes(one):
    assert issubclass(millrace.errors.UnidentifiedImageError, CorruptDataError)
    assert issubclass(millrace.errors.UnidentifiedImageError, UnidentifiedImageError)
    assert issubclass(millrace.errors.DecompressionBombError, CorruptDataError)
    assert issubclass(millrace.errors.DecompressionBombError, Image.DecompressionBombError)
    with pytest.raises(UnidentifiedImageError) as caught:
        WAYS["native"](one("text.jpg", b"text")[0])
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)
    with pytest.raises(AttributeError):
        millrace.errors.NoSuchError


LIMIT = 1000
SIZES = {"below": (30, 30), "above": (40, 40), "twice": (50, 50)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF"])
def test_large_pictures(format, way, one, monkeypatch):
    datasets = {name: one(f"{name}.jpg", encoded(format, size))[0] for name, size in SIZES.items()}
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", LIMIT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WAYS[way](datasets["below"])
    if way == "processes":  # warnings are printed there
        WAYS[way](datasets["above"])
    else:
        with pytest.warns(
            Image.DecompressionBombWarning, match=r"Image size \(1600 pixels\) exceeds limit of 1000 pixels"
        ):
            WAYS[way](datasets["above"])
    with pytest.raises(Image.DecompressionBombError, match="2500") as caught:
        WAYS[way](datasets["twice"])
    assert isinstance(caught.value, CorruptDataError) and "twice." in str(caught.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
        for dataset in datasets.values():
            fresh = ImageFolder(
                dataset.root, dataset.transform
            )  # a limit counts from the start of what reads
            WAYS[way](fresh)


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_large_pictures_are_bad_samples(on_error, tmp_path, monkeypatch):
    (tmp_path / "class").mkdir()
    for i, size in enumerate(SIZES.values()):
        (tmp_path / "class" / f"{i}.jpg").write_bytes(encoded("JPEG", size))
    dataset = ImageFolder(tmp_path, transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()]))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", LIMIT)
    loader = DataLoader(dataset, 1, num_workers=1, on_error=on_error, native="require")
    with pytest.warns(Image.DecompressionBombWarning):
        assert len(list(loader)) == (2 if on_error == "skip" else 3)
    [left_out] = loader.stats()["errors"]
    assert "2.jpg" in str(left_out) and "2500" in str(left_out)


def test_large_pictures_of_shards(tmp_path, monkeypatch):
    from shard_data import write_tar

    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", LIMIT)
    for name, size in SIZES.items():
        write_tar(tmp_path / f"{name}.tar", [("a.jpg", encoded("JPEG", size))])
    for form in ("pil", "torchrgb"):
        list(WebDataset(str(tmp_path / "below.tar")).decode(form))
        with pytest.warns(Image.DecompressionBombWarning):
            list(WebDataset(str(tmp_path / "above.tar")).decode(form))
        with pytest.raises(DecodingError, match=r"twice\.tar: sample 'a', .*DecompressionBombError"):
            list(WebDataset(str(tmp_path / "twice.tar")).decode(form))
