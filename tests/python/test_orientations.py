"""How pictures are turned upright natively, whatever the metadata looks like that says so: as Pillow does."""

import io
import itertools
import struct
import warnings

import numpy as np
import pytest
import torch
from millrace import transforms
from millrace.datasets import ImageFolder
from PIL import Image, ImageOps
from pillow_facts import skip_before

ORIENTATION, MAKER = 0x112, 0x10F
FORMATS = ("jpeg", "png", "webp")
# The numbers of TIFF's types, how struct packs one value, and what Pillow makes of the bytes of a text.
TYPES = {1: "B", 2: "c", 3: "H", 4: "I", 5: "II", 6: "b", 7: "B", 8: "h", 9: "i", 10: "ii", 11: "f", 12: "d"}
TYPES |= {13: "I", 14: "H", 16: "Q", 99: "I"}


def tiff(*entries, order="<"):
    """A directory of `entries`: tag, type, count, the bytes of the values."""
    directory, behind = struct.pack(order + "H", len(entries)), b""
    end = 8 + 2 + 12 * len(entries) + 4
    for tag, kind, count, values in entries:
        place = values.ljust(4, b"\0") if len(values) <= 4 else struct.pack(order + "I", end + len(behind))
        behind += values if len(values) > 4 else b""
        directory += struct.pack(order + "HHI", tag, kind, count) + place
    head = {"<": b"II*\0", ">": b"MM\0*"}[order]
    return head + struct.pack(order + "I", 8) + directory + bytes(4) + behind


def orientation(kind, count=1, value=6, order="<"):
    form = TYPES[kind]
    if form == "c":
        packed = b"%d" % value
    elif len(form) == 2:
        packed = struct.pack(order + form, value, 1)
    else:
        packed = struct.pack(order + form, value)
    return ORIENTATION, kind, count, packed + (packed[:-1] + b"\1") * (count - 1)


def metadata():
    """The EXIF of a picture, and its XMP, by name."""
    for kind, count, order in itertools.product(TYPES, (0, 1, 2, 3), "<>"):
        yield f"type {kind} x {count} {order}", tiff(orientation(kind, count, order=order), order=order), b""
    for kind, value, order in itertools.product((3, 4, 6, 8, 9), (0, 1, 2, 8, 9, 120), "<>"):
        yield f"type {kind} = {value} {order}", tiff(orientation(kind, 1, value, order), order=order), b""
    for value in (-6, 6.5, float("nan"), 1e30):
        yield f"float {value}", tiff((ORIENTATION, 11, 1, struct.pack("<f", value))), b""
    yield "a fraction of 12 / 2", tiff((ORIENTATION, 5, 1, struct.pack("<II", 12, 2))), b""
    yield "a fraction over nothing", tiff((ORIENTATION, 5, 1, struct.pack("<II", 6, 0))), b""
    yield "behind a text", tiff((MAKER, 2, 9, b"a maker!\0"), orientation(3)), b""
    cut = tiff((MAKER, 2, 9, b"a maker!\0"), orientation(3))
    yield "behind a text that is cut", cut[:-3], b""
    yield "behind one of no type", tiff((MAKER, 77, 9, b"a maker!\0"), orientation(3)), b""
    yield "before a text that is cut", tiff(orientation(3), (0x131, 2, 9, b"a maker!\0"))[:-3], b""
    yield "twice", tiff(orientation(3, value=6), orientation(3, value=3)), b""
    yield "twice, of two types", tiff(orientation(99, value=6), orientation(3, value=3)), b""
    xmp = b'<x:xmpmeta><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>'
    yield "XMP", b"", xmp % 6
    yield "XMP, and EXIF of something else", tiff((MAKER, 2, 2, b"a\0")), xmp % 8
    yield "XMP, and EXIF", tiff(orientation(3, value=3)), xmp % 8
    yield "XMP of no sense", b"", xmp % 9


PICTURE = Image.fromarray(np.random.default_rng(1).integers(0, 255, (5, 7, 3), dtype=np.uint8))


def with_metadata(form, exif, xmp, several=()):
    file = io.BytesIO()
    more = {"lossless": True} if form == "webp" else {}
    if exif:
        more["exif"] = b"Exif\0\0" + exif
    if xmp and form == "webp":
        more["xmp"] = xmp
    PICTURE.save(file, form, **more)
    data = file.getvalue()
    for segment in [b"http://ns.adobe.com/xap/1.0/\0" + xmp] * bool(xmp and form == "jpeg") + list(several):
        data = data[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + data[2:]
    return data


def compare(tmp_path, files):
    (tmp_path / "class").mkdir()
    for name, data in files.items():
        (tmp_path / "class" / name).write_bytes(data)
    rows, to_tensor = ImageFolder(tmp_path, transforms.PILToTensor(), exif=True), transforms.PILToTensor()
    wrong, turned = [], 0
    for i, (path, _) in enumerate(rows.samples):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture, row = ImageOps.exif_transpose(Image.open(path)).convert("RGB"), rows.at(i, 0, 0)[0]
        turned += picture.size != PICTURE.size
        if not torch.equal(row, to_tensor(picture)):
            wrong.append(path)
    assert not wrong
    return turned


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_of_metadata(tmp_path, form):
    skip_before(11, "an orientation in the XMP counts")
    cases = {name: (exif, xmp) for name, exif, xmp in metadata() if not (xmp and form == "png")}
    files = {
        f"{i:03} {name.replace('/', 'by')}.{form}": with_metadata(form, *case)
        for i, (name, case) in enumerate(cases.items())
    }
    assert compare(tmp_path, files) > 40


def test_several_segments_of_a_jpeg(tmp_path):
    skip_before(11, "an orientation in the XMP counts")
    xmp = [b'http://ns.adobe.com/xap/1.0/\0<a tiff:Orientation="%d"/>' % value for value in (6, 3)]
    exifs = [b"Exif\0\0" + tiff(orientation(3, value=value)) for value in (6, 3)]
    other = b"Exif\0\0" + tiff((MAKER, 2, 2, b"a\0"))
    files = {
        "two XMPs": xmp,
        "two XMPs, turned": xmp[::-1],
        "two EXIFs": exifs,
        "two EXIFs, turned": exifs[::-1],
        "without and with": [exifs[0], other],
        "with and without": [other, exifs[0]],
        "XMP without its end": [xmp[0][:28]],
        "EXIF of nothing": [b"Exif\0\0", xmp[0]],
        "a prefix that is cut": [b"Exif\0", xmp[0]],
    }
    made = {f"{name}.jpeg": with_metadata("jpeg", b"", b"", segments) for name, segments in files.items()}
    assert compare(tmp_path, made) > 3
