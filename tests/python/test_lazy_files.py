"""Where pictures that wait come from, and where they go: files that vanish, limits of Pillow's, other
processes, threads, memory.
"""

import gc
import io
import multiprocessing
import pickle
import tarfile
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest
from lazy_cases import lazy_jpegs, lazy_pictures, opened, outcome, same_lazily, written
from millrace._pictures.pillow import record_of
from millrace._pictures.pillow_versions import DOOR
from open_files import open_files
from pictures import jpeg_bytes, make_picture
from PIL import Image, ImageFile, ImageOps
from pillow_facts import PILLOW

DATA = lazy_jpegs()["420"]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a picture.jpg").write_bytes(DATA)
    return tmp_path / "a picture.jpg"


def facts(image):
    return image.filename, image.fp is None, image.readonly, image


def entered(source, look):
    """As scripts do it: the file is closed when the block ends."""
    with Image.open(source) as image:
        result = look(image)
    return result, image.fp


@pytest.mark.parametrize(
    "source",
    [
        str,
        lambda path: path,
        lambda path: open(path, "rb"),
        lambda path: io.BytesIO(path.read_bytes()),
        lambda path: io.BufferedReader(io.FileIO(path)),
        lambda path: open(path, "rb", buffering=0),
        lambda path: str(path).encode(),
    ],
    ids=["text", "Path", "file", "BytesIO", "BufferedReader", "unbuffered", "bytes"],
)
def test_every_kind_of_source(path, source):
    same_lazily(lambda: facts(Image.open(source(path)).resize((20, 20)).convert("L").copy()), opened=None)
    same_lazily(lambda: facts(Image.open(source(path))))
    same_lazily(lambda: entered(source(path), lambda im: im.convert("RGB")))
    same_lazily(lambda: entered(source(path), lambda im: (im.load(), im)[1]))
    same_lazily(lambda: entered(source(path), lambda im: im.size), opened=0)
    same_lazily(lambda: entered(source(path), lambda im: im).__getitem__(0).tobytes(), opened=0)


def test_members_of_archives(tmp_path):
    for name, mode in (("a.tar", "w"), ("a.tar.gz", "w:gz")):
        with tarfile.open(tmp_path / name, mode) as tar:
            for i in range(3):
                info = tarfile.TarInfo(f"{i}.jpg")
                info.size = len(DATA)
                tar.addfile(info, io.BytesIO(DATA))

        def from_tar():
            with tarfile.open(tmp_path / name) as tar:
                images = [Image.open(tar.extractfile(member)) for member in tar]
                return [image.crop((3, 3, 30, 30)) for image in images]

        same_lazily(from_tar, opened=3)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", compression) as archive:
            archive.writestr("x.jpg", DATA)

        def from_zip():
            with zipfile.ZipFile(tmp_path / "a.zip") as archive, archive.open("x.jpg") as member:
                with Image.open(member) as image:
                    return image.convert("RGB")

        same_lazily(from_zip)


def test_a_stream_that_cannot_seek():
    class Stream(io.RawIOBase):
        def __init__(self):
            self.rest = io.BytesIO(DATA)

        def read(self, n=-1):
            return self.rest.read(n)

        def seekable(self):
            return False

        def seek(self, *_):
            raise io.UnsupportedOperation("seek")

    same_lazily(lambda: Image.open(Stream()).resize((9, 9)), opened=None)


def test_a_stream_that_breaks_between_opening_and_looking(path):
    class Breaks(io.BytesIO):
        broken = False

        def read(self, n=-1):
            if self.broken:
                raise OSError("the disk is gone")
            return super().read(n)

    def broken():
        file = Breaks(DATA)
        image = Image.open(file)
        file.broken = True
        return image.convert("L")

    same_lazily(broken, opened=0)


def test_the_source_changes_after_load(path):
    """What was loaded stays, whatever becomes of the file; what was not is Pillow's error."""

    def closed(load):
        file = io.BytesIO(DATA)
        image = Image.open(file)
        if load:
            image.load()
        file.close()
        return image.crop((1, 1, 9, 9))

    def deleted(load):
        path.write_bytes(DATA)
        image = Image.open(path)
        if load:
            image.load()
        path.unlink()
        return image.crop((1, 1, 9, 9))

    def overwritten():
        path.write_bytes(DATA)
        image = Image.open(path)
        image.load()
        path.write_bytes(b"something else")
        return image.crop((1, 1, 9, 9))

    def reused():
        buffer = bytearray(DATA)
        image = Image.open(io.BytesIO(memoryview(buffer)))
        image.load()
        buffer[:] = bytes(len(buffer))
        return image.crop((1, 1, 9, 9))

    same_lazily(lambda: closed(load=True))
    same_lazily(lambda: closed(load=False), opened=0)
    same_lazily(lambda: deleted(load=True))
    same_lazily(lambda: deleted(load=False))
    same_lazily(overwritten)
    same_lazily(reused)


def test_verify_and_then_everything_else(path):
    def verified():
        image = Image.open(path)
        image.verify()
        return image.size, image.load()

    same_lazily(verified, opened=0)
    same_lazily(lambda: [(im := Image.open(path)).load(), im.verify(), im][2])


@pytest.mark.parametrize("lost", [0, 1, 2, 30, 500])
@pytest.mark.parametrize("kind", ["420", "progressive", "grey", "restarts"])
def test_truncated_pictures_under_both_switches(kind, lost, monkeypatch):
    data = lazy_jpegs()[kind]
    data = data[: len(data) - lost]
    for allowed in (False, True):
        monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", allowed)
        same_lazily(lambda: opened(data).convert("RGB").crop((1, 1, 30, 40)), opened=None)
        same_lazily(lambda: opened(data), opened=None)


def test_a_switch_turned_on_after_load_changes_nothing(monkeypatch):
    def turned_on():
        image = opened(DATA)
        image.load()
        with monkeypatch.context() as patch:
            patch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
            return image.crop((1, 1, 20, 20))

    same_lazily(turned_on)


@pytest.mark.parametrize("limit", [100, 1500, 61 * 45, 61 * 45 - 1, None])
def test_decompression_bombs(limit, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    same_lazily(lambda: opened(DATA).convert("RGB").resize((20, 20)), opened=None)
    same_lazily(lambda: opened(DATA).crop((0, 0, 60, 40)), opened=None)
    same_lazily(lambda: opened(DATA), opened=None)


def test_a_limit_that_falls_after_open(monkeypatch):
    def looked():
        image = opened(DATA)
        image.load()
        with monkeypatch.context() as patch:
            patch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
            return np.asarray(image), image.resize((9, 9))

    same_lazily(looked)


def test_orientation_is_applied_once():
    for n in range(1, 9):
        data = lazy_jpegs()[f"turned {n}"]

        def upright():
            image = ImageOps.exif_transpose(opened(data))
            return image, ImageOps.exif_transpose(image), dict(image.getexif()), image.info.get("exif")

        same_lazily(upright)


def test_saving_over_the_file_that_it_came_from(path):
    def saved():
        path.write_bytes(DATA)
        image = Image.open(path)
        image = image.resize((30, 20))
        image.save(path, "JPEG")
        return path.read_bytes()

    same_lazily(saved)


# ------------------------------------------------------------------ elsewhere


def sees(image, answers):
    answers.put(repr(written([image, image.resize((11, 13)), image.transpose(Image.Transpose.ROTATE_90)])))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pictures_given_to_another_process(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    context = multiprocessing.get_context(method)
    alone = opened(DATA).crop((2, 2, 50, 40))
    expected = repr(written([alone, alone.resize((11, 13)), alone.transpose(Image.Transpose.ROTATE_90)]))
    with lazy_pictures():
        image = opened(DATA).crop((2, 2, 50, 40))
        assert record_of(image) is not None
        answers = context.Queue()
        process = context.Process(target=sees, args=(image, answers))
        process.start()
        seen = answers.get(timeout=120)
        process.join(60)
    assert process.exitcode == 0 and seen == expected


def test_pickles_are_pillows_pickles():
    """Unpickled where nothing of ours is imported."""
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        same_lazily(lambda: pickle.dumps(opened(DATA).resize((8, 8)), protocol))
        same_lazily(lambda: pickle.dumps(opened(DATA), protocol))


def test_four_threads_that_crop_one_picture():
    data = jpeg_bytes(make_picture(300, 200, 2), quality=90)

    def cropped():
        image = opened(data)
        image.load()
        gate, results = threading.Barrier(4), [None] * 4

        def work(part):
            gate.wait()
            results[part] = [
                written(image.crop((x, part, x + 40, part + 50)).resize((20 + part, 22))) for x in range(25)
            ]

        threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    same_lazily(cropped)


def test_four_threads_that_look_at_one_picture_at_once():
    """They get one and the same memory: what one of them draws, all see."""
    for _ in range(60):
        with lazy_pictures():
            image = opened(DATA)
            image.load()
            gate, cores, errors = threading.Barrier(4), [], []

            def work():
                gate.wait()
                try:
                    cores.append(image.im)
                except Exception as error:
                    errors.append(error)

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not errors and len({id(core) for core in cores}) == 1


def test_a_thread_that_comes_second_gets_the_pixels_of_the_first():
    """Another thread makes the pixels between the look at the instance and the one at its class."""
    with lazy_pictures():
        image = opened(DATA)
        image.load()
        door = Image.Image.__dict__[DOOR]
        core = image.im
        assert door.__get__(image, type(image)) is core


# ------------------------------------------------------------------ memory


def test_pictures_in_a_list_hold_their_files(tmp_path):
    data = jpeg_bytes(make_picture(320, 240, 4), quality=80)
    pixels = 320 * 240 * 4
    assert len(data) < pixels / 6
    for i in range(300):
        (tmp_path / f"{i}.jpg").write_bytes(data)
    with lazy_pictures() as counts:
        tracemalloc.start()
        kept = [Image.open(tmp_path / f"{i}.jpg").convert("RGB") for i in range(300)]
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert all(record_of(image) is not None for image in kept)
    assert 300 * len(data) <= held < 300 * (len(data) + 8192), held / 300
    assert counts.decoded_whole + counts.decoded_in_part == 0


def test_a_picture_that_has_its_pixels_lets_go_of_its_file():
    with lazy_pictures():
        image = opened(DATA)
        image.load()
        record = record_of(image)
        image.getpixel((1, 1))
        gc.collect()
        held = [name for name, value in image.__dict__.items() if value is record]
    assert record is not None and not held


def test_open_files_are_as_few_as_pillows(path):
    def count():
        before = len(open_files(str(path)))
        kept = [Image.open(path) for _ in range(20)]
        for image in kept[:10]:
            image.load()
        return len(open_files(str(path))) - before

    same_lazily(count, opened=10)


def test_errors_here_are_the_ones_meant(path):
    """same_lazily() passes where both sides fail alike; these are the failures that the tests above mean."""
    with lazy_pictures():
        image = Image.open(path)
        image.verify()
        assert outcome(image.load)[0][0] is (AssertionError if PILLOW >= (12, 0) else AttributeError)
        found = outcome(lambda: opened(DATA[:-500]).load())[0]
        assert found[0] is OSError and found[1].startswith("image file is truncated"), found
