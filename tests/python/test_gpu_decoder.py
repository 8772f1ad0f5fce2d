"""GpuDecoder where there is no GPU: the library is found, what is missing is said. tests/cuda has the
rest.
"""

import millrace
import pytest
from millrace import _core
from millrace._loader.plan.decoding import GpuDecoder, nvjpeg_library


def test_the_newest_library_is_found(tmp_path):
    assert nvjpeg_library([str(tmp_path)]) == ""
    for name in (
        "nvidia/nvjpeg/lib/libnvjpeg.so.12",
        "nvidia/cu13/lib/libnvjpeg.so.13",
        "nvidia/cu13/lib/libnvjpeg.so.9",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert nvjpeg_library(["/nowhere", str(tmp_path)]) == str(tmp_path / "nvidia/cu13/lib/libnvjpeg.so.13")


def test_what_is_missing_is_said():
    with pytest.raises(ValueError, match="not on cpu"):
        GpuDecoder("cpu")
    with pytest.raises(ValueError, match="positive"):
        GpuDecoder(memory_ceiling_bytes=0)
    if not _core.cuda_missing_reason():
        pytest.skip("there is a CUDA device")
    with pytest.raises(millrace.UnavailableError, match="CPU tensors"):
        GpuDecoder()
