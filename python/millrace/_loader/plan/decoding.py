"""Decides where pictures are decoded, with the reason if not on the GPU; GpuDecoder decodes with nvJPEG."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from ... import _core
from ...errors import UnavailableError
from ..engine import EngineSpec
from ..engines.native import DeviceImageSpec, ImageSpec


@cache
def missing_reason(device: torch.device) -> str:
    """Why JPEGs cannot be decoded on the device from here; "" when they can. Opens nvJPEG once."""
    if device.type != "cuda":
        return f"pictures are decoded on CUDA devices, not on {device}"
    try:
        GpuDecoder(device)
    except UnavailableError as error:
        return str(error)
    return ""


def place(device: torch.device) -> tuple[Any, Any]:
    """(the device, the nvJPEG library), as `_core.DeviceLoader` takes them."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return f"cuda:{index}", nvjpeg_library()


def decoded_on_device(loader: Any, spec: EngineSpec | None) -> tuple[EngineSpec | None, str]:
    """(the loader's spec, for decoding on the device if possible; "", or the reason why it is not)"""
    if not isinstance(spec, ImageSpec):
        return (
            spec,
            "only image folders that the native engine reads are decoded on a GPU, and this loader is none",
        )
    if spec.python_collate is not None:
        return (
            spec,
            (
                "collate_fn or target_transform is Python code, for batches in the CPU's memory; leave it"
                " out, or apply it to the finished batch"
            ),
        )
    if spec.drawn_size is not None:
        return spec, "a size per batch (RandomBatchSize) is made on the CPU; give the transforms one size"
    if spec.views is not None and spec.views.stacked:
        return spec, "views that are stacked are made on the CPU; return a list of them"
    reasons = filter(None, map(_core.why_not_fused, spec.pipelines))
    if reason := next(reasons, "") or missing_reason(loader._millrace_device):
        return spec, reason
    parts = {field.name: getattr(spec, field.name) for field in fields(ImageSpec)}
    parts |= {"place": partial(place, loader._millrace_device), "balances": loader.decode == "auto"}
    return DeviceImageSpec(**parts, ahead=loader.prefetch_to_device), ""


Region = tuple[int, int, int, int]
WHOLE: Region = (0, 0, 0, 0)


def nvjpeg_library(search_path: Sequence[str] | None = None) -> str:
    """The newest libnvjpeg of the PyPI packages nvidia-nvjpeg and nvidia-nvjpeg-cu12; "" if there is none
    (the system's loader may find a toolkit's). `search_path`: folders to look in; None: sys.path.
    """
    found: list[Path] = []
    for folder in sys.path if search_path is None else search_path:
        found += Path(folder or ".").glob("nvidia/*/lib/libnvjpeg.so.*")
    newest = max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], default=None)
    return "" if newest is None else str(newest)


class GpuDecoder:
    """Decodes JPEG files on a CUDA device, with its hardware engines if it has some. One thread at a time.

    `library`: path of libnvjpeg.so.*; None looks for the PyPI package, then for the toolkit's.
    `memory_ceiling_bytes`: device memory for the pictures of one call and nvJPEG's own buffers; a call
    returns that reason for pictures beyond it. Raises `millrace.UnavailableError`, with the remedy, if there
    is no device, no driver or no nvJPEG.
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
        """For each file, a uint8 tensor (h, w, 3) on the device, or the reason why nvJPEG cannot decode it (a
        str): decode such a file on the CPU.

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
