"""How fast the kernels of millrace.transforms.batch are, beside a plain copy on the same device: one JSON
line per operation.

    python -m benchmarks.batch_kernels                      # on the GPU: 256 pictures of 224 x 224
    python -m benchmarks.batch_kernels --device cpu --pictures 8 --repeats 2      # a dry run with the CPU
    reference

Each result is compared with the CPU reference before it is timed. Times are medians of repeats, each from an
event before to an event behind enough calls to last some milliseconds; on a GPU a call is the replay of a
CUDA graph, so that Python's time is not in it (that of decoding is: a decoder cannot be captured).
`share_of_copy`: bytes read and written per second, as a share of what copying the batch reaches;
    `pictures_per_second` for decoding, for the fused augmentation, and for chains with steps behind the
    resize ("steps: ...").
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import millrace
import numpy as np
import torch
from millrace import _core
from millrace._loader.plan.decoding import GpuDecoder
from millrace.transforms import batch
from millrace.transforms.batch import functional as F
from millrace.transforms.batch.fused import by_pipeline

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/python"))
from chain_cases import chains, number_chains  # noqa: E402

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SIZE = 224


def seconds_per_call(
    call: Callable[[], Any], device: torch.device, repeats: int, captured: bool = True
) -> float:
    """The median over `repeats` of the mean time of a call, on the device's own clock if it has one."""
    call()
    if captured and device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        call = graph.replay

    def timed(calls: int) -> float:
        if device.type == "cpu":
            start = time.perf_counter()
            for _ in range(calls):
                call()
            return time.perf_counter() - start
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()
        for _ in range(calls):
            call()
        after.record()
        after.synchronize()
        return before.elapsed_time(after) * 1e-3

    timed(3)
    calls = max(1, int(0.01 / max(timed(1), 1e-6)))
    return statistics.median(timed(calls) / calls for _ in range(repeats))


def operations(n: int) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """The operations on uint8 batches, with parameters that do all of the work for all samples."""
    rng = np.random.default_rng(1)
    jitter = batch.ColorJitter(0.4, 0.4, 0.4, 0.1).draw(rng, torch.empty(n, 3, 1, 1))
    turns = batch.RandomAffine(20, (0.1, 0.1), (0.8, 1.2)).draw(rng, torch.empty(n, 3, SIZE, SIZE))
    maps = batch.geometry.inverse_affine(**turns, center=None, size=(SIZE, SIZE))
    boxes, partners = np.tile([20, 30, 90, 80], (n, 1)), np.roll(np.arange(n), 1)
    return {
        "normalize to float16": lambda x: F.normalize(x, MEAN, STD, torch.float16),
        "normalize to float16 channels_last": lambda x: F.normalize(
            x, MEAN, STD, torch.float16, channels_last=True
        ),
        "normalize to float32": lambda x: F.normalize(x, MEAN, STD),
        "flip": lambda x: F.horizontal_flip(x, np.ones(n)),
        "affine bilinear": lambda x: F.affine(x, maps, "bilinear"),
        "color jitter": lambda x: F.color_jitter(x, **jitter),
        "erase": lambda x: F.erase(x, boxes, 0),
        "cutmix": lambda x: F.mix(x, partners, np.ones(n), boxes),
    }


def pictures(n: int) -> list[torch.Tensor]:
    """Smooth pictures of 375 x 500 with some noise, (h, w, 3)."""
    y, x = np.mgrid[0:375, 0:500]
    rng = np.random.default_rng(2)
    waves = [128 + 90 * np.sin(x / (9 + i % 7) + i) * np.cos(y / (11 + i % 5)) for i in range(n)]
    return [
        torch.from_numpy((w[..., None] + rng.integers(-20, 21, (375, 500, 3))).clip(0, 255).astype(np.uint8))
        for w in waves
    ]


def augmentations(n: int, jittered: bool) -> list[batch.Augmentation]:
    rng = np.random.default_rng(3)
    made = []
    for _ in range(n):
        w, h = rng.integers(150, 500), rng.integers(120, 375)
        crop = (int(rng.integers(0, 501 - w)), int(rng.integers(0, 376 - h)), int(w), int(h))
        colours = (
            {"order": rng.permutation(4).tolist(), "factors": [*rng.uniform(0.6, 1.4, 3), 0.05]}
            if jittered
            else {}
        )
        made.append(batch.Augmentation(crop=crop, flip_horizontal=bool(rng.integers(2)), **colours))
    return made


def report(name: str, seconds: float, **numbers: float) -> None:
    rounded = {key: round(value, 4) for key, value in numbers.items()}
    print(json.dumps({"operation": name, "microseconds": round(seconds * 1e6, 2), **rounded}), flush=True)


def measure_operations(n: int, device: torch.device, repeats: int) -> None:
    x = torch.randint(0, 256, (n, 3, SIZE, SIZE), dtype=torch.uint8)
    there, target = x.to(device), torch.empty_like(x, device=device)
    copying = seconds_per_call(lambda: target.copy_(there), device, repeats)
    copy_rate = 2 * x.numel() / copying
    report("copy", copying, gigabytes_per_second=copy_rate * 1e-9)
    for name, operation in operations(n).items():
        out = operation(there)
        assert torch.equal(out.cpu(), operation(x)), name
        seconds = seconds_per_call(lambda: operation(there), device, repeats)
        rate = (x.numel() + out.numel() * out.element_size()) / seconds
        report(name, seconds, gigabytes_per_second=rate * 1e-9, share_of_copy=rate / copy_rate)


def measure_augment(n: int, device: torch.device, repeats: int) -> None:
    on_cpu = pictures(n)
    there = [picture.to(device) for picture in on_cpu]
    options = {"mean": MEAN, "std": STD, "dtype": torch.float16}
    for jittered in (False, True):
        todo = augmentations(n, jittered)
        assert torch.equal(
            batch.augment(there, todo, (SIZE, SIZE), **options).cpu(),
            batch.augment(on_cpu, todo, (SIZE, SIZE), **options),
        )
        seconds = seconds_per_call(
            lambda: batch.augment(there, todo, (SIZE, SIZE), **options), device, repeats
        )
        report(
            "augment with color jitter" if jittered else "augment", seconds, pictures_per_second=n / seconds
        )


def measure_steps(n: int, device: torch.device, repeats: int) -> None:
    """Every operation of a policy alone, and whole chains, behind a crop, a resize and flips."""
    on_cpu = pictures(n)
    there = [picture.to(device) for picture in on_cpu]
    size = (SIZE, SIZE)
    every: dict[str, tuple[Any, dict[str, Any]]] = {name: (chain, {}) for name, chain in chains(size).items()}
    for name, (chain, options) in number_chains(size).items():
        every[name] = chain, options | {"dtype": torch.float32}
    for name, (chain, options) in every.items():
        make = partial(by_pipeline, pipeline=_core.ImagePipeline(chain), seed=1, **options)
        few = [make(some[:32]).cpu() for some in (there, on_cpu)]
        torch.testing.assert_close(*few, rtol=0, atol=1e-4 if "noise" in name.lower() else 0)
        seconds = seconds_per_call(partial(make, there), device, repeats)
        report(f"steps: {name}", seconds, pictures_per_second=n / seconds)


def measure_decoder(n: int, device: torch.device, repeats: int) -> None:
    from PIL import Image

    try:
        decoder = GpuDecoder(device)
    except (millrace.UnavailableError, ValueError) as error:
        print(json.dumps({"operation": "decode", "left_out": str(error)}))
        return
    files = []
    for picture in pictures(n):
        file = io.BytesIO()
        Image.fromarray(picture.numpy()).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    assert not any(isinstance(picture, str) for picture in decoder(files))
    seconds = seconds_per_call(lambda: decoder(files), device, repeats, captured=False)
    report(
        "decode on hardware" if decoder.has_hardware else "decode", seconds, pictures_per_second=n / seconds
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    measure_operations(arguments.pictures, device, arguments.repeats)
    measure_augment(arguments.pictures, device, arguments.repeats)
    measure_steps(arguments.pictures, device, arguments.repeats)
    measure_decoder(arguments.pictures, device, arguments.repeats)


if __name__ == "__main__":
    main()
