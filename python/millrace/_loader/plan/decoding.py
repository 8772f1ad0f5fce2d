"""Where pictures are decoded: decode="cpu", "gpu" or "auto", and why not on the GPU."""

from __future__ import annotations

from dataclasses import fields
from functools import cache, partial
from typing import Any

import torch

from ... import _core
from ...errors import UnavailableError
from .gpu_decoder import GpuDecoder, nvjpeg_library
from .jobs import DeviceImageJob, ImageJob, Job

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


def decoded_on_device(loader: Any, job: Job | None) -> tuple[Job | None, str]:
    """(the loader's job, with the device's part in it where it can have one; "" then, else the reason why it
    has none)
    """
    if not isinstance(job, ImageJob):
        return (
            job,
            "only image folders that the native engine reads are decoded on a GPU, and this loader is none",
        )
    if job.python_collate is not None:
        return (
            job,
            (
                "collate_fn is Python code, for batches in the CPU's memory; leave it out, or apply it to the"
                " finished batch"
            ),
        )
    reason = _core.why_not_fused(job.pipeline) or missing_reason(loader._millrace_device)
    if reason:
        return job, reason
    parts = {field.name: getattr(job, field.name) for field in fields(ImageJob)}
    balances = loader.decode == "auto"
    return (
        DeviceImageJob(
            **parts,
            place=partial(place, loader._millrace_device),
            balances=balances,
            ahead=loader.prefetch_to_device,
        ),
        "",
    )
