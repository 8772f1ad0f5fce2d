"""Do two loaders deliver the same data? Checked before anything is timed: a wrong answer is quick to
compute.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from benchmarks.loaders import Job, Tolerance
from benchmarks.scenarios.imagenet import STD

SAME_STATISTICS = (
    0.08  # in units of normalised pixels; random crops of 1,000 photos move mean and deviation by about 0.02
)


class NotTheSame(AssertionError):
    """A loader does not deliver what the scenario asks for; its numbers would mean nothing."""


def observe(batches, keep: int = 32) -> tuple[dict, np.ndarray]:
    """Runs through one epoch; returns what check_epoch() wants to know, and the first `keep` images."""
    shapes, dtypes, labels, kept = [], set(), [], []
    total = squares = values = 0.0
    for images, batch_labels in batches:
        images = np.asarray(images)
        shapes.append(list(images.shape))
        dtypes.add(str(images.dtype))
        labels += np.asarray(batch_labels).tolist()
        total += float(images.sum(dtype=np.float64))
        squares += float(np.square(images).sum(dtype=np.float64))
        values += images.size
        if sum(map(len, kept)) < keep:
            kept.append(np.array(images[:keep]))
    mean = total / values
    std = (squares / values - mean**2) ** 0.5
    return {
        "shapes": shapes,
        "dtypes": sorted(dtypes),
        "labels": labels,
        "mean": mean,
        "std": std,
    }, np.concatenate(kept)[:keep]


def check_epoch(job: Job, seen: dict) -> None:
    """Shapes, dtype and labels of an epoch against the scenario. Raises NotTheSame."""
    batch, size, left = job.scenario.batch, job.scenario.size, job.epoch_images
    shapes = [[min(batch, left - at), 3, size, size] for at in range(0, left, batch)]
    labels = [label for _, label in job.samples]
    if seen["dtypes"] != ["float32"]:
        raise NotTheSame(f"images are {seen['dtypes']}, not float32")
    if job.scenario.ragged:
        rows = [shape[0] for shape in seen["shapes"]]
        shapes = (
            [[min(row, batch), 3, size, size] for row in rows] if sum(rows) == job.epoch_images else shapes
        )
    if seen["shapes"] != shapes:
        raise NotTheSame(
            f"batch shapes are {seen['shapes'][:2]} ... {seen['shapes'][-1:]} ({len(seen['shapes'])}), "
            f"not {shapes[:2]} ... {shapes[-1:]} ({len(shapes)})"
        )
    if job.scenario.train and Counter(seen["labels"]) != Counter(labels):
        raise NotTheSame("an epoch's labels are not those of the files")
    if not job.scenario.train and seen["labels"] != labels:
        raise NotTheSame("labels are not in the order of the files")


def check_statistics(reference: dict, seen: dict) -> None:
    """Mean and deviation of an epoch's pixels against the reference's. Raises NotTheSame."""
    for name in ("mean", "std"):
        if not abs(reference[name] - seen[name]) <= SAME_STATISTICS:
            raise NotTheSame(
                f"the {name} of all pixels is {seen[name]:.3f}, the reference's {reference[name]:.3f}"
            )


def pixel_distance(reference: np.ndarray, images: np.ndarray) -> dict:
    """Distance of normalised images in levels of 8 bits: mean over all values, and the largest."""
    levels = np.abs(reference - images) * (np.array(STD, np.float32) * 255).reshape(3, 1, 1)
    return {"mean_levels": float(levels.mean()), "max_levels": float(levels.max())}


def check_pixels(reference: np.ndarray, images: np.ndarray, tolerance: Tolerance) -> dict:
    """pixel_distance(), when it is within `tolerance`; else raises NotTheSame."""
    distance = pixel_distance(reference, images)
    for name, value in distance.items():
        allowed = getattr(tolerance, name)
        if not value <= allowed + 0.01:  # rounding of the normalisation
            raise NotTheSame(
                f"{name} from the reference is {value:.2f}, allowed are {allowed} ({tolerance.reason})"
            )
    return distance
