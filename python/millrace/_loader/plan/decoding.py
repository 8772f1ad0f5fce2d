"""Where pictures are decoded: decode="cpu", "gpu" or "auto", and why not on the GPU."""

from __future__ import annotations

from dataclasses import fields
from functools import cache, partial
from typing import Any

import torch

from ... import _core
from ...errors import UnavailableError
from ..engine import EngineSpec
from ..engines.images import DeviceImageSpec, ImageSpec
from .gpu_decoder import GpuDecoder, nvjpeg_library

DECODE = ("cpu", "gpu", "auto")


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
    """The device and the decoder by which `_core.DeviceLoader` knows them."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return f"cuda:{index}", nvjpeg_library()


def decoded_on_device(loader: Any, spec: EngineSpec | None) -> tuple[EngineSpec | None, str]:
    """(the loader's spec, with the device's part in it where it can have one; "" then, else the reason why it
    has none)
    """
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
    if spec.views is not None:
        return spec, "several views of a picture are made on the CPU only"
    reason = _core.why_not_fused(spec.pipelines[0]) or missing_reason(loader._millrace_device)
    if reason:
        return spec, reason
    parts = {field.name: getattr(spec, field.name) for field in fields(ImageSpec)}
    balances = loader.decode == "auto"
    return (
        DeviceImageSpec(
            **parts,
            place=partial(place, loader._millrace_device),
            balances=balances,
            ahead=loader.prefetch_to_device,
        ),
        "",
    )
