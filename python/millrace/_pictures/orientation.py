"""The orientation in a JPEG's EXIF, where all readers see the same one."""

from __future__ import annotations

import struct

_EXIF, _XMP = b"Exif\0\0", b"http://ns.adobe.com/"
_ORIENTATION, _SHORT = 0x112, 3
_BYTES = (0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8)  # of one value of each of TIFF's types
# Tags with values that OpenCV reads, whatever type an entry states; it gives up if the values lie elsewhere.
# With these types, and at least so many values, they lie where they should.
_READ = {
    0x10E: (2, 1),
    0x10F: (2, 1),
    0x110: (2, 1),
    0x11A: (5, 1),
    0x11B: (5, 1),
    0x128: (3, 1),
    0x131: (2, 1),
    0x132: (2, 1),
    0x13E: (5, 2),
    0x13F: (5, 6),
    0x211: (5, 3),
    0x213: (3, 1),
    0x214: (5, 6),
    0x8298: (2, 1),
    0x8769: (4, 1),
}


def orientation_of(jpeg: bytes) -> int | None:
    """1 to 8, 1 if there is none; None where readers may differ: several EXIFs, one that is not the first
    APP1 segment, and damaged or odd ones.
    """
    at, found, others = 2, 1, False
    while at + 4 <= len(jpeg) and jpeg[at] == 0xFF:
        marker, length = jpeg[at + 1], jpeg[at + 2] << 8 | jpeg[at + 3]
        if marker == 0xDA:
            return found
        if marker == 0xE1:
            begin = at + 4
            if jpeg.startswith(_EXIF, begin) and not others:
                of_tiff = _of_tiff(jpeg[begin + len(_EXIF) : at + 2 + length])
                if of_tiff is None:
                    return None
                found = of_tiff
            elif not jpeg.startswith(_XMP, begin):
                return None
            others = True
        if length < 2:
            break
        at += 2 + length
    return None


def _of_tiff(tiff: bytes) -> int | None:
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None or len(tiff) < 8:
        return None
    begin = struct.unpack_from(order + "I", tiff, 4)[0]
    if begin < 8 or begin + 2 > len(tiff):
        return None
    entries = struct.unpack_from(order + "H", tiff, begin)[0]
    end = begin + 2 + 12 * entries
    if end + 4 > len(tiff):
        return None
    found, before = 1, -1
    for at in range(begin + 2, end, 12):
        tag, kind, count, value = struct.unpack_from(order + "HHII", tiff, at)
        if tag <= before or not 1 <= kind <= 12:
            return None
        if (bytes_ := count * _BYTES[kind]) > 4 and value + bytes_ > len(tiff):
            return None
        if tag == _ORIENTATION:
            if kind != _SHORT or count != 1:
                return None
            found = struct.unpack_from(order + "H", tiff, at + 8)[0]
        elif tag in _READ and (kind != _READ[tag][0] or count < _READ[tag][1]):
            return None
        before = tag
    return found if 1 <= found <= 8 else None
