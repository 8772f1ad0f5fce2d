"""Damaged pictures: sound files of every kind, and ways to spoil them. The same seed gives the same mutants.

Sound files are those of tests/data and some made here: pictures of an encoder's other options, with metadata
of each kind that Pillow reads, in segments, larger than one of its blocks of 64 KiB, and progressive ones
whose last scans are cut off, which is a valid file.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from millrace import _core
from PIL import Image

DATA = Path(__file__).resolve().parents[1] / "data"
SUFFIXES = {"jpeg": ".jpg", "png": ".png", "webp": ".webp"}
MOST_PIXELS = 1 << 19  # a header that claims more costs time and teaches nothing new


@dataclass(frozen=True)
class Mutant:
    format: str
    seed: str  # the sound file
    mutation: str
    data: bytes


def _photo(width: int, height: int, seed: int, noise: float = 6.0) -> Image.Image:
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    waves = [
        np.sin(random.uniform(2, 40) * x + random.uniform(2, 40) * y + random.uniform(0, 6)) for _ in range(6)
    ]
    pixels = 128 + 55 * np.stack([waves[0] + waves[1], waves[2] + waves[3], waves[4] + waves[5]], -1)
    return Image.fromarray(
        (pixels + noise * random.standard_normal(pixels.shape)).clip(0, 255).astype(np.uint8)
    )


def _saved(picture: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def segments(jpeg: bytes) -> list[tuple[int, int, int]]:
    """(marker, begin, end) of each marker segment, scans with their data; ends before the end marker."""
    found, at = [], 2
    while at + 4 <= len(jpeg) and jpeg[at] == 0xFF and jpeg[at + 1] not in (0xD9, 0):
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
        if jpeg[at + 1] == 0xDA:
            while end + 1 < len(jpeg) and (
                jpeg[end] != 0xFF or jpeg[end + 1] == 0 or 0xD0 <= jpeg[end + 1] <= 0xD7
            ):
                end += 1
        found.append((jpeg[at + 1], at, end))
        at = end
    return found


def without_last_scans(jpeg: bytes, kept: int) -> bytes:
    """A progressive file that ends after its first `kept` scans."""
    scans = [end for marker, _, end in segments(jpeg) if marker == 0xDA]
    return jpeg[: scans[kept - 1]] + b"\xff\xd9"


def _segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", 2 + len(content)) + content


def _with_metadata(jpeg: bytes) -> dict[str, bytes]:
    exif = Image.Exif()
    exif[0x0112], exif[0x0128], exif[0x011A], exif[0x011B], exif[0x010F] = 6, 2, 72.0, 72.0, "maker"
    resources = b"".join(
        b"8BIM" + struct.pack(">HH", code, 0) + struct.pack(">I", len(data)) + data
        for code, data in [
            (0x03ED, struct.pack(">IHHIHH", 72 << 16, 1, 1, 72 << 16, 1, 1)),
            (0x0404, b"caption!"),
        ]
    )
    mpf = (
        b"MPF\0II*\0\x08\0\0\0"
        + struct.pack("<H", 3)
        + struct.pack("<HHI4s", 0xB000, 7, 4, b"0100")
        + struct.pack("<HHII", 0xB001, 4, 1, 2)
        + struct.pack("<HHII", 0xB002, 7, 32, 50)
        + struct.pack("<I", 0)
    )
    entries = struct.pack("<IIIHH", 0x030000, len(jpeg), 0, 0, 0) + struct.pack(
        "<IIIHH", 0x020002, len(jpeg), len(jpeg), 0, 0
    )
    at = segments(jpeg)[0][2]  # behind JFIF

    def insert(*pieces: bytes) -> bytes:
        return jpeg[:at] + b"".join(pieces) + jpeg[at:]

    return {
        "exif": insert(_segment(0xE1, exif.tobytes())),
        "photoshop": insert(_segment(0xED, b"Photoshop 3.0\0" + resources)),
        "profile": insert(_segment(0xE2, b"ICC_PROFILE\0\1\1" + bytes(range(200)))),
        "comment": insert(_segment(0xFE, b"a comment")),
        "adobe": insert(_segment(0xEE, b"Adobe\0\x64\0\0\0\0\1")),
        "mpo": insert(_segment(0xE2, mpf + entries)) + jpeg,
        "padded": insert(b"\xff"),
        "tail": jpeg + b"some bytes behind the end",
    }


def _made_jpegs() -> dict[str, bytes]:
    photo, large = _photo(131, 94, 1), _photo(400, 300, 2, 40.0)
    made = {f"made {name}": data for name, data in _with_metadata(_saved(photo, "JPEG", quality=88)).items()}
    for sampling in ("4:2:0", "4:2:2", "4:4:4"):
        made[f"made {sampling}"] = _saved(photo, "JPEG", quality=92, subsampling=sampling, optimize=True)
        made[f"made {sampling} progressive"] = _saved(
            photo, "JPEG", quality=92, subsampling=sampling, progressive=True
        )
    made["made restarts"] = _saved(photo, "JPEG", quality=92, restart_marker_blocks=4)
    made["made grey progressive"] = _saved(photo.convert("L"), "JPEG", progressive=True)
    made["made cmyk progressive"] = _saved(photo.convert("CMYK"), "JPEG", progressive=True)
    made["made large"] = _saved(large, "JPEG", quality=95, subsampling="4:2:0")
    made["made large progressive"] = _saved(large, "JPEG", quality=95, progressive=True)
    made["made large cmyk"] = _saved(large.convert("CMYK"), "JPEG", quality=90)
    for sampling in ("4:2:0", "4:4:4"):  # in segments, as `millrace pack` writes them
        made[f"made {sampling} packed"] = _core.transcode_jpeg(
            made[f"made {sampling}"], segment_pixels=64, own_tables=False
        )
    for kept in (1, 2, 4, 6, 9):
        made[f"made unfinished {kept}"] = without_last_scans(made["made 4:2:0 progressive"], kept)
    return made


def sound_files() -> dict[str, dict[str, bytes]]:
    """format -> name -> bytes"""
    files = {
        kind: {path.stem: path.read_bytes() for path in sorted((DATA / kind).glob("*" + suffix))}
        for kind, suffix in SUFFIXES.items()
    }
    files["jpeg"].update(_made_jpegs())
    photo = _photo(83, 61, 3)
    files["png"].update({"made palette": _saved(photo.quantize(60), "PNG"), "made rgb": _saved(photo, "PNG")})
    files["webp"].update(
        {"made lossy": _saved(photo, "WEBP"), "made lossless": _saved(photo, "WEBP", lossless=True)}
    )
    return files


def _with_right_checksums(data: bytes) -> bytes:
    png, at = bytearray(data), 8
    while at + 12 <= len(png):
        end = at + 8 + int.from_bytes(png[at : at + 4], "big")
        if end + 4 > len(png):
            break
        png[end : end + 4] = zlib.crc32(png[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(png)


def _bit(random: np.random.Generator, data: bytearray, most: int) -> None:
    data[int(random.integers(min(most, len(data))))] ^= 1 << int(random.integers(8))


Mutation = Callable[[np.random.Generator, bytearray, list[bytes]], bytes]


def _one_bit(random: np.random.Generator, data: bytearray, _: list[bytes]) -> bytes:
    _bit(random, data, len(data))
    return bytes(data)


def _some_bits(random: np.random.Generator, data: bytearray, _: list[bytes]) -> bytes:
    for _bits in range(int(random.integers(2, 9))):
        _bit(random, data, len(data))
    return bytes(data)


def _header_bits(random: np.random.Generator, data: bytearray, _: list[bytes]) -> bytes:
    for _bits in range(int(random.integers(1, 4))):
        _bit(random, data, 700)
    return bytes(data)


def _cut(random: np.random.Generator, data: bytearray, _: list[bytes]) -> bytes:
    near = random.integers(3) == 0  # a third lose a few bytes
    return bytes(
        data[: len(data) - int(random.integers(1, 40))] if near else data[: int(random.integers(len(data)))]
    )


def _header_of_another(random: np.random.Generator, data: bytearray, others: list[bytes]) -> bytes:
    other = others[int(random.integers(len(others)))]
    head = int(random.integers(1, min(900, len(other))))
    return other[:head] + bytes(
        data[head if random.integers(2) else int(random.integers(min(900, len(data)))) :]
    )


def _lost_piece(random: np.random.Generator, data: bytearray, _: list[bytes]) -> bytes:
    at = int(random.integers(len(data)))
    del data[at : at + int(random.integers(1, 200))]
    return bytes(data)


def _double_piece(random: np.random.Generator, data: bytearray, _: list[bytes]) -> bytes:
    at, to = (int(random.integers(len(data))) for _place in range(2))
    return bytes(data[:to] + data[at : at + int(random.integers(1, 200))] + data[to:])


def _byte_run(random: np.random.Generator, data: bytearray, _: list[bytes]) -> bytes:
    at, length = int(random.integers(len(data))), int(random.integers(1, 24))
    data[at : at + length] = bytes([int(random.choice([0, 0xFF, int(random.integers(256))]))]) * length
    return bytes(data)


def _marker(random: np.random.Generator, data: bytearray, _: list[bytes]) -> bytes:
    at = int(random.integers(len(data)))
    data[at : at + 2] = bytes([0xFF, int(random.integers(1, 256))])
    return bytes(data)


MUTATIONS: dict[str, Mutation] = {
    "bit": _one_bit,
    "bits": _some_bits,
    "header bits": _header_bits,
    "cut": _cut,
    "spliced header": _header_of_another,
    "lost piece": _lost_piece,
    "double piece": _double_piece,
    "run": _byte_run,
    "marker": _marker,
}


def _claims_too_much(data: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as image:
                return image.width * image.height > MOST_PIXELS
    except Exception:
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        return b"IHDR" in data[:32] and width * height > MOST_PIXELS


def mutants(count: int, seed: int) -> Iterator[Mutant]:
    """`count` of them; six of ten are JPEGs, and one of twenty is a sound file as it is."""
    random = np.random.default_rng(seed)
    files = sound_files()
    kinds = ["jpeg"] * 6 + ["png"] * 2 + ["webp"] * 2
    for _number in range(count):
        kind = kinds[int(random.integers(len(kinds)))]
        names = list(files[kind])
        while True:
            name = names[int(random.integers(len(names)))]
            if random.integers(20) == 0:
                yield Mutant(kind, name, "none", files[kind][name])
                break
            mutation = list(MUTATIONS)[int(random.integers(len(MUTATIONS)))]
            data = MUTATIONS[mutation](random, bytearray(files[kind][name]), list(files[kind].values()))
            if kind == "png" and random.integers(2):
                data = _with_right_checksums(data)
            if not _claims_too_much(data):
                yield Mutant(kind, name, mutation, data)
                break
