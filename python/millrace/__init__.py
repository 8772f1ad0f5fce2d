"""millrace: torch's DataLoader with a native engine under it.

>>> from millrace import DataLoader            # instead of torch.utils.data
"""

from torch.utils.data import default_collate, default_convert, get_worker_info

from . import datasets, samplers, transforms
from ._core import cpu_budget, empty_cache, nvtx
from .benching import bench
from .dataloader import DataLoader
from .errors import CorruptDataError, UnavailableError
from .estimate import Estimate, estimate
from .frozen_list import FrozenList, frozen
from .installation import install, uninstall
from .pad import Pad
from .prefetch import DevicePrefetcher
from .rank_report import rank_report
from .state import gather_state, merge_states

__version__ = "0.1.0"

__all__ = [
    "CorruptDataError",
    "DataLoader",
    "DevicePrefetcher",
    "Estimate",
    "FrozenList",
    "Pad",
    "UnavailableError",
    "bench",
    "cpu_budget",
    "datasets",
    "default_collate",
    "default_convert",
    "empty_cache",
    "estimate",
    "frozen",
    "gather_state",
    "get_worker_info",
    "install",
    "merge_states",
    "nvtx",
    "rank_report",
    "samplers",
    "transforms",
    "uninstall",
]
