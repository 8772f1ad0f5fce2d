"""SPDL: FFmpeg decodes, crops and scales in threads; torch normalises the batch."""

from __future__ import annotations

import random

from benchmarks.loaders import Job, Tolerance
from benchmarks.loaders._samples import draw_box
from benchmarks.scenarios.imagenet import MEAN, STD

ENVIRONMENT = "spdl"
PACKAGES = ("spdl", "torch", "numpy")
TOLERANCE = Tolerance(8, 255, "FFmpeg's decoder and scaler; a box rounded to pixels")


def open_epochs(job: Job):
    import spdl.io
    import torch
    from spdl.pipeline import PipelineBuilder

    torch.set_num_threads(1)
    scenario = job.scenario
    mean = torch.tensor(MEAN).view(1, 3, 1, 1) * 255
    inverse = 1 / (torch.tensor(STD).view(1, 3, 1, 1) * 255)

    def decode(sample):
        path, label = sample
        packets = spdl.io.demux_image(path)
        left, top, width, height = (int(v) for v in draw_box(scenario, packets.width, packets.height))
        flip = ",hflip" if scenario.train and random.random() < 0.5 else ""
        graph = (
            f"crop={width}:{height}:{left}:{top}:exact=1,scale={scenario.size}:{scenario.size}:flags=bilinear{flip},"
            "format=rgb24"
        )
        return spdl.io.decode_packets(packets, filter_desc=graph), label

    def collate(rows):
        images = spdl.io.to_torch(spdl.io.convert_frames([frames for frames, _ in rows])).permute(0, 3, 1, 2)
        images = images.to(torch.float32, memory_format=torch.contiguous_format).sub_(mean).mul_(inverse)
        return images, torch.tensor([label for _, label in rows])

    def epochs():
        samples = random.sample(job.samples, job.epoch_images) if scenario.train else job.samples
        pipeline = (
            PipelineBuilder()
            .add_source(samples)
            .pipe(decode, concurrency=job.workers, output_order="input")
            .aggregate(scenario.batch)
            .pipe(collate)
            .add_sink(3)
            .build(num_threads=job.workers + (job.workers > 1))
        )
        with pipeline.auto_stop():
            yield from pipeline

    return epochs
