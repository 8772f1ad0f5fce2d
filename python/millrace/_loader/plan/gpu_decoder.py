"""GpuDecoder: JPEG files to pictures on a CUDA device by nvJPEG, and where its library is."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ... import _core

Region = tuple[int, int, int, int]
WHOLE: Region = (0, 0, 0, 0)


def nvjpeg_library(search_path: Sequence[str] | None = None) -> str:
    """The newest libnvjpeg of the PyPI packages nvidia-nvjpeg and nvidia-nvjpeg-cu12; "" when there is none
    (a toolkit's may be found by the system's loader). `search_path`: folders to look in; None: sys.path.
    """
    found: list[Path] = []
    for folder in sys.path if search_path is None else search_path:
        found += Path(folder or ".").glob("nvidia/*/lib/libnvjpeg.so.*")
    newest = max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], default=None)
    return "" if newest is None else str(newest)


class GpuDecoder:
    """Decodes JPEG files on a CUDA device, on its hardware engines where it has some. One thread at a time.

    `library`: path of libnvjpeg.so.*; None looks for the PyPI package, then for the toolkit's.
    `memory_ceiling_bytes`: device memory for the pictures of one call and nvJPEG's own buffers; what is
    beyond it comes back with that reason. Raises `millrace.UnavailableError` with the remedy when there is no
    device, no driver or no nvJPEG.
    """

    def __init__(
        self,
        device: str | int | torch.device = "cuda",
        library: str | None = None,
        memory_ceiling_bytes: int = 2 << 30,
    ) -> None:
        chosen = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if chosen.type != "cuda":
            raise ValueError(f"GpuDecoder decodes on a CUDA device, not on {chosen}")
        if memory_ceiling_bytes <= 0:
            raise ValueError(f"memory_ceiling_bytes must be positive, not {memory_ceiling_bytes}")
        if reason := _core.cuda_missing_reason():  # before torch's own, which names no remedy
            raise _core.UnavailableError(reason)
        self.device = torch.device(
            "cuda", torch.cuda.current_device() if chosen.index is None else chosen.index
        )
        self._native = _core.GpuDecoder(
            self.device.index, nvjpeg_library() if library is None else library, memory_ceiling_bytes
        )

    @property
    def has_hardware(self) -> bool:
        """Whether the device has hardware engines for JPEG."""
        return self._native.has_hardware

    def __call__(
        self, files: Sequence[bytes], regions: Sequence[Region | None] | None = None
    ) -> list[torch.Tensor | str]:
        """For each file a uint8 tensor (h, w, 3) on the device, or the reason why nvJPEG cannot decode it (a
        str): decode that on the CPU.

        `regions`: (left, top, width, height) of each picture as stored, or None for all of it. EXIF's
        orientation is not applied. The work is on torch's current stream of the device; the tensors are views
        of one block of memory.
        """
        wanted: Any = (
            [WHOLE] * len(files)
            if regions is None
            else [WHOLE if region is None else tuple(region) for region in regions]
        )
        block = torch.empty(self._native.plan(list(files), wanted), dtype=torch.uint8, device=self.device)
        results = self._native.decode(block.data_ptr(), torch.cuda.current_stream(self.device).cuda_stream)
        return [
            problem or block.as_strided((h, w, 3), (pitch, 3, 1), offset)
            for offset, w, h, pitch, problem in results
        ]
