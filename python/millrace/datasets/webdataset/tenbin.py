"""wds.tenbin: arrays as the bytes of a .ten field, and back.

A chunk is the mark "~TenBin~", its length (int64, little endian), and as many bytes, padded with zeros to a
multiple of 64. An array is two chunks: its description (type, as "f4" padded to 8 bytes; a name of up to 8
bytes; number of dimensions; each of them, int64) and its data.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Union

import numpy as np

from millrace._common.regular_files import open_regular

_MARK = b"~TenBin~"
_TYPES = frozenset("f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split())
_MOST_DIMENSIONS = 9

Infos = Union[None, bool, Sequence[str]]


def encode_header(array: np.ndarray, info: str = "") -> bytes:
    """The description of an array; `info` is its name."""
    kind, name = array.dtype.str[1:], info.encode("ascii")
    if kind not in _TYPES or array.ndim > _MOST_DIMENSIONS or len(name) > 8:
        raise ValueError(
            f"an array of type {array.dtype} with {array.ndim} dimensions, called {info!r}: .ten holds"
            f" integers and floats of up to 8 bytes, at most {_MOST_DIMENSIONS} dimensions, and names of at"
            " most 8 characters"
        )
    return struct.pack(f"<8s8sq{array.ndim}q", kind.encode(), name, array.ndim, *array.shape)


def decode_header(header: Any) -> tuple[tuple[int, ...], np.dtype, str]:
    """(shape, type, name) of a description."""
    kind, name, dimensions = struct.unpack_from("<8s8sq", header)
    text = kind.rstrip(b"\0").decode("ascii", "replace")
    if text not in _TYPES or not 0 <= dimensions <= (len(header) - 24) // 8:
        raise ValueError(f"it describes a tensor of type {text!r} and {dimensions} dimensions")
    return (
        struct.unpack_from(f"<{dimensions}q", header, 24),
        np.dtype("<" + text),
        name.rstrip(b"\0").decode("ascii", "replace"),
    )


def encode_list(arrays: Iterable[Any], infos: Sequence[str] | None = None) -> list[bytes]:
    """The chunks of arrays; `infos`: a name for each."""
    arrays = [np.asarray(array) for array in arrays]
    if infos is not None and len(infos) != len(arrays):
        raise ValueError(f"there are {len(arrays)} arrays and {len(infos)} names; give one for each")
    chunks = []
    for array, info in zip(arrays, infos or [""] * len(arrays)):
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        chunks += [encode_header(array, info), little.tobytes()]
    return chunks


def decode_list(chunks: Sequence[Any], infos: Infos = False) -> Any:
    """The arrays of chunks. `infos`: True gives (arrays, names); names: ValueError when the arrays are called
    otherwise.
    """
    arrays, names = [], []
    if len(chunks) % 2:
        raise ValueError("it ends between an array's description and its data")
    for header, values in zip(chunks[::2], chunks[1::2]):
        shape, dtype, name = decode_header(header)
        arrays.append(np.frombuffer(values, dtype).reshape(shape))
        names.append(name)
    if infos is True:
        return arrays, names
    if infos and list(infos) != names:
        raise ValueError(f"the arrays are called {names}, not {list(infos)}")
    return arrays


def encode_chunks(chunks: Iterable[Any]) -> bytes:
    """The bytes of all chunks, one after the other."""
    made = io.BytesIO()
    for chunk in chunks:
        write_chunk(made, chunk)
    return made.getvalue()


def decode_chunks(data: Any) -> list[memoryview]:
    """The chunks of `data`, as views of its memory. ValueError where no chunk begins."""
    chunks, position, view = [], 0, memoryview(data)
    while position < len(view):
        mark, length = struct.unpack_from("<8sq", view, position) if len(view) - position >= 16 else (b"", 0)
        position += 16
        if mark != _MARK or not 0 <= length <= len(view) - position:
            raise ValueError(f"no tensor begins at byte {position - 16}")
        chunks.append(view[position : position + length])
        position += (length + 63) // 64 * 64
    return chunks


def encode_buffer(arrays: list[Any], infos: Sequence[str] | None = None) -> bytes:
    """A list of arrays as the bytes of a field."""
    if not isinstance(arrays, list):
        raise ValueError(f"encode_buffer() takes a list of arrays, not {type(arrays).__name__}")
    return encode_chunks(encode_list(arrays, infos))


def decode_buffer(data: Any, infos: Infos = False) -> Any:
    """The arrays of a field, which share its memory; `infos` as in decode_list()."""
    return decode_list(decode_chunks(data), infos)


def write_chunk(stream: Any, chunk: Any) -> None:
    """One chunk into a file."""
    data = memoryview(chunk).cast("B")
    stream.write(_MARK + struct.pack("<q", len(data)))
    stream.write(data)
    stream.write(bytes(-len(data) % 64))


def read_chunk(stream: Any) -> bytes | None:
    """The next chunk of a file; None at its end."""
    head = stream.read(16)
    if not head:
        return None
    mark, length = struct.unpack("<8sq", head) if len(head) == 16 else (b"", 0)
    if mark != _MARK or length < 0:
        raise ValueError("no tensor begins here")
    padded = stream.read((length + 63) // 64 * 64)
    if len(padded) < length:
        raise ValueError(f"the file ends in a chunk of {length} bytes, of which there are {len(padded)}")
    return padded[:length]


def write(stream: Any, arrays: Iterable[Any], infos: Sequence[str] | None = None) -> None:
    """Arrays into a file."""
    for chunk in encode_list(arrays, infos):
        write_chunk(stream, chunk)


def read(stream: Any, n: int | None = None, infos: Infos = False) -> Any:
    """The next `n` arrays of a file; None: all."""
    chunks = list(islice(iter(lambda: read_chunk(stream), None), None if n is None else 2 * n))
    return decode_list(chunks, infos)


def save(path: Any, *arrays: Any, infos: Sequence[str] | None = None, nocheck: bool = False) -> None:
    """Writes arrays to a file. The file's name must end in .ten unless `nocheck`."""
    with open(_checked(path, nocheck), "wb") as stream:
        write(stream, arrays, infos)


def load(path: Any, infos: Infos = False, nocheck: bool = False) -> Any:
    """The arrays of a file. The file's name must end in .ten unless `nocheck`."""
    with open_regular(_checked(path, nocheck), "rb") as stream:
        return read(stream, infos=infos)


def _checked(path: Any, nocheck: bool) -> Any:
    if not nocheck and not os.fspath(path).endswith(".ten"):
        raise ValueError(f"{path}: the name of such a file ends in .ten; or give nocheck=True")
    return path
