"""WebPs put together by hand."""

import io
import struct

from PIL import Image


def riff(*chunks):
    body = b"WEBP" + b"".join(
        name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for name, data in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def u24(value):
    return struct.pack("<I", value)[:3]


def animation(canvas, corner, *files, alpha=False):
    """Frames of 100 ms at `corner` (even numbers) of the canvas; `files`: WebPs of one picture each."""

    def frame(data):
        size = Image.open(io.BytesIO(data)).size
        place = (
            b"".join(u24(n) for n in (corner[0] // 2, corner[1] // 2, size[0] - 1, size[1] - 1, 100)) + b"\0"
        )
        at = (
            data.index(b"ALPH")
            if b"ALPH" in data
            else 12
            if data[12:15] == b"VP8" and data[15:16] != b"X"
            else data.index(b"VP8", 16)
        )
        return b"ANMF", place + data[at:]

    extended = struct.pack("<I", 0x02 | (0x10 if alpha else 0)) + u24(canvas[0] - 1) + u24(canvas[1] - 1)
    return riff((b"VP8X", extended), (b"ANIM", b"\x10\x20\x30\xff\0\0"), *map(frame, files))
