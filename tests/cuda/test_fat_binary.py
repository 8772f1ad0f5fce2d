"""What the built module has for which GPUs, read from its fat binaries; needs no GPU."""

import struct

import pytest
from millrace import _core

pytestmark = pytest.mark.without_gpu
MAGIC = struct.pack("<I", 0xBA55ED50)
PTX, MACHINE_CODE = 1, 2


def entries(data: bytes):
    """(kind, architecture) of everything in the fat binaries of a library."""
    at = data.find(MAGIC)
    while at >= 0:
        header_bytes, size = struct.unpack_from("<HQ", data, at + 6)
        entry, end = at + header_bytes, at + header_bytes + size
        while header_bytes == 16 and entry < end <= len(data):
            kind, _, entry_header, entry_bytes = struct.unpack_from("<HHIQ", data, entry)
            yield kind, struct.unpack_from("<I", data, entry + 28)[0]
            entry += entry_header + entry_bytes
        at = data.find(MAGIC, at + 4)


def test_machine_code_for_data_centres_and_ptx_for_all_others():
    if "built without CUDA" in _core.cuda_missing_reason():
        pytest.skip("this millrace was built without CUDA")
    with open(_core.__file__, "rb") as library:
        found = set(entries(library.read()))
    assert {(MACHINE_CODE, 80), (MACHINE_CODE, 90), (MACHINE_CODE, 100), (PTX, 80)} <= found, sorted(found)
