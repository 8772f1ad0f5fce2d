"""Files for tests of packages' decoders, a package to be replaced, a dataset, and what comes of a call."""

from __future__ import annotations

import io
import struct
import types

import numpy as np
import torch
from millrace._pictures import asking
from pictures import jpeg_bytes, make_picture
from PIL import Image, ImageOps


def segment(payload: bytes, marker: int = 0xE1) -> bytes:
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(payload) + 2) + payload


def tiff(*entries: tuple[int, int, int, int], order: str = "<") -> bytes:
    """(tag, type, count, value), a SHORT's value in the first two bytes."""
    begin = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries))
    for tag, kind, count, value in entries:
        begin += struct.pack(order + "HHI", tag, kind, count)
        begin += struct.pack(order + "HH", value, 0) if kind == 3 else struct.pack(order + "I", value)
    return begin + bytes(4)


def exif(orientation: int, order: str = "<") -> bytes:
    return b"Exif\0\0" + tiff((0x112, 3, 1, orientation), order=order)


def with_segments(jpeg: bytes, *payloads: bytes) -> bytes:
    return jpeg[:2] + b"".join(map(segment, payloads)) + jpeg[2:]


XMP = b"http://ns.adobe.com/xap/1.0/\0<x/>"
PLAIN = jpeg_bytes(make_picture(37, 29, seed=1))
GREY = jpeg_bytes(make_picture(37, 29, seed=2, mode="L"))


def regular() -> dict[str, bytes]:
    """JPEGs that every package sees alike."""
    files = {"plain": PLAIN, "grey": GREY, "grey turned": with_segments(GREY, exif(6))}
    for width, height in ((1, 1), (2, 3), (8, 8), (17, 16), (64, 45)):
        picture = make_picture(width, height, seed=width)
        for subsampling in (0, 1, 2):
            for progressive in (False, True):
                name = f"{width}x{height} {subsampling} {progressive}"
                files[name] = jpeg_bytes(
                    picture, subsampling=subsampling, progressive=progressive, quality=60
                )
    for orientation in range(1, 9):
        for order in "<>":
            files[f"turned {orientation}{order}"] = with_segments(PLAIN, exif(orientation, order), XMP)
    return files


def odd() -> dict[str, bytes]:
    """Files that are the packages' own, at least where they are to be turned."""
    png = io.BytesIO()
    make_picture(9, 8).save(png, "PNG")
    return {
        "png": png.getvalue(),
        "cmyk": jpeg_bytes(make_picture(20, 10).convert("CMYK")),
        "cut short": PLAIN[: len(PLAIN) // 2],
        "no picture": b"\xff\xd8\xff nothing",
        "empty": b"",
        "xmp before": with_segments(PLAIN, XMP, exif(6)),
        "two": with_segments(PLAIN, exif(6), exif(3)),
        "long": with_segments(PLAIN, b"Exif\0\0" + tiff((0x112, 4, 1, 6))),
    }


def pillow_cv2(same=True) -> types.ModuleType:
    """A package with OpenCV's names, whose pixels are Pillow's; other pixels if not `same`."""

    def imdecode(buf, flags):
        before = asking.asks(None)  # a package of its own does not wait
        try:
            picture = Image.open(io.BytesIO(bytes(buf)))
            picture = picture if flags == -1 or flags & 128 else ImageOps.exif_transpose(picture)
            if flags == -1:
                picture = picture if picture.mode == "L" else picture.convert("RGB")
            else:
                picture = picture.convert("RGB" if flags & 1 else "L")
        except (OSError, SyntaxError):
            return None
        finally:
            asking.stops_asking(before)
        pixels = np.array(picture) if same else np.array(picture) // 2
        return np.ascontiguousarray(pixels[..., ::-1]) if pixels.ndim == 3 else pixels

    def imread(filename, flags=1):
        with open(filename, "rb") as file:
            return imdecode(file.read(), flags)

    module = types.ModuleType("cv2")
    module.__path__ = []
    module.imread, module.imdecode = imread, imdecode
    return module


def outcome(function, *args, **kwargs):
    """What a call gives, to be compared."""
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
    if result is None:
        return None
    strides = result.stride() if isinstance(result, torch.Tensor) else result.strides
    return tuple(result.shape), strides, str(result.dtype), np.asarray(result).tobytes()


class Read(torch.utils.data.Dataset):
    def __init__(self, paths, read):
        self.paths, self.read = paths, read

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.read(self.paths[index])


def written(files, folder) -> list[str]:
    paths = []
    for number, data in enumerate(files.values()):
        paths.append(str(folder / f"{number:03}.jpg"))
        (folder / f"{number:03}.jpg").write_bytes(data)
    return paths


def encoded(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)
