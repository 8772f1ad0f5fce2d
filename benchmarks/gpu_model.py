"""The model of the GPU benchmarks: a residual network, written here so that torchvision is not needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.gpu_machine import Machine


class Bottleneck(torch.nn.Module):
    """He, Zhang, Ren, Sun, "Deep residual learning for image recognition" (CVPR 2016), with the stride in the
    middle.
    """

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        conv, norm, out = torch.nn.Conv2d, torch.nn.BatchNorm2d, 4 * width
        self.body = torch.nn.Sequential(
            conv(channels, width, 1, bias=False),
            norm(width),
            torch.nn.ReLU(True),
            conv(width, width, 3, stride, 1, bias=False),
            norm(width),
            torch.nn.ReLU(True),
            conv(width, out, 1, bias=False),
            norm(out),
        )
        same = stride == 1 and channels == out
        self.short = (
            torch.nn.Identity()
            if same
            else torch.nn.Sequential(conv(channels, out, 1, stride, bias=False), norm(out))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.short(x))


def resnet(blocks: tuple[int, ...]) -> torch.nn.Module:
    layers: list[torch.nn.Module] = [
        torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        torch.nn.BatchNorm2d(64),
        torch.nn.ReLU(True),
        torch.nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
            channels = 256 << stage
    return torch.nn.Sequential(
        *layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(channels, 1000)
    )


def training_step(here: Machine) -> Callable[[Any], None]:
    """One step of a ResNet-50 in bfloat16, channels last, on a batch (pictures, labels)."""
    torch.manual_seed(0)
    model = resnet((1,) if here.fake else (3, 4, 6, 3)).to(here.device)
    if not here.fake:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

    def train(batch: Any) -> None:
        with torch.autocast(here.device.type, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1] % 1000)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return train
