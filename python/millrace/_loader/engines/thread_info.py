"""torch.utils.data.get_worker_info() in threads: each worker thread has an answer of its own.

The function is imported by value all over the world (webdataset, timm, user code), so it must be that very
function object that answers: its code is exchanged for one that asks the thread first. It stays what it is
for all other threads and processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import _utils

_NAME = "_millrace_thread_worker"  # in torch's module, because its globals are what the function's code sees
_here = threading.local()


def _install() -> None:
    module = _utils.worker
    if hasattr(module, _NAME):
        return

    def get_worker_info():  # type: ignore[no-untyped-def]
        return getattr(_millrace_thread_worker, "info", None) or _worker_info  # type: ignore[name-defined] # noqa: F821

    setattr(module, _NAME, _here)
    module.get_worker_info.__code__ = get_worker_info.__code__


def enter_worker(worker_id: int, num_workers: int, base_seed: int, dataset: Any) -> None:
    """Makes the calling thread a worker: get_worker_info() answers, with generators of the thread's own where
    torch knows them.
    """
    _install()
    seed = base_seed + worker_id
    arguments: dict[str, Any] = {
        "id": worker_id,
        "num_workers": num_workers,
        "seed": seed,
        "dataset": dataset,
    }
    known = {field.name for field in dataclasses.fields(_utils.worker.WorkerInfo)} if _has_fields() else set()
    if "rng" in known:
        generators = (
            random.Random(seed),
            torch.Generator().manual_seed(seed),
            _numpy_generator(base_seed, worker_id),
        )
        arguments["rng"] = _utils.worker._RNG(*generators)
        arguments["worker_method"] = "thread"
    _here.info = _utils.worker.WorkerInfo(**arguments)


def _has_fields() -> bool:
    return dataclasses.is_dataclass(_utils.worker.WorkerInfo)


def _numpy_generator(base_seed: int, worker_id: int) -> Any:
    try:
        import numpy as np
    except ImportError:
        return None
    return np.random.default_rng(_utils.worker._generate_state(base_seed, worker_id))


@contextlib.contextmanager
def as_no_worker() -> Iterator[None]:
    """While entered, this thread is none: default_collate would put its batches into files of shared memory
    for nothing.
    """
    info, _here.info = _here.info, None
    try:
        yield
    finally:
        _here.info = info
