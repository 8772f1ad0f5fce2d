"""Decoders of other packages (docs/pictures.md): what is read of a file, and OpenCV. The datasets of a loader
get the same arrays from the engine, and what it does not decode, with every error, from the package.
"""

from __future__ import annotations

import importlib
import io
import pickle
import struct
import sys
import types

import millrace
import numpy as np
import pytest
import torch
from decoder_cases import (
    GREY,
    PLAIN,
    XMP,
    Read,
    exif,
    odd,
    outcome,
    pillow_cv2,
    regular,
    tiff,
    with_segments,
    written,
)
from lazy_cases import lazy_pictures
from millrace import _core
from millrace._pictures import asking, decoding
from millrace._pictures.counts import PictureCounts
from millrace._pictures.orientation import orientation_of
from millrace._pictures.replaced import replacements
from PIL import Image

pytestmark = pytest.mark.usefixtures("packages_as_before")

# ------------------------------------------------------------------ orientation


def test_orientations_are_pillows_or_nobodys():
    for name, data in regular().items():
        expected = Image.open(io.BytesIO(data)).getexif().get(0x112, 1)
        assert orientation_of(data) == expected, name
    for name in ("xmp before", "two", "long"):
        assert orientation_of(odd()[name]) is None, name


@pytest.mark.parametrize(
    "of_tiff",
    [
        b"",
        b"II*\0\x08",
        b"XX" + tiff((0x112, 3, 1, 6))[2:],
        tiff((0x112, 3, 1, 6))[:-4],  # no room for the next table's place
        tiff((0x112, 3, 2, 6)),
        tiff((0x112, 3, 1, 9)),
        tiff((0x112, 3, 1, 0)),
        tiff((0x112, 3, 1, 6), (0x112, 3, 1, 3)),
        tiff((0x128, 3, 1, 2), (0x112, 3, 1, 6)),  # not in order
        tiff((0x10F, 2, 20, 9999), (0x112, 3, 1, 6)),  # a text behind the end
        tiff((0x10F, 3, 1, 1), (0x112, 3, 1, 6)),  # a text that is a number
        tiff((0x112, 3, 1, 6), (0x9999, 13, 1, 6)),
        tiff((0x112, 3, 1, 6))[:4] + struct.pack("<I", 2000) + tiff((0x112, 3, 1, 6))[8:],
    ],
)
def test_odd_exif_is_nobodys(of_tiff):
    assert orientation_of(with_segments(PLAIN, b"Exif\0\0" + of_tiff)) is None
    assert orientation_of(with_segments(PLAIN, b"Exif\0\1" + of_tiff)) is None


def test_any_bytes_have_an_orientation_or_none():
    random = np.random.default_rng(0)
    whole = with_segments(PLAIN, exif(6), XMP)
    for cut in range(2, 120):
        assert orientation_of(whole[:cut]) in (None, 6)
    for _ in range(500):
        damaged = bytearray(whole[:200])
        damaged[random.integers(2, 200)] = random.integers(256)
        assert orientation_of(bytes(damaged)) in (None, *range(1, 9))


# ------------------------------------------------------------------ OpenCV


@pytest.fixture(params=["installed", "played"])
def cv2(request, monkeypatch):
    if request.param == "played":
        module = pillow_cv2()
        monkeypatch.setitem(sys.modules, "cv2", module)
        return module
    monkeypatch.setenv("OPENCV_LOG_LEVEL", "OFF")
    return pytest.importorskip("cv2", reason="opencv-python-headless is not installed")


@pytest.mark.parametrize("workers", [0, 2])
def test_imread_through_a_loader(cv2, workers, tmp_path):
    files = regular()
    paths = written(files, tmp_path)
    theirs = [cv2.imread(path) for path in paths]
    loader = millrace.DataLoader(
        Read(paths, lambda path: cv2.imread(path)), batch_size=None, num_workers=workers
    )
    for name, expected, ours in zip(files, theirs, loader, strict=True):
        assert torch.equal(ours, torch.from_numpy(expected)), name
    told = loader.stats()["pictures"]
    (call, times), *rest = told.pop("calls").items()
    assert call.startswith("imread() in test_picture_decoders.py:") and times == len(files) and not rest
    assert told == {
        **dict.fromkeys(told, 0),
        "opened": len(files),
        "decoded_whole": len(files),
    }


def test_every_flag_and_file_is_opencvs(cv2, tmp_path):
    files = {**regular(), **odd()}
    for data, path in zip(files.values(), written(files, tmp_path), strict=True):
        buffer = np.frombuffer(data, np.uint8)
        calls = [(name, flags) for name in ("imdecode", "imread") for flags in (-1, 0, 1, 128, 129)]
        if hasattr(cv2, "IMREAD_COLOR_RGB"):
            calls += [("imdecode", flags) for flags in (2, 3, 4, 5, 6, 7, 17, 134, 256, 384)]
        given = {"imdecode": buffer, "imread": path}
        theirs = [outcome(getattr(cv2, name), given[name], flags) for name, flags in calls]
        before = asking.asks(PictureCounts())
        try:
            ours = [outcome(getattr(cv2, name), given[name], flags) for name, flags in calls]
        finally:
            asking.stops_asking(before)
            asking.put_back()
        assert ours == theirs


def test_what_is_left_to_opencv_is_counted(cv2, counts, tmp_path):
    path = written(odd(), tmp_path)[0]
    assert cv2.imread(path).shape == (8, 9, 3)
    assert cv2.imdecode(np.frombuffer(PLAIN, np.uint8), 0).shape == (29, 37)
    assert counts.total()["left_to_pillow"] == 2 and counts.opened == 0
    assert cv2.imdecode(np.frombuffer(PLAIN, np.uint8), flags=1).shape == (29, 37, 3)
    assert counts.total() == {
        **dict.fromkeys(counts.total(), 0),
        "left_to_pillow": 2,
        "opened": 1,
        "decoded_whole": 1,
        "calls": counts.calls,
    }
    with pytest.raises(Exception):  # noqa: B017  # OpenCV's own
        cv2.imdecode("nothing", 1)
    with (
        pytest.raises(TypeError)
        if isinstance(cv2.imread._original, types.FunctionType)
        else pytest.raises(cv2.error)
    ):
        cv2.imread(1, 2, 3, 4)


def test_other_pixels_are_left_alone(monkeypatch, counts):
    module = pillow_cv2(same=False)
    monkeypatch.setitem(sys.modules, "cv2", module)
    before = module.imread
    asking.put_back()
    asking.look_around()
    assert module.imread is before
    same = pillow_cv2()
    monkeypatch.setitem(sys.modules, "cv2", same)
    monkeypatch.setenv("OPENCV_IO_MAX_IMAGE_PIXELS", "1000")
    asking.put_back()
    before = same.imread
    asking.look_around()
    assert same.imread is before
    monkeypatch.delenv("OPENCV_IO_MAX_IMAGE_PIXELS")
    asking.put_back()
    asking.look_around()
    assert same.imread is not before


def test_a_package_in_the_middle_of_its_import_comes_later(monkeypatch, counts):
    module = pillow_cv2()
    imread = module.imread
    del module.imread
    monkeypatch.setitem(sys.modules, "cv2", module)
    asking.put_back()
    asking.look_around()
    assert "cv2" not in asking._seen
    module.imread = imread
    asking.look_around()
    assert module.imread is not imread
    asking.put_back()
    assert module.imread is imread


def test_functions_are_pickled_as_names(cv2, counts):
    original = replacements.original(cv2, "imread")
    assert cv2.imread is not original
    assert pickle.loads(pickle.dumps(cv2.imread)) is cv2.imread
    if original.__module__ is None:  # a function of OpenCV that a script bound before
        assert pickle.loads(pickle.dumps(original)) is original
        data = pickle.dumps(original)
        asking.put_back()
        assert pickle.loads(data) is cv2.imread is original


@pytest.mark.parametrize("workers", [0, 1])
def test_spawned_workers_have_the_function_that_the_dataset_holds(workers, tmp_path, monkeypatch):
    """Bound while OpenCV is replaced, a name is the engine's decoder in new processes; before, OpenCV's."""
    (tmp_path / "cv2").mkdir()
    (tmp_path / "cv2" / "__init__.py").write_text(
        "from decoder_cases import pillow_cv2\n\n"
        "imread, imdecode = pillow_cv2().imread, pillow_cv2().imdecode\n"
        "imread.__module__, imread.__qualname__ = None, 'imread'\n"  # as OpenCV's own functions have it
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "cv2", None)  # so that what is imported here goes when the test ends
    del sys.modules["cv2"]
    cv2 = importlib.import_module("cv2")
    paths, options = written({"plain": PLAIN, "grey": GREY}, tmp_path), {"batch_size": None}
    if workers:
        options |= {"num_workers": workers, "multiprocessing_context": "spawn"}
    before = cv2.imread
    with lazy_pictures():
        bound = cv2.imread
    assert bound is not before
    for read, waited in ((bound, 2), (before, 0)):
        loader = millrace.DataLoader(Read(paths, read), **options)
        for expected, ours in zip(map(before, paths), loader, strict=True):
            assert torch.equal(ours, torch.from_numpy(expected))
        assert loader.stats()["pictures"]["opened"] == waited


def test_samples_tell_decoders_apart():
    def ours(jpeg):
        return _core.RecordedPicture.open(jpeg).array("RGB")

    assert decoding.agrees(ours, ours)
    assert not decoding.agrees(lambda jpeg: ours(jpeg) ^ 1, ours)
    assert not decoding.agrees(lambda jpeg: None, ours)
    assert not decoding.agrees(lambda jpeg: 1 / 0, ours)
    for sample in decoding.SAMPLES:
        expected = np.asarray(Image.open(io.BytesIO(sample)))
        assert np.array_equal(ours(sample), expected)
