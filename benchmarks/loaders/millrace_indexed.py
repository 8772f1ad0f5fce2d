"""millrace.DataLoader over the index of the shards: a global shuffle, as over files."""

from __future__ import annotations

from benchmarks.loaders import Job
from benchmarks.loaders.millrace_tar import ENVIRONMENT, PACKAGES, TOLERANCE, Epochs, pipeline

__all__ = ["ENVIRONMENT", "PACKAGES", "TOLERANCE", "open_epochs"]


def open_epochs(job: Job) -> Epochs:
    return Epochs(job, pipeline(job, shuffled=False).indexed(), shuffle=job.scenario.train)
