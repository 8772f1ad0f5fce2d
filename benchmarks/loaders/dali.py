"""NVIDIA DALI on the CPU: decodes only the crop, antialiased linear resize, fused crop, mirror and
normalise.
"""

from __future__ import annotations

from benchmarks.loaders import Job, Tolerance
from benchmarks.scenarios.imagenet import MEAN, STD

ENVIRONMENT = "dali"
PACKAGES = ("nvidia-dali-cuda130", "nvidia-nvimgcodec-cu13", "numpy")
TOLERANCE = Tolerance(6, 255, "its own antialiased filter and rounding of the resized size")
PREFETCH = 2  # batches, as DALI's default


def read_files(job: Job):
    """The reader's outputs: encoded pictures, labels."""
    from nvidia.dali import fn

    # pad_last_batch with one shard: an epoch is exactly job.batches runs, and the next one starts at sample 0
    # again.
    return fn.readers.file(
        files=[p for p, _ in job.samples],
        labels=[c for _, c in job.samples],
        name="reader",
        shuffle_after_epoch=job.scenario.train,
        pad_last_batch=True,
    )


def first_column(labels):
    return labels[:, 0]


def open_epochs(job: Job, read=read_files, numbers=first_column):
    """`read`: as read_files. `numbers`: the labels of a batch, [rows], of what the reader's second output is
    as an array.
    """
    import numpy as np
    from nvidia.dali import fn, pipeline_def, types

    scenario = job.scenario

    @pipeline_def(
        batch_size=scenario.batch, num_threads=job.workers, device_id=None, prefetch_queue_depth=PREFETCH
    )
    def pipeline():
        encoded, labels = read(job)
        linear = {"interp_type": types.INTERP_LINEAR, "antialias": True}
        if scenario.train:
            images = fn.decoders.image_random_crop(
                encoded, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
            )
            images = fn.resize(images, size=[scenario.size, scenario.size], **linear)
            mirror = fn.random.coin_flip()
        else:
            images = fn.resize(
                fn.decoders.image(encoded, device="cpu"), resize_shorter=scenario.resize, **linear
            )
            mirror = 0
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT,
            output_layout="CHW",
            crop=(scenario.size, scenario.size),
            mirror=mirror,
            mean=[v * 255 for v in MEAN],
            std=[v * 255 for v in STD],
        )
        return images, labels

    pipe = pipeline()
    pipe.build()

    def epochs():
        # run() would prefetch the next epoch while another loader is being timed: schedule this epoch's
        # batches and no more.
        scheduled = taken = 0
        try:
            while taken < job.batches:
                while scheduled < min(taken + PREFETCH, job.batches):
                    pipe.schedule_run()
                    scheduled += 1
                images, labels = pipe.share_outputs()
                taken += 1
                rows = min(scenario.batch, job.epoch_images - (taken - 1) * scenario.batch)
                out = (
                    np.array(images.as_tensor())[:rows],
                    numbers(np.array(labels.as_tensor()))[:rows],
                )  # DALI reuses its memory
                pipe.release_outputs()
                yield out
        finally:
            for _ in range(scheduled - taken):  # the consumer left early
                pipe.share_outputs()
                pipe.release_outputs()

    return epochs
