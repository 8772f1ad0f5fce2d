"""mlx-data: its own crop and resize (without antialiasing); numpy normalises, in its threads."""

from __future__ import annotations

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders._samples import normalise

ENVIRONMENT = "mlx-data"
PACKAGES = ("mlx-data", "numpy")
TOLERANCE = Tolerance(10, 255, "resizes without antialiasing")


def open_epochs(job: Job):
    import mlx.data as dx
    import numpy as np

    scenario = job.scenario
    source = dx.buffer_from_vector([{"image": path.encode(), "label": label} for path, label in job.samples])

    def epochs():
        stream = (source.shuffle() if scenario.train else source).to_stream().load_image("image")
        if scenario.train:
            stream = (
                stream.image_random_area_crop("image", (0.08, 1.0), (3 / 4, 4 / 3))
                .image_resize("image", scenario.size, scenario.size)
                .image_random_h_flip("image", 0.5)
            )
        else:
            stream = stream.image_resize_smallest_side("image", scenario.resize).image_center_crop(
                "image", scenario.size, scenario.size
            )
        stream = stream.key_transform("image", normalise).prefetch(2 * scenario.batch, job.workers)
        for batch in stream.batch(scenario.batch).prefetch(2, 1):
            yield np.asarray(batch["image"]), np.asarray(batch["label"])

    return epochs
