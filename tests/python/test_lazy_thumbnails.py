"""thumbnail() and draft() of pictures that wait: where Pillow's decoder makes the picture smaller, it does so
at once; all other thumbnails are a resize like any other.
"""

import pytest
from lazy_cases import lazy_jpegs, lazy_pictures, opened, same_lazily
from PIL import Image


@pytest.mark.parametrize("name", ["420", "444", "restarts", "progressive", "grey", "turned 6"])
@pytest.mark.parametrize("side", [61, 40, 33, 20, 16, 15, 11, 7])
@pytest.mark.parametrize("gap", [None, 1.1, 2.0, 3.0])
def test_thumbnails(name, side, gap):
    """Pillow's decoder makes small ones smaller; of the others all that is seen is a resize."""
    data = lazy_jpegs()[name]

    def shrunk(kind):
        image = opened(data)
        image.thumbnail((side, side), kind, reducing_gap=gap)
        return image, image.size, image.getpixel((1, 1))

    for kind in (Image.Resampling.BICUBIC, Image.Resampling.LANCZOS, Image.Resampling.NEAREST):
        same_lazily(lambda: shrunk(kind), opened=None)


@pytest.mark.parametrize("side", [30, 20, 9])
def test_large_thumbnails_wait(side):
    data = lazy_jpegs()["420"]  # 61 x 45
    image = opened(data)
    image.draft(None, (2 * side, 2 * side))
    at_once = image.size != (61, 45)
    with lazy_pictures() as counts:
        image = opened(data)
        image.thumbnail((side, side))
    assert (counts.opened, counts.left_to_pillow) == ((0, 1) if at_once else (1, 0))
    assert at_once == (side < 20)
    same_lazily(lambda: opened(data).draft(None, (40, 40)), opened=0)
    for mode in ("L", "RGB", "YCbCr", None):

        def drafted(mode=mode):
            image = opened(data)
            told = image.draft(mode, (40, 40))
            return told, image.convert("RGB"), image

        counts = same_lazily(drafted, opened=None)
        assert counts.opened == (mode in ("RGB", None))
