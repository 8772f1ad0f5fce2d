"""PNG files of every kind that the format has, and some that it has not: an encoder that takes rows as they
are stored.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # of each colour type
KINDS = [(color, depth) for color, depths in DEPTHS.items() for depth in depths]
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name: bytes, data: bytes = b"", crc: int | None = None) -> bytes:
    return (
        struct.pack(">I", len(data))
        + name
        + data
        + struct.pack(">I", zlib.crc32(name + data) if crc is None else crc)
    )


def header(width: int, height: int, depth: int, color: int, interlaced: bool = False) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced))


def packed(samples: np.ndarray, depth: int) -> np.ndarray:
    """(rows, bytes) of (rows, samples per row)."""
    if depth == 16:
        return samples.astype(">u2").view(np.uint8).reshape(len(samples), -1)
    if depth == 8:
        return samples.astype(np.uint8)
    bits = (samples[..., None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.reshape(len(samples), -1).astype(np.uint8), axis=1)


def filtered(
    rows: np.ndarray, pixel: int, random: np.random.Generator, filters: Sequence[int] = range(5)
) -> bytes:
    """Each row with a filter by chance and that filter's number in front."""
    result, above = [], np.zeros(rows.shape[1], np.int32)
    for row in rows.astype(np.int32):
        left, corner = (
            np.concatenate([np.zeros(pixel, np.int32), line])[: len(line)] for line in (row, above)
        )
        guess = left + above - corner
        a, b, c = abs(guess - left), abs(guess - above), abs(guess - corner)
        nearest = np.where((a <= b) & (a <= c), left, np.where(b <= c, above, corner))
        kind = int(random.choice(list(filters)))
        predicted = [0 * row, left, above, (left + above) // 2, nearest][kind]
        result.append(bytes([kind]) + ((row - predicted) & 255).astype(np.uint8).tobytes())
        above = row
    return b"".join(result)


def raw_pixels(samples: np.ndarray, depth: int, interlaced: bool, random: np.random.Generator) -> bytes:
    """What is deflated of (height, width, channels)."""
    pixel = max(1, depth * samples.shape[2] // 8)
    parts = (
        [samples[top::down, left::across] for left, top, across, down in PASSES] if interlaced else [samples]
    )
    return b"".join(
        filtered(packed(part.reshape(len(part), -1), depth), pixel, random) for part in parts if part.size
    )


def png(
    samples: np.ndarray,
    depth: int,
    color: int,
    random: np.random.Generator,
    *,
    interlaced: bool = False,
    before: bytes = b"",
    between: bytes = b"",
    behind: bytes = b"",
    pieces: int = 1,
    level: int = 6,
    palette: bytes | None = None,
) -> bytes:
    """A PNG of `samples` (height, width, channels): chunks `before` the palette, `between` it and the pixels,
    and `behind` these.
    """
    height, width, _ = samples.shape
    if color == 3 and palette is None:
        palette = random.integers(0, 256, 3 << depth, dtype=np.uint8).tobytes()
    stream = zlib.compress(raw_pixels(samples, depth, interlaced, random), level)
    cuts = [0, *sorted(int(cut) for cut in random.integers(0, len(stream) + 1, pieces - 1)), len(stream)]
    return b"".join(
        [
            SIGNATURE,
            header(width, height, depth, color, interlaced),
            before,
            chunk(b"PLTE", palette) if palette else b"",
            between,
            *(chunk(b"IDAT", stream[a:b]) for a, b in zip(cuts, cuts[1:])),
            behind,
            chunk(b"IEND"),
        ]
    )


def samples(random: np.random.Generator, width: int, height: int, depth: int, color: int) -> np.ndarray:
    """Noise in its lower half, slopes above it, so that every filter and every branch of its predictor
    counts.
    """
    shape = (height, width, CHANNELS[color])
    noise = random.integers(0, 1 << depth, shape)
    slope = (
        np.arange(width)[None, :, None] * 3 + np.arange(height)[:, None, None] * 5 + np.arange(shape[2]) * 11
    ) % (1 << depth)
    return np.where(np.arange(height)[:, None, None] < height // 2, slope, noise)


def transparency(random: np.random.Generator, depth: int, color: int) -> bytes:
    """A tRNS chunk such as that colour type has; none for those with alpha."""
    if color in (4, 6):
        return b""
    if color == 3:
        return chunk(b"tRNS", random.integers(0, 256, 1 << depth, dtype=np.uint8).tobytes())
    return chunk(
        b"tRNS", struct.pack(f">{CHANNELS[color]}H", *random.integers(0, 1 << depth, CHANNELS[color]))
    )


def exif(orientation: int, kind: int = 3) -> bytes:
    """A TIFF structure with nothing but an orientation."""
    return b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHH", 0x112, kind, 1, orientation, 0) + b"\0\0\0\0"
