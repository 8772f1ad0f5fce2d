"""PNG: the engine's pixels are those of `open(f).convert("RGB")`; what it refuses, Pillow decides."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace import CorruptDataError, DataLoader, _core, transforms
from millrace.datasets import ImageFolder
from pictures import make_picture
from PIL import Image
from pillow_facts import skip_before
from pillow_pixels import by_pillow, compare_with_pillow, decoded
from png_files import KINDS, SIGNATURE, chunk, exif, filtered, header, png, samples, transparency


def any_png(random, color, depth, interlaced=False, **options):
    width, height = (int(side) for side in random.integers(1, 40, 2))
    return png(
        samples(random, width, height, depth, color), depth, color, random, interlaced=interlaced, **options
    )


@pytest.mark.parametrize("interlaced", [False, True], ids=["rows", "interlaced"])
@pytest.mark.parametrize(("color", "depth"), KINDS)
def test_every_kind(color, depth, interlaced):
    random = np.random.default_rng([color, depth, interlaced])
    for i in range(24):
        between = transparency(random, depth, color) if i % 2 else b""
        data = any_png(random, color, depth, interlaced, between=between, pieces=1 + i % 4, level=i % 10)
        assert np.array_equal(decoded(data), by_pillow(data)), i


@pytest.mark.parametrize("interlaced", [False, True], ids=["rows", "interlaced"])
@pytest.mark.parametrize(
    ("width", "height"), [(1, 1), (1, 9), (9, 1), (2, 2), (3, 5), (4, 4), (5, 3), (8, 8), (9, 9), (257, 3)]
)
def test_small_and_odd_sizes(width, height, interlaced):
    random = np.random.default_rng([width, height])
    for color, depth in KINDS:
        data = png(samples(random, width, height, depth, color), depth, color, random, interlaced=interlaced)
        assert np.array_equal(decoded(data), by_pillow(data)), (color, depth)


def test_palettes_that_are_too_short_give_black():
    skip_before(10, "colours that a palette lacks are black")
    random = np.random.default_rng(1)
    data = png(samples(random, 30, 30, 8, 3), 8, 3, random, palette=bytes(range(30)))
    assert np.array_equal(decoded(data), by_pillow(data))


def test_files_of_other_writers():
    """Pillow's own files, in every mode and way of writing it has."""
    picture = make_picture(123, 77, 5)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        image = picture.convert("L").convert(mode) if mode == "I;16" else picture.convert(mode)
        for options in (
            {},
            {"optimize": True},
            {"compress_level": 0},
            {"bits": 4} if mode == "P" else {"compress_level": 1},
        ):
            file = io.BytesIO()
            image.save(file, "PNG", dpi=(72, 72), icc_profile=b"x" * 5000, **options)
            assert np.array_equal(decoded(file.getvalue()), by_pillow(file.getvalue())), (mode, options)


def test_gamma_profiles_text_and_unknown_chunks_change_nothing():
    random = np.random.default_rng(2)
    others = [
        (b"gAMA", struct.pack(">I", 22000)),
        (b"sRGB", b"\1"),
        (b"cHRM", bytes(32)),
        (b"pHYs", bytes(9)),
        (b"bKGD", bytes(6)),
        (b"iCCP", b"p\0\0" + zlib.compress(b"profile")),
        (b"tEXt", b"Comment\0hello"),
        (b"zTXt", b"k\0\0" + zlib.compress(b"v")),
        (b"tIME", bytes(7)),
        (b"teSt", b"private"),
        (b"PLTE", bytes(9)),
    ]
    all_of_them = b"".join(chunk(*other) for other in others)
    for color, depth in [(2, 8), (6, 16), (0, 8)]:
        data = any_png(random, color, depth, before=all_of_them, behind=all_of_them)
        assert np.array_equal(decoded(data), by_pillow(data))


def animation(random, width, height, default_image):
    """Two frames, the first being the PNG's own picture or, with default_image, not."""

    def frame(number):
        return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, width, height, 0, 0, 1, 10, 0, 0))

    pixels = samples(random, width, height, 8, 2)
    moving = chunk(b"acTL", struct.pack(">II", 2, 0))
    more = filtered(samples(random, width, height, 8, 2).reshape(height, -1), 3, random)
    frames = (
        (frame(0) if default_image else b"")
        + frame(1)
        + chunk(b"fdAT", struct.pack(">I", 2) + zlib.compress(more))
    )
    return png(pixels, 8, 2, random, between=moving + (b"" if default_image else frame(0)), behind=frames)


@pytest.mark.parametrize("default_image", [False, True])
def test_the_first_frame_of_an_animation(default_image):
    data = animation(np.random.default_rng(3), 20, 30, default_image)
    assert Image.open(io.BytesIO(data)).is_animated
    assert np.array_equal(decoded(data), by_pillow(data))


XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>'
KEYWORD = b"XML:com.adobe.xmp"


def orientation_chunks():
    for value in range(10):
        yield f"eXIf {value}", chunk(b"eXIf", exif(value))
    yield "with prefix", chunk(b"eXIf", b"Exif\0\0" + exif(6))
    yield "two prefixes", chunk(b"eXIf", b"Exif\0\0Exif\0\0" + exif(6))
    yield "long", chunk(b"eXIf", exif(6, kind=4))
    yield "byte", chunk(b"eXIf", exif(6, kind=1))
    yield "no TIFF", chunk(b"eXIf", b"nothing")
    yield "cut", chunk(b"eXIf", exif(6)[:14])
    yield "empty", chunk(b"eXIf", b"")
    yield "text", chunk(b"tEXt", b"exif\0" + exif(6))
    yield (
        "raw profile",
        chunk(
            b"tEXt", b"Raw profile type exif\0\nexif\n26\n" + (b"Exif\0\0" + exif(6)).hex().encode() + b"\n"
        ),
    )
    for value in (0, 1, 6, 9):
        yield f"XMP {value}", chunk(b"iTXt", KEYWORD + b"\0\0\0\0\0" + XMP % value)
    yield "XMP element", chunk(b"iTXt", KEYWORD + b"\0\0\0en\0k\0<tiff:Orientation>8</tiff:Orientation>")
    yield "XMP compressed", chunk(b"iTXt", KEYWORD + b"\0\1\0\0\0" + zlib.compress(XMP % 7))
    yield "XMP cut", chunk(b"iTXt", KEYWORD + b"\0\0\0en")
    yield "XMP and eXIf", chunk(b"iTXt", KEYWORD + b"\0\0\0\0\0" + XMP % 6) + chunk(b"eXIf", exif(3))
    yield "two eXIf", chunk(b"eXIf", exif(5)) + chunk(b"eXIf", exif(6))
    yield "text of that name", chunk(b"tEXt", KEYWORD + b"\0" + XMP % 6)


@pytest.mark.parametrize(
    ("name", "chunks"), list(orientation_chunks()), ids=[name for name, _ in orientation_chunks()]
)
@pytest.mark.parametrize("place", ["between", "behind"])
@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_orientation(tmp_path, name, chunks, place):
    if name == "with prefix":
        skip_before(11, "EXIF of a PNG may begin with the prefix that a JPEG's has")
    random = np.random.default_rng(4)
    compare_with_pillow(tmp_path, png(samples(random, 7, 5, 8, 2), 8, 2, random, **{place: chunks}))


def irregular_files():
    random = np.random.default_rng(5)
    pixels = samples(random, 9, 6, 8, 2)
    raw = filtered(pixels.reshape(6, -1), 3, random)
    stream = zlib.compress(raw)
    start, end = SIGNATURE + header(9, 6, 8, 2), chunk(b"IEND")

    def file(*parts):
        return start + b"".join(parts) + end

    good = file(chunk(b"IDAT", stream))
    yield "good", good
    yield "junk behind", good + b"junk"
    for cut in (1, 4, 8, 11, 12, 13, 16, 20, 30, len(stream) + 10, len(stream) + 30):
        yield f"cut by {cut}", good[:-cut]
    yield "checksum of IDAT", file(chunk(b"IDAT", stream, crc=1))
    yield "checksum of a chunk before", file(chunk(b"gAMA", bytes(4), crc=1), chunk(b"IDAT", stream))
    yield "checksum of a chunk behind", file(chunk(b"IDAT", stream), chunk(b"tEXt", b"a\0b", crc=1))
    yield "checksum of IEND", good[:-1] + b"x"
    yield "adler", file(chunk(b"IDAT", stream[:-1] + b"x"))
    yield "no adler", file(chunk(b"IDAT", stream[:-4]))
    yield "half a stream", file(chunk(b"IDAT", stream[: len(stream) // 2]))
    yield "no stream", file(chunk(b"IDAT", b""))
    yield "no IDAT", file()
    yield "too few rows", file(chunk(b"IDAT", zlib.compress(raw[:-28])))
    yield "too few bytes", file(chunk(b"IDAT", zlib.compress(raw[:-5])))
    yield "too many bytes", file(chunk(b"IDAT", zlib.compress(raw + bytes(100))))
    yield "bytes behind the stream", file(chunk(b"IDAT", stream + b"xxx"))
    yield "a filter that is none", file(chunk(b"IDAT", zlib.compress(b"\x05" + raw[1:])))
    yield "no zlib", file(chunk(b"IDAT", b"hello world"))
    yield (
        "IDAT in two places",
        file(chunk(b"IDAT", stream[:9]), chunk(b"tEXt", b"a\0b"), chunk(b"IDAT", stream[9:])),
    )
    yield (
        "empty IDATs",
        file(
            chunk(b"IDAT"),
            chunk(b"IDAT", stream[:9]),
            chunk(b"IDAT"),
            chunk(b"IDAT", stream[9:]),
            chunk(b"IDAT"),
        ),
    )
    yield "two headers", file(header(9, 6, 8, 2), chunk(b"IDAT", stream))
    yield "header cut", SIGNATURE + chunk(b"IHDR", bytes(12)) + good[33:]
    for name, wrong in {
        "no width": header(0, 6, 8, 2),
        "depth 3": header(9, 6, 3, 0),
        "colour 5": header(9, 6, 8, 5),
        "depth of palette": header(9, 6, 16, 3),
        "other interlacing": header(9, 6, 8, 2, 2),
        "huge": header(1 << 20, 1 << 20, 8, 2),
        "large": header(10_000, 9_000, 8, 2),
        "sign bit": header(1 << 31, 6, 8, 2),
    }.items():
        yield name, SIGNATURE + wrong + good[33:]
    yield "gamma before header", SIGNATURE + chunk(b"gAMA", bytes(4)) + good[8:]
    yield "gamma cut", file(chunk(b"gAMA", bytes(3)), chunk(b"IDAT", stream))
    yield "transparency cut", file(chunk(b"tRNS", bytes(5)), chunk(b"IDAT", stream))
    yield "unknown critical chunk", file(chunk(b"ABCD"), chunk(b"IDAT", stream))
    yield "name that is none", file(chunk(b"\x01BCD"), chunk(b"IDAT", stream))
    yield "name that is none, behind", file(chunk(b"IDAT", stream), chunk(b"\x01BCD"))
    yield "signature cut", good[:7]
    for name, palette in {
        "none": b"",
        "empty": chunk(b"PLTE"),
        "odd": chunk(b"PLTE", bytes(10)),
        "long": chunk(b"PLTE", bytes(1200)),
        "two": 2 * chunk(b"PLTE", b"abcdef"),
    }.items():
        yield (
            f"palette: {name}",
            SIGNATURE + header(9, 6, 8, 3) + palette + chunk(b"IDAT", zlib.compress(bytes(60))) + end,
        )
    yield (
        "palette behind",
        SIGNATURE
        + header(9, 6, 8, 3)
        + chunk(b"IDAT", zlib.compress(bytes(60)))
        + chunk(b"PLTE", b"abc")
        + end,
    )
    control = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, 5, 4, 1, 1, 1, 10, 0, 0))
    part = chunk(b"IDAT", zlib.compress(bytes(16 * 4)))
    for frames in (0, 1, 2):
        yield (
            f"frame smaller than the picture, of {frames}",
            file(chunk(b"acTL", struct.pack(">II", frames, 0)), control, part),
        )
    yield "frame without animation", file(control, part)
    yield "frame behind without animation", file(chunk(b"IDAT", stream), chunk(b"fcTL", bytes(26)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "data"), list(irregular_files()), ids=[name for name, _ in irregular_files()]
)
def test_of_irregular_files_pillow_decides(tmp_path, name, data):
    compare_with_pillow(tmp_path, data)


def test_cut_at_every_byte(tmp_path):
    random = np.random.default_rng(6)
    data = png(
        samples(random, 5, 4, 8, 2),
        8,
        2,
        random,
        pieces=3,
        between=chunk(b"eXIf", exif(6)),
        behind=chunk(b"tEXt", b"a\0b"),
    )
    pictures = sum(compare_with_pillow(tmp_path, data[:cut]) for cut in range(1, len(data)))
    assert 20 < pictures < len(data) / 2


def test_what_is_refused_is_named_with_its_offset(tmp_path):
    (tmp_path / "class").mkdir()
    random = np.random.default_rng(7)
    data = bytearray(png(samples(random, 50, 40, 8, 2), 8, 2, random))
    data[len(data) // 2] ^= 1
    (tmp_path / "class" / "broken.png").write_bytes(data)
    with pytest.raises(
        CorruptDataError, match=r"broken\.png: PNG chunk IDAT at byte 33 has a wrong checksum"
    ) as caught:
        ImageFolder(tmp_path, transforms.PILToTensor()).at(0, 0, 0)
    assert caught.value.offset == 33 and caught.value.path.endswith("broken.png")


@pytest.mark.parametrize("interlaced", [False, True], ids=["rows", "interlaced"])
def test_regions(tmp_path, interlaced):
    """Crops decode no more than they need: inflating stops early, whatever the compression."""
    (tmp_path / "class").mkdir()
    random = np.random.default_rng(8)
    expected = []
    for i, (color, depth) in enumerate([(2, 8), (6, 8), (0, 8), (3, 4), (2, 16), (0, 1)]):
        data = png(
            samples(random, 301, 400, depth, color),
            depth,
            color,
            random,
            interlaced=interlaced,
            level=(0, 1, 9)[i % 3],
        )
        (tmp_path / "class" / f"{i}.png").write_bytes(data)
        expected.append(by_pillow(data))
    dataset = ImageFolder(
        tmp_path, transforms.Compose([transforms.RandomCrop((37, 41)), transforms.PILToTensor()])
    )
    for i, whole in enumerate(expected):
        for seed in range(20):
            (box,) = dataset.draw(i, seed, 0)
            crop = whole[box["top"] : box["top"] + 37, box["left"] : box["left"] + 41]
            assert np.array_equal(dataset.at(i, seed, 0)[0].permute(1, 2, 0).numpy(), crop), (i, box)


def test_decode_image_answers():
    random = np.random.default_rng(9)
    data = any_png(random, 2, 8)
    for same in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        assert np.array_equal(_core.decode_image(same), by_pillow(data))
    gif = io.BytesIO()
    make_picture(9, 9, 1).save(gif, "GIF")
    for other in (gif.getvalue(), b"", b"nothing", data[:-20], b"\xff\xd8\xff\xe0"):
        assert _core.decode_image(other) is None
    with pytest.raises(ValueError, match="'RGB'"):
        _core.decode_image(data, mode="L")
    with pytest.raises(ValueError, match="contiguous"):
        _core.decode_image(memoryview(data)[::2])


def test_an_image_folder_of_all_formats_equals_torchvisions(tmp_path):
    torchvision_or_skip()
    from torch.utils import data
    from torchvision import datasets
    from torchvision.transforms import v2

    random = np.random.default_rng(10)
    for i in range(12):
        (tmp_path / f"class{i % 3}").mkdir(exist_ok=True)
        picture = make_picture(*(int(side) for side in random.integers(40, 90, 2)), i)
        path = tmp_path / f"class{i % 3}" / str(i)
        if i % 4 == 0:
            picture = picture.convert(("RGBA", "P", "L")[i // 4])
        picture.save(
            f"{path}.webp" if i % 4 == 1 else f"{path}.png", **({"lossless": True} if i == 5 else {})
        )
    chain = v2.Compose([v2.CenterCrop((33, 35)), v2.PILToTensor()])
    theirs = datasets.ImageFolder(tmp_path, chain)
    ours = DataLoader(datasets.ImageFolder(tmp_path, chain), batch_size=5, num_workers=2)
    batches = list(zip(data.DataLoader(theirs, batch_size=5), ours, strict=True))
    assert ours.stats()["engine"] == "threads" and len(batches) == 3
    for (pixels, labels), (own_pixels, own_labels) in batches:
        assert torch.equal(pixels, own_pixels) and torch.equal(labels, own_labels)


def test_an_image_folder_without_pillow(tmp_path, monkeypatch):
    """Batches of PNG and WebP never call the fallback."""
    (tmp_path / "class").mkdir()
    for i, suffix in enumerate(["png", "webp", "jpg"] * 3):
        make_picture(50, 40, i).save(tmp_path / "class" / f"{i}.{suffix}")
    expected = [
        by_pillow((tmp_path / "class" / f"{i}.{suffix}").read_bytes())
        for i, suffix in enumerate(["png", "webp", "jpg"] * 3)
    ]
    loader = DataLoader(ImageFolder(tmp_path, transforms.PILToTensor()), batch_size=9, num_workers=2)
    monkeypatch.setattr(Image, "open", None)
    ((pixels, _),) = loader
    assert np.array_equal(pixels.permute(0, 2, 3, 1).numpy(), np.stack(expected))
