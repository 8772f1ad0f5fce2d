"""The private names of torch that millrace cannot do without, and why. torch may change them in any version.

Code that needs one takes it from this file: a name imported below, or one of its attributes in NAMES. A torch
that lacks a name of NAMES is refused at import, with a message. tests/python/private_names.py has
attributes of torch's objects, and names of other libraries. A test checks both files.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import torch

TESTED = "2.13"

#: torch's private names, in full, each with its purpose.
NAMES = {
    # torch/utils/data/dataloader.py
    "torch.utils.data.dataloader._BaseDataLoaderIter": "frameworks test whether an iterator is of this class",
    "torch.utils.data.dataloader._BaseDataLoaderIter.__init__": "draws the base seed where torch draws it",
    "torch.utils.data.dataloader._BaseDataLoaderIter._reset": "draws the next epoch's base seed",
    "torch.utils.data.dataloader._SingleProcessDataLoaderIter": "the same test, of loaders without workers",
    "torch.utils.data.dataloader._MultiProcessingDataLoaderIter": "the same test, of loaders with workers",
    "torch.utils.data.dataloader._DatasetKind.Map": "torch's loader says by it how its dataset is read",
    "torch.utils.data.dataloader._DatasetKind.Iterable": "the same, of streams",
    "torch.utils.data.dataloader._DatasetKind.create_fetcher": "a replaced one is the user's, and is called",
    "torch.utils.data.dataloader._InfiniteConstantSampler": "torch gives streams a sampler of this class",
    "torch.utils.data.dataloader._sharding_worker_init_fn": "divides a DataPipe over workers as torch does",
    # torch/utils/data/_utils
    "torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL": "how long torch waits for workers to end",
    "torch.utils.data._utils.python_exit_status": "whether the interpreter ends, as torch's workers ask",
    "torch.utils.data._utils.collate.default_collate": "a loader's collate_fn is compared with it",
    "torch.utils.data._utils.collate.default_convert": "the same, of samples without batches",
    "torch.utils.data._utils.collate.__name__": "whether a function there is torch's own",
    "torch.utils.data._utils.collate.default_collate_fn_map": "types that users have added to it count",
    "torch.utils.data._utils.collate.collate": "default_collate with one function of the table exchanged",
    "torch.utils.data._utils.collate.collate_tensor_fn": "shows whether the table's entry is torch's own",
    "torch.utils.data._utils.collate.collate_numpy_array_fn": "the same",
    "torch.utils.data._utils.collate.collate_numpy_scalar_fn": "the same",
    "torch.utils.data._utils.collate.collate_float_fn": "the same",
    "torch.utils.data._utils.collate.collate_int_fn": "the same",
    "torch.utils.data._utils.fetch._MapDatasetFetcher": "hotspots: whatever its code calls is the user's",
    "torch.utils.data._utils.fetch._IterableDatasetFetcher": "the same",
    "torch.utils.data._utils.pin_memory.pin_memory": "pins what users' own types hold, by torch's rules",
    "torch.utils.data._utils.signal_handling._set_worker_pids": "a worker's death interrupts the loop",
    "torch.utils.data._utils.signal_handling._remove_worker_pids": "workers that end as they should do not",
    "torch.utils.data._utils.signal_handling._set_SIGCHLD_handler": "a worker's death is noticed at once",
    "torch.utils.data._utils.signal_handling._set_worker_signal_handlers": "a worker's SIGBUS has a message",
    "torch.utils.data._utils.worker._worker_info": "get_worker_info() reads it in worker processes",
    "torch.utils.data._utils.worker.WorkerInfo": "what get_worker_info() returns",
    "torch.utils.data._utils.worker._generate_state": "numpy's seed in a worker is torch's",
    # elsewhere
    "torch._C._disabled_torch_function_impl": "the stand-in for a batch sees operations once, as dispatched",
    "torch._C._error_if_any_worker_fails": "says which signal a worker died of",
    "torch._C._is_any_autocast_enabled": "what is made ahead does not belong to the consumer's autocast",
    "torch._C._len_torch_dispatch_stack": "C++: whether a mode wants to see each operation",
    "torch._C._len_torch_function_stack": "the same, of modes of functions; a default device is one",
    "torch._utils.ExceptionWrapper": "an error of a worker has torch's type and text",
    "torch._utils.ExceptionWrapper.reraise": "the same",
    "torch.autograd._profiler_enabled": "ranges are announced only while torch.profiler records",
    "torch.cuda._is_in_bad_fork": "a GPU that was used before the fork is refused with the remedy",
    "torch.multiprocessing._set_thread_name": "a worker's thread is called as torch's is",
    "torch.nn.modules.module._has_any_global_hook": "pictures do not wait where hooks look at each call",
    "torch.utils._pytree.tree_flatten": "what mixes a batch, and pictures, are found in any structure",
    "torch.utils._pytree.tree_unflatten": "the same",
    "torch.Tensor._make_wrapper_subclass": "the stand-in for a batch whose mixing is watched",
    "torch.Tensor.__dlpack_c_exchange_api__": "C++: tensors are read and made by this table of functions",
    "torch.Tensor._cdata": "C++: where a tensor lies",
}


def _has(dotted: str) -> bool:
    parts = dotted.split(".")
    found: Any = torch
    for depth, name in enumerate(parts[1:], start=1):
        if not hasattr(found, name):
            try:
                found = importlib.import_module(".".join(parts[: depth + 1]))
            except ImportError:
                return False
        elif depth < len(parts) - 1:
            found = getattr(found, name)
    return True


def missing() -> Iterator[str]:
    """A sentence for each name of NAMES that this torch lacks."""
    for name, reason in NAMES.items():
        if not _has(name):
            yield f"torch {torch.__version__} lacks {name}, which millrace needs: {reason}"


if _absent := list(missing()):
    raise ImportError(
        "; ".join(_absent) + f". This millrace was tested with torch {TESTED}: install that"
        f" (pip install 'torch=={TESTED}.*'), or a newer millrace"
    )

from torch._C import _is_any_autocast_enabled, _len_torch_function_stack  # noqa: E402
from torch._utils import ExceptionWrapper  # noqa: E402
from torch.autograd import _profiler_enabled  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_unflatten  # noqa: E402
from torch.utils.data import _utils  # noqa: E402
from torch.utils.data._utils import collate  # noqa: E402
from torch.utils.data._utils.collate import default_collate, default_convert  # noqa: E402
from torch.utils.data.dataloader import (  # noqa: E402
    _BaseDataLoaderIter,
    _DatasetKind,
    _InfiniteConstantSampler,
    _MultiProcessingDataLoaderIter,
    _sharding_worker_init_fn,
    _SingleProcessDataLoaderIter,
)

__all__ = [
    "ExceptionWrapper",
    "_BaseDataLoaderIter",
    "_DatasetKind",
    "_InfiniteConstantSampler",
    "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter",
    "_is_any_autocast_enabled",
    "_len_torch_function_stack",
    "_profiler_enabled",
    "_sharding_worker_init_fn",
    "_utils",
    "collate",
    "default_collate",
    "default_convert",
    "tree_flatten",
    "tree_unflatten",
]
