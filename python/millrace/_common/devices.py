"""Which device batches go to, and the host's memory that they are made in for it."""

from __future__ import annotations

from typing import Any, Union

import torch

from .. import _core
from ..errors import UnavailableError

Device = Union[str, int, torch.device, None]


def locks_for(loader: Any) -> int | None:
    """The CUDA device that a loader's batches go to from the memory that its workers fill; None: none, or
    none here.
    """
    device: torch.device | None = loader._millrace_device
    if device is None or device.type != "cuda" or not torch.cuda.is_available():
        return None
    return torch.cuda.current_device() if device.index is None else device.index


def numa_node(device: int) -> int:
    """The NUMA node that a CUDA device hangs on; -1: not known, or the only one."""
    properties: Any = torch.cuda.get_device_properties(device)
    try:
        domain, bus, slot = properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id
    except AttributeError:  # not every build of torch tells
        return -1
    return _core.numa_node_of(f"{domain:04x}:{bus:02x}:{slot:02x}.0")


def device_of(device: Device) -> torch.device:
    """The device with its index, if it is one that batches can be copied to from here.

    UnavailableError: torch has no support for it, or there is none, with the reason. ValueError: there are
        fewer.
    """
    if device is None:
        device = torch.accelerator.current_accelerator() or "cpu"
    where = torch.device(device)
    if where.type == "cpu":
        return where
    if where.type == "cuda":
        if torch.version.cuda is None and torch.version.hip is None:
            raise UnavailableError(
                f'device="{where}": this torch ({torch.__version__}) was built without CUDA; install a CUDA'
                ' build of it, or use device="cpu", which passes batches on as they are'
            )
        if torch.cuda._is_in_bad_fork():
            raise UnavailableError(
                f'device="{where}": CUDA was used before this process was forked, and cannot be used after'
                ' it; start the process by spawn (torch.multiprocessing.set_start_method("spawn"))'
            )
        try:
            torch.cuda.init()
        except Exception as error:
            raise UnavailableError(f'device="{where}" cannot be used: {error}') from error
    try:
        module = torch.get_device_module(where)
        count = module.device_count()
    except Exception as error:
        raise UnavailableError(f'device="{where}" cannot be used: {error}') from error
    if count == 0:
        raise UnavailableError(
            f'device="{where}": this torch ({torch.__version__}) finds no {where.type} device here'
        )
    if (where.index or 0) >= count:
        raise ValueError(f'device="{where}": there are {count} {where.type} devices here, numbered from 0')
    return where if where.index is not None else torch.device(where.type, module.current_device())
