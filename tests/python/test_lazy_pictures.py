"""Pictures that wait are Pillow's, to the last bit: whatever was recorded, however somebody looks at them."""

import copy
import io
import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lazy_cases import (
    calls,
    chains,
    decoded_files,
    lazy_jpegs,
    lazy_pictures,
    opened,
    outcome,
    same_lazily,
    that_raise,
    through,
    written,
)
from millrace._pictures.pillow import record_of
from pictures import jpeg_bytes, make_picture
from PIL import Image, ImageChops, ImageDraw, ImageEnhance, ImageFilter, ImageOps, ImageStat
from pillow_facts import ABSENT
from thinned import thinned

FILES = lazy_jpegs() | decoded_files()


def jpeg_picture(data):
    """Opened and loaded; waits where pictures do."""
    image = opened(data)
    image.load()
    return image


def draws(image):
    ImageDraw.Draw(image).rectangle((3, 4, 20, 15), fill=128 if image.mode == "L" else (1, 200, 30))
    return image


def pastes(image):
    image.paste(image.crop((5, 5, 25, 25)), (-3, 8))
    return image


def stores(image):
    pixels = image.load()
    pixels[2, 3] = pixels[4, 5]
    return image, pixels[2, 3]


def shrinks(image):
    image.thumbnail((23, 23))
    return image


def drafts(image):
    image.draft("RGB", (20, 20))
    return image


def saved(kind, **options):
    def save(image):
        file = io.BytesIO()
        image.save(file, kind, **options)
        return file.getvalue()

    return save


LOOKS = {
    "asarray": np.asarray,
    "array": np.array,
    "tobytes": lambda im: im.tobytes(),
    "tobytes twice and again": lambda im: [im.tobytes() for _ in range(4)],
    "tobytes as BGR": lambda im: im.convert("RGB").tobytes("raw", "BGR"),
    "tobytes of a tuple": lambda im: im.tobytes("raw", (im.mode,)),
    "tobytes as jpeg": lambda im: im.tobytes("jpeg", im.mode),
    "getpixel": lambda im: [im.getpixel((x, 7)) for x in range(9)],
    "putpixel": lambda im: (im.putpixel((1, 1), 7 if im.mode == "L" else (7, 8, 9)), im)[1],
    "load()[x, y]": lambda im: [im.load()[x, 11] for x in (0, 5, -1)],
    "load()[x, y] =": stores,
    "load()[outside]": lambda im: im.load()[1000, 1000],
    "split": lambda im: im.split(),
    "getchannel": lambda im: im.getchannel(0),
    "getbands": lambda im: im.getbands(),
    "filter": lambda im: im.filter(ImageFilter.GaussianBlur(1.5)),
    "sharpen": lambda im: im.filter(ImageFilter.SHARPEN),
    "enhance": lambda im: [
        kind(im).enhance(1.4)
        for kind in (
            ImageEnhance.Color,
            ImageEnhance.Contrast,
            ImageEnhance.Brightness,
            ImageEnhance.Sharpness,
        )
    ],
    "draw": draws,
    "paste": pastes,
    "paste into another": lambda im: (new := Image.new(im.mode, (70, 70)), new.paste(im, (4, 2)))[0],
    "save as PNG": saved("PNG"),
    "save as JPEG": saved("JPEG", quality=80),
    "save as it was": saved("JPEG", quality="keep"),
    "pickle": lambda im: pickle.loads(pickle.dumps(im)),
    "pickled bytes": lambda im: pickle.dumps(im),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "getdata": lambda im: list(im.getdata()),
    "get_flattened_data": lambda im: im.get_flattened_data(),
    "==": lambda im: (im == im.copy(), im == opened(FILES["444"]), im != 3),
    "histogram": lambda im: im.histogram(),
    "entropy": lambda im: im.entropy(),
    "getcolors": lambda im: im.getcolors(1 << 16),
    "getextrema": lambda im: im.getextrema(),
    "getbbox": lambda im: im.getbbox(),
    "getprojection": lambda im: im.getprojection(),
    "rotate 90": lambda im: im.rotate(90, expand=True),
    "rotate 180": lambda im: im.rotate(180),
    "rotate 30": lambda im: im.rotate(30, Image.Resampling.BILINEAR, expand=True, fillcolor=0),
    "transform": lambda im: im.transform(
        (40, 40), Image.Transform.AFFINE, (1, 0.2, 0, 0.1, 1, 3), Image.Resampling.BICUBIC
    ),
    "thumbnail": shrinks,
    "draft": drafts,
    "fit": lambda im: ImageOps.fit(im, (30, 20), centering=(0.2, 0.7)),
    "contain": lambda im: ImageOps.contain(im, (30, 20)),
    "cover": lambda im: ImageOps.cover(im, (30, 20)),
    "pad": lambda im: ImageOps.pad(im, (30, 50), color=0),
    "mirror": ImageOps.mirror,
    "flip": ImageOps.flip,
    "scale": lambda im: ImageOps.scale(im, 0.4),
    "expand": lambda im: ImageOps.expand(im, 3, 0),
    "crop of borders": lambda im: ImageOps.crop(im, 3),
    "grayscale": ImageOps.grayscale,
    "autocontrast": ImageOps.autocontrast,
    "equalize": ImageOps.equalize,
    "posterize": lambda im: ImageOps.posterize(im, 3),
    "solarize": lambda im: ImageOps.solarize(im, 90),
    "invert": ImageOps.invert,
    "upright": ImageOps.exif_transpose,
    "upright in place": lambda im: (ImageOps.exif_transpose(im, in_place=True), im),
    "resize with a gap": lambda im: im.resize((9, 8), Image.Resampling.BICUBIC, reducing_gap=2),
    "reduce": lambda im: im.reduce(3),
    "point": lambda im: im.point(lambda value: value // 2),
    "putalpha": lambda im: (im.putalpha(90), im)[1],
    "quantize": lambda im: im.quantize(12),
    "other modes": lambda im: [im.convert(mode) for mode in ("1", "P", "CMYK", "YCbCr", "RGBA", "HSV", "F")],
    "matrix": lambda im: im.convert("RGB").convert("L", (0.3, 0.5, 0.2, 0)),
    "blend": lambda im: Image.blend(im, im.transpose(Image.Transpose.FLIP_LEFT_RIGHT), 0.3),
    "composite": lambda im: Image.composite(im, im.transpose(Image.Transpose.ROTATE_180), im.convert("L")),
    "merge": lambda im: Image.merge("RGB", [im.convert("L")] * 3),
    "difference": lambda im: ImageChops.difference(im, im.transpose(Image.Transpose.FLIP_TOP_BOTTOM)),
    "statistics": lambda im: ImageStat.Stat(im).mean,
    "getexif": lambda im: dict(im.getexif()),
    "facts": lambda im: (im.info, im.format, im.filename, im.width, im.height, im.format_description),
    "readonly": lambda im: im.readonly,
    "is an Image": lambda im: (isinstance(im, Image.Image), type(im), im.__class__.__name__),
    "quantization": lambda im: (im.quantization, im.layers, im.layer, im.applist, im.tile, im.fp is None),
    "mime type": lambda im: im.get_format_mimetype(),
    "seek and tell": lambda im: (im.seek(0), im.tell()),
    "seek on": lambda im: im.seek(1),
    "verify": lambda im: im.verify(),
    "close": lambda im: (im.close(), im.load()),
    "close and look": lambda im: (im.close(), im.tobytes()),
    "close and crop": lambda im: (im.close(), im.crop((1, 2, 3, 4))),
    "close twice": lambda im: (im.close(), im.close()),
    "getim": lambda im: type(im.getim()),
    "core image": lambda im: (im.load() is None, im.im.size, im.im.mode, im.im.bands),
    "array interface": lambda im: im.__array_interface__,
    "bool": bool,
    "hash": hash,
}
WRONG = {
    "crop backwards": lambda im: im.crop((9, 9, 3, 12)),
    "crop of nothing": lambda im: im.crop((4, 4, 4, 9)),
    "crop of three": lambda im: im.crop((4, 4, 4)),
    "crop of texts": lambda im: im.crop(("a", "b", "c", "d")),
    "crop of floats": lambda im: im.crop((1.5, 2.5, 9.49, 11.5)),
    "crop far outside": lambda im: im.crop((500, 500, 520, 530)),
    "huge crop": lambda im: im.crop((0, 0, 1 << 20, 1 << 20)),
    "resize to nothing": lambda im: im.resize((0, 5)),
    "resize to less": lambda im: im.resize((5, -5)),
    "resize to floats": lambda im: im.resize((5.5, 6.5)),
    "resize to a number": lambda im: im.resize(5),
    "resize to numpy": lambda im: im.resize(np.array([9, 7])),
    "resize by numpy": lambda im: im.resize((np.int64(9), np.float64(7))),
    "resize to itself": lambda im: im.resize(im.size),
    "resize to much": lambda im: im.resize((1 << 40, 5)),
    "unknown filter": lambda im: im.resize((5, 5), 77),
    "other filters": lambda im: [
        im.resize((25, 25), kind) for kind in Image.Resampling if kind.name.startswith("MKS")
    ],
    "box outside": lambda im: im.resize((5, 5), box=(-1, 0, 5, 5)),
    "box too large": lambda im: im.resize((5, 5), box=(0, 0, 500, 5)),
    "empty box": lambda im: im.resize((5, 5), box=(3, 3, 3, 5)),
    "box of nothing": lambda im: im.resize((5, 5), box=(9, 3, 3, 5)),
    "box of three": lambda im: im.resize((5, 5), box=(9, 3, 3)),
    "small gap": lambda im: im.resize((5, 5), reducing_gap=0.5),
    "unknown transpose": lambda im: im.transpose(77),
    "transpose of a text": lambda im: im.transpose("x"),
    "unknown mode": lambda im: im.convert("XYZ"),
    "no mode": lambda im: im.convert(),
    "unknown encoder": lambda im: im.tobytes("what"),
    "unknown layout": lambda im: im.tobytes("raw", "what"),
    "too many arguments": lambda im: im.copy(1),
    "unknown argument": lambda im: im.crop(at=3),
    "unknown attribute": lambda im: im.nothing,
    "outside": lambda im: im.getpixel((1000, 3)),
}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FILES)), chains, st.sampled_from(sorted(LOOKS)))
def test_any_chain_and_any_look(name, chain, look):
    same_lazily(lambda: LOOKS[look](through(jpeg_picture(FILES[name]), chain)), opened=None)


@settings(max_examples=250, deadline=None)
@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(0, 9),
    st.sampled_from([{"subsampling": n} for n in (0, 1, 2)] + [{"progressive": True}]),
    st.booleans(),
    chains,
)
def test_chains_over_pictures_of_any_size(width, height, seed, options, grey, chain):
    data = jpeg_bytes(make_picture(width, height, seed, "L" if grey else "RGB"), quality=80, **options)
    same_lazily(lambda: through(opened(data), chain))


@thinned(2, look=sorted(LOOKS | WRONG), loaded=[False, True])
def test_every_look_at_every_kind(look, loaded):
    for name, data in FILES.items():
        function = (LOOKS | WRONG)[look]
        same_lazily(lambda: function(jpeg_picture(data) if loaded else opened(data)), opened=None)


@pytest.mark.parametrize("look", sorted(LOOKS | WRONG))
def test_every_look_behind_recorded_calls(look):
    def looked(name):
        image = opened(FILES[name]).convert("RGB").crop((3, 2, 41, 37)).resize((33, 29))
        return (LOOKS | WRONG)[look](image.transpose(Image.Transpose.FLIP_LEFT_RIGHT))

    for name in ("420", "grey", "turned 6"):
        same_lazily(lambda: looked(name))


def test_all_kinds_wait():
    for name, data in FILES.items():
        with lazy_pictures() as counts:
            image = jpeg_picture(data)
            assert record_of(image) is not None, name
            assert record_of(image.crop((0, 0, 9, 9)).resize((5, 5)).convert("L").copy()) is not None
        assert (counts.opened, counts.left_to_pillow) == (1, 0), name


def test_calls_that_are_recorded_decode_nothing_and_a_crop_a_part():
    data = jpeg_bytes(make_picture(400, 300, 1))
    with lazy_pictures() as counts:
        image = opened(data).convert("RGB").transpose(Image.Transpose.ROTATE_90)
        image = image.crop((10, 10, 210, 170)).resize((180, 180))
        assert (counts.decoded_in_part, counts.decoded_whole, counts.total()["skipped"]) == (0, 0, 1)
        np.asarray(image)
    assert (counts.decoded_in_part, counts.decoded_whole, counts.total()["skipped"]) == (1, 0, 0)


@pytest.mark.parametrize("kind", ["420", "progressive", "png"])
def test_a_small_result_does_not_keep_its_file(kind):
    """Pixels that take less than what they are made of are made at once."""
    photo = make_picture(400, 300, 1)
    data = jpeg_bytes(photo, quality=95, progressive=kind == "progressive")
    if kind == "png":
        photo.save(file := io.BytesIO(), "PNG")
        data = file.getvalue()
    with lazy_pictures() as counts:
        small = opened(data).resize((20, 20))
        assert counts.decoded_in_part + counts.decoded_whole == 1
        assert record_of(small).waits == 0 and record_of(small).stored_size == (20, 20)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.lists(st.tuples(st.integers(0, 9), calls), max_size=12))
def test_pictures_that_branch(name, steps):
    """Each step begins at any picture made so far; all are looked at in the end, the last one first."""

    def made():
        images = [opened(FILES[name])]
        for origin, call in steps:
            images.append(call(images[origin % len(images)]))
        return [image.tobytes() for image in reversed(images)], images

    same_lazily(made)


def test_long_chains():
    def chained(count):
        image, draw = opened(FILES["420"]), random.Random(count)
        for _ in range(count):
            sides = draw.randrange(30, 90), draw.randrange(30, 90)
            image = image.resize(sides, draw.randrange(6)) if draw.randrange(3) == 0 else image
            image = image.transpose(draw.choice(list(Image.Transpose)))
            image = image.crop((draw.randrange(-2, 3), draw.randrange(-2, 3), image.width + 1, image.height))
        return image

    for count in (20, 100, 500):
        same_lazily(lambda: chained(count))


def test_drawing_into_one_picture_leaves_the_others():
    def drawn():
        whole = jpeg_picture(FILES["420"])
        crop, twin = whole.crop((2, 2, 30, 30)), whole.copy()
        before = crop.tobytes()
        draws(whole)
        later = whole.crop((2, 2, 30, 30))
        draws(twin)
        return whole, crop, twin, later, before == crop.tobytes()

    same_lazily(drawn)


def test_pixels_of_load_are_those_of_that_moment():
    """What load() returned goes on showing the same memory, whatever becomes of the picture."""

    def closed():
        image = opened(FILES["420"])
        pixels = image.load()
        image.close()
        return pixels[5, 6]

    def replaced():
        image = opened(FILES["420"])
        pixels = image.load()
        image.putalpha(3)
        return pixels[5, 6], image.load()[5, 6]

    def shrunk():
        image = opened(FILES["420"])
        pixels = image.load()
        image.thumbnail((9, 9))
        return pixels[40, 40], pixels[60, 44], image

    def shared():
        image = opened(FILES["420"])
        pixels, again = image.load(), image.load()
        pixels[1, 1] = (1, 2, 3)
        draws(image)
        return again[1, 1], again[10, 10], pixels[10, 10], image

    for function in (closed, replaced, shrunk, shared):
        same_lazily(function)


def test_pictures_outlive_the_recording():
    """The patches are taken out while pictures still wait."""
    for data in FILES.values():
        with lazy_pictures():
            image = jpeg_picture(data)
            small = image.resize((20, 20)).transpose(Image.Transpose.ROTATE_90)
            access = image.load()
        expected = jpeg_picture(data)
        assert written(small) == written(expected.resize((20, 20)).transpose(Image.Transpose.ROTATE_90))
        assert written(image.crop((1, 1, 30, 20))) == written(expected.crop((1, 1, 30, 20)))
        assert written(image) == written(expected) and access[3, 3] == expected.getpixel((3, 3))


def test_what_pillow_alone_replaces_is_taken_out_again():
    def methods():
        kinds = Image.Image, type(opened(FILES["420"])), type(opened(FILES["420"])).__mro__[1]
        return [{n: m for n, m in kind.__dict__.items() if callable(m)} for kind in kinds]

    before = methods()
    with lazy_pictures():
        assert methods() != before
    assert methods() == before


def test_looks_raise_where_they_are_meant_to():
    looks = {name: lambda look=look: look(opened(FILES["420"])) for name, look in LOOKS.items()}
    meant = {"load()[outside]", "seek on", "close", "close and look", "close and crop", "hash"}
    assert that_raise(looks) == meant | (ABSENT & set(LOOKS))
    wrong = {name: lambda look=look: look(opened(FILES["420"])) for name, look in WRONG.items()}
    fine = {"crop of nothing", "crop of floats", "crop far outside", "resize to numpy", "resize to itself"}
    assert set(WRONG) - that_raise(wrong) == (fine | {"other filters", "empty box", "no mode"}) - ABSENT
    with lazy_pictures():
        found = outcome(lambda: opened(FILES["420"]).resize((0, 5)))[0]
        assert found == (ValueError, "height and width must be > 0"), found
