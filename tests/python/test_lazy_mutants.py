"""Damaged pictures that wait: the same calls raise the same errors as Pillow's, or give the same pixels (the
long run: tests/fuzz/lazy_against_pillow.py).
"""

import warnings

import lazy_against_pillow
import numpy as np
import pytest
from lazy_cases import lazy_jpegs, lazy_pictures, opened, same_lazily
from millrace import _core
from millrace._pictures.pillow import record_of
from PIL import Image


@pytest.fixture(scope="module")
def table():
    return lazy_against_pillow.run(300, seed=4)


def test_some_hundred_mutants(table):
    for what in lazy_against_pillow.DIFFERENT:
        if what != "earlier":
            assert table.total(what) == 0, [found for found in table.wrong if found[0] == what][:3]
    assert table.total("pictures") == 300 and 60 < table.total("refused") < 200
    assert table.total("waited") > 100 and table.total("judged by Pillow") > 0  # wrong bits alone


@pytest.mark.parametrize("format", ["png", "webp"])
def test_mutants_of_what_is_decoded_at_once(format):
    table = lazy_against_pillow.run(150, seed=4, formats=(format,))
    assert not table.violations(), table.wrong[:3]
    assert table.total("pictures") == 150 and table.total("refused") > 60 and table.total("earlier") == 0


def test_no_error_comes_at_a_later_call(table):
    assert table.total("later") == 0, [found[1:] for found in table.wrong if found[0] == "later"][:3]


def test_the_long_run_tells_apart_what_it_counts():
    """compared() by hand, since all its counts may be zero."""
    pixels, others = np.zeros((2, 2, 3), np.uint8), np.ones((2, 2, 3), np.uint8)

    def told(done=3, error="", text="", array=pixels, seen=()):
        return done, error, text, None if error else array, list(seen)

    sound, broken = told(), told(1, "OSError", "broken")
    for here, there, what in (
        (sound, told(), ""),
        (broken, broken, ""),
        (sound, told(array=others), "other pixels"),
        (sound, told(array=pixels[:1]), "other pixels"),
        (broken, sound, "only here"),
        (sound, broken, "only Pillow"),
        (broken, told(1, "OSError", "cut"), "other error"),
        (broken, told(1, "ValueError", "broken"), "other error"),
        (broken, told(2, "OSError", "broken"), "earlier"),
        (told(2, "OSError", "broken"), broken, "later"),
        (sound, told(seen=["a warning"]), "other warnings"),
    ):
        assert lazy_against_pillow.compared(here, there) == what


def damaged(kind="420"):
    """A file that waits, is refused by the engine when it is looked at, and taken by Pillow."""
    data = lazy_jpegs(128, 96)[kind]
    middle = len(data) * 2 // 3
    lost = (data[:middle] + data[middle + count :] for count in range(40, 400))
    return next(left for left in lost if _core.decode_image(left) is None)


@pytest.mark.parametrize("kind", ["420", "444", "grey", "optimized"])
def test_damage_that_pillow_takes(kind):
    data = damaged(kind)
    with lazy_pictures() as counts:
        image = opened(data)
        image.load()
        assert record_of(image) is not None
        np.asarray(image)
        assert counts.decoded_in_part + counts.decoded_whole == 0, "Pillow decoded it"
    same_lazily(lambda: opened(data))
    same_lazily(lambda: opened(data).crop((20, 30, 90, 90)).resize((33, 44)).convert("L"))
    same_lazily(lambda: (im := opened(data).convert("RGB"), im.tobytes(), im.tobytes(), im.getpixel((3, 3))))


def test_pillow_is_asked_without_the_scripts_own_open(monkeypatch):
    """What a script puts in the place of Image.open is called where the script calls it, and only there."""
    data, asked, original = damaged(), [], Image.open

    def own(file, *args, **kwargs):
        asked.append(file)
        return original(file, *args, **kwargs).resize((8, 8))

    with lazy_pictures():
        image = opened(data)
        image.load()
        monkeypatch.setattr(Image, "open", own)
        pixels = np.asarray(image)
    monkeypatch.undo()
    assert not asked and np.array_equal(pixels, np.asarray(opened(data)))


def test_a_limit_that_falls_after_open_is_not_asked_again(monkeypatch):
    data = damaged()
    expected = np.asarray(opened(data))
    for limit in (100, 10_000):  # an error by then, and a warning
        with lazy_pictures(), warnings.catch_warnings():
            warnings.simplefilter("error")
            image = opened(data)
            image.load()
            monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
            assert np.array_equal(np.asarray(image), expected)
        monkeypatch.undo()
