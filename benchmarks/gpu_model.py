"""The model of the GPU benchmarks: a residual network, written here so that torchvision is not needed."""

from __future__ import annotations

import torch


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
