"""Grain with read threads, OpenCV for the pixels (both release the interpreter lock while they work)."""

from __future__ import annotations

import itertools

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders._samples import opencv_sample

ENVIRONMENT = "grain"
PACKAGES = ("grain", "opencv-python-headless", "numpy")
TOLERANCE = Tolerance(
    8, 255, "area averages instead of an antialiased triangle filter; a box rounded to pixels"
)


def open_epochs(job: Job):
    import cv2
    import grain

    cv2.setNumThreads(0)
    scenario = job.scenario
    seeds = itertools.count()

    def sample(item):
        path, label = item
        return opencv_sample(scenario, path), label

    def epochs():
        source = grain.MapDataset.source(job.samples)
        if scenario.train:
            source = source.shuffle(seed=next(seeds))
        options = grain.ReadOptions(num_threads=job.workers, prefetch_buffer_size=2 * scenario.batch)
        return source.map(sample).to_iter_dataset(options).batch(scenario.batch)

    return epochs
