"""WebP: the engine's pixels are those of `open(f).convert("RGB")`; what it refuses, Pillow decides."""

import io

import numpy as np
import pytest
from millrace import CorruptDataError, transforms
from millrace.datasets import ImageFolder
from pictures import make_picture
from PIL import Image, features
from pillow_facts import skip_before
from pillow_pixels import by_pillow, compare_with_pillow, decoded
from png_files import exif
from webp_files import animation

pytestmark = pytest.mark.skipif(not features.check("webp"), reason="this Pillow has no WebP to compare with")


def picture(random, width, height, alpha=False):
    image = make_picture(width, height, int(random.integers(1 << 30)))
    if alpha:  # some of it clear, some half clear
        mask = make_picture(width, height, int(random.integers(1 << 30))).convert("L")
        image.putalpha(mask.point(lambda level: 0 if level < 90 else 255 if level > 170 else level))
    return image


def webp(image, **options):
    file = io.BytesIO()
    image.save(file, "WEBP", **options)
    return file.getvalue()


WAYS = {
    "lossy": {},
    "rough": {"quality": 3},
    "fine": {"quality": 99, "method": 6},
    "quick": {"quality": 60, "method": 0},
    "lossless": {"lossless": True},
    "lossless quick": {"lossless": True, "method": 0},
    "exact": {"lossless": True, "exact": True},
}


@pytest.mark.parametrize("alpha", [False, True], ids=["opaque", "alpha"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way(way, alpha):
    random = np.random.default_rng([len(way), alpha])
    for i in range(8):
        width, height = (int(side) for side in random.integers(1, 24 if i % 2 else 200, 2))
        data = webp(picture(random, width, height, alpha), **WAYS[way])
        assert np.array_equal(decoded(data), by_pillow(data)), (i, width, height)


@pytest.mark.parametrize("way", ["lossy", "lossless"])
def test_small_sizes(way):
    random = np.random.default_rng(1)
    for width in (1, 2, 3, 16, 17):
        for height in (1, 2, 3, 16, 17):
            data = webp(picture(random, width, height), **WAYS[way])
            assert np.array_equal(decoded(data), by_pillow(data)), (width, height)


def test_damaged_exif_means_upright(tmp_path):
    """Pillow converts such a picture, and refuses only to say what its EXIF holds."""
    data = webp(picture(np.random.default_rng(8), 30, 20), exif=exif(6))
    damaged = data.replace(b"II*\0", b"II?\0")
    assert damaged != data
    with pytest.raises(SyntaxError):
        Image.open(io.BytesIO(damaged)).getexif()
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "f.webp").write_bytes(damaged)
    row, _ = ImageFolder(tmp_path, transforms.PILToTensor(), exif=True).at(0, 0, 0)
    assert np.array_equal(row.numpy().transpose(1, 2, 0), by_pillow(damaged))


@pytest.mark.parametrize("corner", [(0, 0), (6, 4), (14, 10)])
@pytest.mark.parametrize("alpha", [False, True], ids=["opaque", "alpha"])
@pytest.mark.parametrize("way", ["lossy", "lossless"])
def test_the_first_frame_of_an_animation(tmp_path, way, alpha, corner):
    """What no frame covers is black, whatever the background; crops lie inside, outside and across."""
    random = np.random.default_rng(2)
    frames = [webp(picture(random, 40, 30, alpha), **WAYS[way]) for _ in range(2)]
    data = animation((54, 40), corner, *frames, alpha=alpha)
    assert Image.open(io.BytesIO(data)).n_frames == 2
    whole = by_pillow(data)
    assert np.array_equal(decoded(data), whole)
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.webp").write_bytes(data)
    dataset = ImageFolder(
        tmp_path, transforms.Compose([transforms.RandomCrop((6, 7)), transforms.PILToTensor()])
    )
    for seed in range(60):
        (box,) = dataset.draw(0, seed, 0)
        crop = whole[box["top"] : box["top"] + 6, box["left"] : box["left"] + 7]
        assert np.array_equal(dataset.at(0, seed, 0)[0].permute(1, 2, 0).numpy(), crop), box


def test_animations_of_pillow():
    random = np.random.default_rng(3)
    for alpha in (False, True):
        frames = [picture(random, 60, 50, alpha) for _ in range(3)]
        data = webp(
            frames[0], save_all=True, append_images=frames[1:], background=(200, 100, 50, 255), duration=50
        )
        assert np.array_equal(decoded(data), by_pillow(data))


@pytest.mark.parametrize("alpha", [False, True], ids=["opaque", "alpha"])
@pytest.mark.parametrize("way", ["lossy", "rough", "lossless"])
def test_regions(tmp_path, way, alpha):
    """Crops at odd and even places, many of them at an edge of the picture."""
    (tmp_path / "class").mkdir()
    random = np.random.default_rng(4)
    expected = []
    for i, (width, height) in enumerate([(9, 11), (33, 24), (150, 131)]):
        data = webp(picture(random, width, height, alpha), **WAYS[way])
        (tmp_path / "class" / f"{i}.webp").write_bytes(data)
        expected.append(by_pillow(data))
    for size in [(1, 1), (8, 7), (5, 9)]:
        dataset = ImageFolder(
            tmp_path, transforms.Compose([transforms.RandomCrop(size), transforms.PILToTensor()])
        )
        for i, whole in enumerate(expected):
            for seed in range(30):
                (box,) = dataset.draw(i, seed, 0)
                crop = whole[box["top"] : box["top"] + size[0], box["left"] : box["left"] + size[1]]
                assert np.array_equal(dataset.at(i, seed, 0)[0].permute(1, 2, 0).numpy(), crop), (i, box)


XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>'


def orientations():
    for value in range(10):
        yield f"EXIF {value}", {"exif": exif(value)}
    yield "with prefix", {"exif": b"Exif\0\0" + exif(6)}
    yield "two prefixes", {"exif": b"Exif\0\0Exif\0\0" + exif(6)}
    yield "long", {"exif": exif(6, kind=4)}
    yield "no TIFF", {"exif": b"nothing"}
    yield "cut", {"exif": exif(6)[:14]}
    yield "XMP", {"xmp": XMP % 8}
    yield "XMP 9", {"xmp": XMP % 9}
    yield "both", {"xmp": XMP % 8, "exif": exif(3)}
    yield "profile", {"icc_profile": b"x" * 77, "exif": exif(5)}


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize(("name", "options"), list(orientations()), ids=[name for name, _ in orientations()])
def test_orientation(tmp_path, name, options):
    if name == "XMP":
        skip_before(11, "an orientation in the XMP of a WebP counts")
    compare_with_pillow(tmp_path, webp(picture(np.random.default_rng(5), 9, 6), **options), "f.webp")


@pytest.mark.parametrize(
    "options", [{"quality": 20}, {"lossless": True}, {"quality": 20, "exif": exif(6)}], ids=str
)
def test_cut_at_every_byte(tmp_path, options):
    data = webp(picture(np.random.default_rng(6), 11, 8, alpha="exif" in options), **options)
    for cut in range(1, len(data)):
        assert not compare_with_pillow(tmp_path, data[:cut], "f.webp")
    assert compare_with_pillow(tmp_path, data + b"junk", "f.webp")


@pytest.mark.parametrize("options", [{"quality": 40}, {"lossless": True}], ids=str)
def test_damage_anywhere(tmp_path, options):
    """WebP has no checksums: some damage gives a picture, to Pillow and the engine the same."""
    random = np.random.default_rng(7)
    data = webp(picture(random, 23, 18, alpha=True), **options)
    outcomes = set()
    for _ in range(150):
        damaged = bytearray(data)
        damaged[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))
        outcomes.add(compare_with_pillow(tmp_path, bytes(damaged), "f.webp"))
    assert outcomes == {True, False}


def test_what_is_refused_is_named(tmp_path):
    (tmp_path / "class").mkdir()
    data = webp(picture(np.random.default_rng(8), 50, 40))
    (tmp_path / "class" / "cut.webp").write_bytes(data[:-30])
    with pytest.raises(CorruptDataError, match=r"cut\.webp: WebP .* is not complete"):
        ImageFolder(tmp_path, transforms.PILToTensor()).at(0, 0, 0)
