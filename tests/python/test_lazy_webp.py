"""WebPs that are opened with Pillow, of which Pillow reads all when they are opened, and nothing later."""

import io

import pytest
from lazy_cases import lazy_pictures, same_lazily
from pictures import make_picture
from PIL import Image, features
from webp_files import animation

pytestmark = pytest.mark.skipif(not features.check("webp"), reason="this Pillow has no WebP")


def webp(seed):
    file = io.BytesIO()
    make_picture(40, 30, seed).save(file, "WEBP", lossless=True)
    return file.getvalue()


ONE, OTHER = webp(1), webp(2)


def test_what_becomes_of_the_file_changes_nothing(tmp_path):
    path = tmp_path / "a.webp"

    def written_over():
        path.write_bytes(ONE)
        with Image.open(path) as image:
            path.write_bytes(OTHER)
            return image.convert("RGB").tobytes()

    def buffer_reused():
        buffer = io.BytesIO(ONE)
        image = Image.open(buffer)
        buffer.seek(0)
        buffer.write(OTHER)
        return image.convert("RGB").tobytes()

    def behind_another():
        from PIL.WebPImagePlugin import WebPImageFile

        file = io.BytesIO(ONE + OTHER)
        file.seek(len(ONE))
        return WebPImageFile(file).convert("RGB").tobytes()

    for case in (written_over, buffer_reused, behind_another):
        same_lazily(case)


def test_the_scripts_file_stands_where_pillow_leaves_it():
    def case():
        file = io.BytesIO(ONE)
        image = Image.open(file)
        opened = file.tell()
        file.seek(12)
        image.load()
        return opened, file.read(4), file.closed, image.fp, image.tobytes()

    same_lazily(case)


@pytest.mark.parametrize("count", [1, 2])
def test_animations_are_pillows(count):
    """One of one frame, too: it says how long that lasts."""
    data = animation((40, 30), (0, 0), *[ONE, OTHER][:count])
    assert Image.open(io.BytesIO(data)).n_frames == count
    same_lazily(lambda: Image.open(io.BytesIO(data)).convert("RGB"), opened=0)
    same_lazily(lambda: [Image.open(io.BytesIO(data)).convert("RGB").info], opened=0)


def test_one_with_alpha_is_pillows_and_counted_once():
    file = io.BytesIO()
    picture = make_picture(20, 20, 3)
    picture.putalpha(100)
    picture.save(file, "WEBP")
    with lazy_pictures() as counts:
        Image.open(io.BytesIO(file.getvalue())).convert("RGB").load()
    assert (counts.opened, counts.left_to_pillow) == (0, 1)
