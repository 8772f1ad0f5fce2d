"""Where the record batches of an Arrow file lie: the IPC file format (and Feather, version 2) by its footer,
streams message by message.

The format:
https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc; its
metadata are flatbuffers, of which a few fields are needed: https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from millrace.errors import corrupt_data

_MAGIC = b"ARROW1"
_HEADER_BYTES = 4096  # read at once; metadata of a batch of fewer than about a hundred columns fit
_MOST_METADATA = 1 << 30
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3


@dataclass(frozen=True)
class Message:
    """An encapsulated message: `size` bytes from `offset` on, its body included. rows: of a record batch."""

    offset: int
    size: int
    kind: int
    rows: int = 0
    dictionary: int = -1
    is_delta: bool = False


@dataclass(frozen=True)
class IpcIndex:
    """schema: the bytes of the schema's message. dictionaries[i]: those that records[i] needs, in order."""

    schema: bytes
    records: list[Message]
    dictionaries: list[tuple[Message, ...]]


def read_index(source: Any) -> IpcIndex:
    """Reads the metadata of all messages of a ByteSource, and no body. CorruptDataError for what is no Arrow
    file, or not whole.
    """
    try:
        head = source.read_at(0, min(8, source.size))
        if head[:6] == _MAGIC:
            return _of_file(source)
        if head[:4] == b"FEA1":
            raise corrupt_data(
                source.name, "this is Feather's version 1; write it anew with pyarrow.feather.write_feather()"
            )
        return _of_stream(source)
    except (struct.error, IndexError, OverflowError):
        raise corrupt_data(
            source.name, "its metadata are damaged, or this is neither an Arrow IPC file nor a stream"
        ) from None


def _of_file(source: Any) -> IpcIndex:
    size = source.size
    tail = source.read_at(max(0, size - 10), min(10, size))
    if tail[4:] != _MAGIC or size < 20:
        raise corrupt_data(source.name, "the file does not end as an Arrow file does; it is not whole")
    length = struct.unpack("<i", tail[:4])[0]
    if not 0 < length <= size - 18:
        raise corrupt_data(source.name, f"its footer has an impossible size, {length} bytes")
    footer = _Flat.root(source.read_at(size - 10 - length, length))
    schema = _message(source, 8)
    dictionaries = tuple(_message(source, offset) for offset in footer.blocks(2))
    records = [_message(source, offset) for offset in footer.blocks(3)]
    for message, kind in (
        (schema, _SCHEMA),
        *((m, _DICTIONARY) for m in dictionaries),
        *((m, _RECORDS) for m in records),
    ):
        if message is None or message.kind != kind:
            raise corrupt_data(source.name, "its footer names a place where there is no such message")
    return IpcIndex(source.read_at(schema.offset, schema.size), records, [dictionaries] * len(records))


def _of_stream(source: Any) -> IpcIndex:
    schema = _message(source, 0)
    if schema is None or schema.kind != _SCHEMA:
        raise corrupt_data(source.name, "this is neither an Arrow IPC file nor a stream")
    records: list[Message] = []
    needed: list[tuple[Message, ...]] = []
    known: tuple[Message, ...] = ()
    offset = schema.offset + schema.size
    while offset < source.size and (message := _message(source, offset)) is not None:
        offset += message.size
        if message.kind == _RECORDS:
            records.append(message)
            needed.append(known)
        elif message.kind == _DICTIONARY:
            before = (
                known if message.is_delta else tuple(m for m in known if m.dictionary != message.dictionary)
            )
            known = (*before, message)
    return IpcIndex(source.read_at(0, schema.size), records, needed)


def _message(source: Any, offset: int) -> Message | None:
    """The message there; None at the end of a stream."""
    left = source.size - offset
    if left < 4 or offset < 0:
        raise corrupt_data(source.name, f"it ends in the middle of a message, at byte {source.size}")
    data = source.read_at(offset, min(_HEADER_BYTES, left))
    prefix, length = 8, struct.unpack_from("<i", data)[0]
    if length == -1:
        length = struct.unpack_from("<i", data, 4)[0]
    else:
        prefix = 4  # as written before version 0.15
    if length == 0:
        return None
    if not 0 < length <= min(_MOST_METADATA, left - prefix):
        raise corrupt_data(source.name, f"there is no Arrow message at byte {offset}, or it is not whole")
    if prefix + length > len(data):
        data = source.read_at(offset, prefix + length)
    message = _Flat.root(data[prefix : prefix + length])
    kind, header, body = message.number(1, "<B"), message.table(2), message.number(3, "<q")
    if body < 0 or body > left - prefix - length:
        raise corrupt_data(source.name, f"it ends in the middle of the message at byte {offset}")
    size = prefix + length + body
    if kind == _RECORDS:
        rows = header.number(0, "<q")
        if rows < 0:
            raise corrupt_data(
                source.name, f"the record batch at byte {offset} has an impossible length, {rows}"
            )
        return Message(offset, size, kind, rows)
    if kind == _DICTIONARY:
        return Message(offset, size, kind, 0, header.number(0, "<q"), bool(header.number(2, "<B")))
    return Message(offset, size, kind)


class _Flat:
    """A table of a flatbuffer. struct.error for places outside."""

    def __init__(self, data: bytes, at: int) -> None:
        if at < 0:
            raise struct.error
        self._data, self._at = data, at

    @classmethod
    def root(cls, data: bytes) -> _Flat:
        return cls(data, struct.unpack_from("<I", data)[0])

    def _place(self, field: int) -> int:
        """Where a field lies; 0: it is not there."""
        names = self._at - struct.unpack_from("<i", self._data, self._at)[0]
        if names < 0:
            raise struct.error
        if 4 + 2 * field >= struct.unpack_from("<H", self._data, names)[0]:
            return 0
        inside = struct.unpack_from("<H", self._data, names + 4 + 2 * field)[0]
        return self._at + inside if inside else 0

    def number(self, field: int, code: str) -> int:
        place = self._place(field)
        return struct.unpack_from(code, self._data, place)[0] if place else 0

    def table(self, field: int) -> _Flat:
        place = self._place(field)
        if not place:
            raise struct.error
        return _Flat(self._data, place + struct.unpack_from("<I", self._data, place)[0])

    def blocks(self, field: int) -> list[int]:
        """Offsets of a footer's blocks: structs of 24 bytes that begin with it."""
        place = self._place(field)
        if not place:
            return []
        place += struct.unpack_from("<I", self._data, place)[0]
        count = struct.unpack_from("<I", self._data, place)[0]
        if count > len(self._data) // 24:
            raise struct.error
        return [struct.unpack_from("<q", self._data, place + 4 + 24 * i)[0] for i in range(count)]
