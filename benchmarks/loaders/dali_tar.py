"""NVIDIA DALI on the CPU, as dali.py, reading tar shards."""

from __future__ import annotations

from benchmarks.loaders import Job, dali
from benchmarks.loaders.dali import ENVIRONMENT, PACKAGES, TOLERANCE
from benchmarks.scenarios.tars import BUFFER, shards_of

__all__ = ["ENVIRONMENT", "PACKAGES", "TOLERANCE", "open_epochs"]


def read_shards(job: Job):
    from nvidia.dali import fn

    pictures, labels = fn.readers.webdataset(
        paths=shards_of(job.root),
        ext=["jpg", "cls"],
        missing_component_behavior="error",
        random_shuffle=job.scenario.train,
        initial_fill=BUFFER,
        pad_last_batch=True,
        name="reader",
    )
    return pictures, fn.pad(labels, fill_value=ord(" "))


def numbers(labels):
    """Of texts, one a row, as bytes."""
    import numpy as np

    return np.array([int(label.tobytes()) for label in labels])


def open_epochs(job: Job):
    return dali.open_epochs(job, read_shards, numbers)
