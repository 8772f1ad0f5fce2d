"""millrace: torch's DataLoader with a native engine under it.

>>> from millrace import DataLoader            # instead of torch.utils.data
"""

from torch.utils.data import default_collate, default_convert, get_worker_info

from . import datasets, samplers, transforms
from ._core import cpu_budget, empty_cache, nvtx
from ._loader.states import gather_state, merge_states
from ._tools.bench import bench
from ._tools.drift import DriftAlarm, DriftError, DriftOptions, DriftProfile, DriftWarning, watch
from ._tools.estimate import Estimate, estimate
from ._tools.history.recorder import BatchHistory
from ._tools.history.replaying import replay
from ._tools.history.signals import dump_on_signal
from ._tools.rank_report import rank_report
from .collate import Pad
from .dataloader import DataLoader
from .errors import CorruptDataError, StateError, UnavailableError
from .frozen_list import FrozenList, frozen
from .installation import install, uninstall
from .prefetch import DevicePrefetcher

__version__ = "0.1.0"

__all__ = [
    "CorruptDataError",
    "DataLoader",
    "DevicePrefetcher",
    "DriftAlarm",
    "DriftError",
    "DriftWarning",
    "Estimate",
    "DriftOptions",
    "DriftProfile",
    "BatchHistory",
    "FrozenList",
    "Pad",
    "StateError",
    "UnavailableError",
    "bench",
    "cpu_budget",
    "datasets",
    "default_collate",
    "default_convert",
    "dump_on_signal",
    "empty_cache",
    "estimate",
    "frozen",
    "gather_state",
    "get_worker_info",
    "install",
    "merge_states",
    "nvtx",
    "rank_report",
    "replay",
    "samplers",
    "transforms",
    "uninstall",
    "watch",
]
