"""Trains a small classifier on a folder of class folders, through millrace.

    python examples/train_image_folder.py demo_data/photos --epochs 8 --workers 2

It is an ordinary PyTorch script. The lines that differ from torch.utils.data and torchvision are the three
imports from millrace.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Literal, NamedTuple

import torch
from make_photos import show_progress
from millrace import DataLoader
from millrace import transforms as T
from millrace.datasets import ImageFolder
from torch import nn
from torch.utils.data import Subset

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 64  # pixels: small enough for a network that trains on two CPU cores in a minute
HOLD_OUT = 0.15  # of the photos, for validation


def split(count: int) -> tuple[list[int], list[int]]:
    """The same split on every run."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist()
    held_out = max(1, round(count * HOLD_OUT))
    return order[held_out:], order[:held_out]


def make_loaders(
    root: str, workers: int | Literal["auto"], batch: int = 64
) -> tuple[DataLoader[Any], DataLoader[Any], list[str]]:
    """Training loader, validation loader, names of the classes."""
    finish = [T.ToTensor(), T.Normalize(MEAN, STD)]
    train_set = ImageFolder(
        root, T.Compose([T.RandomResizedCrop(SIZE, scale=(0.35, 1.0)), T.RandomHorizontalFlip(), *finish])
    )
    val_set = ImageFolder(root, T.Compose([T.Resize(SIZE), T.CenterCrop(SIZE), *finish]))
    train, val = split(len(train_set))
    options: dict[str, Any] = {"batch_size": batch, "num_workers": workers, "persistent_workers": True}
    return (
        DataLoader(Subset(train_set, train), shuffle=True, drop_last=len(train) >= batch, **options),
        DataLoader(Subset(val_set, val), **options),
        train_set.classes,
    )


def small_network(classes: int) -> nn.Module:
    """Four strided convolutions and a linear layer: about 250,000 parameters."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (32, 64, 96, 128):
        layers += [
            nn.Conv2d(channels, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


@torch.no_grad()
def accuracy(network: nn.Module, loader: DataLoader[Any]) -> float:
    network.eval()
    right = seen = 0
    for images, labels in loader:
        right += int((network(images).argmax(1) == labels).sum())
        seen += len(labels)
    return right / seen


class Result(NamedTuple):
    accuracy: float
    seconds: float  # in the training loops, validation not included
    stats: dict[str, Any]  # of the training loader


def train(root: str, epochs: int, workers: int | Literal["auto"], enough: float = 1.0) -> Result:
    """Trains until the validation accuracy is `enough`, at most `epochs`."""
    torch.manual_seed(0)
    train_loader, val_loader, classes = make_loaders(root, workers)
    print(train_loader.explain())
    network = small_network(len(classes))
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 4e-3, epochs=epochs, steps_per_epoch=len(train_loader)
    )
    reached = seconds = 0.0
    for epoch in range(epochs):
        network.train()
        start = time.perf_counter()
        for step, (images, labels) in enumerate(train_loader, 1):
            loss = nn.functional.cross_entropy(network(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            rate = step * len(images) / (time.perf_counter() - start)
            note = f"loss {loss.item():.2f}  {rate:,.0f} images/s"
            show_progress(f"epoch {epoch + 1} of {epochs}", step, len(train_loader), note)
        seconds += time.perf_counter() - start
        reached = accuracy(network, val_loader)
        print(f"epoch {epoch + 1}: {reached:.1%} of the validation photos right", flush=True)
        if reached >= enough:
            break
    return Result(reached, seconds, train_loader.stats())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", help="folder with one folder per class")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--workers", default="auto", help="threads; auto fits the CPUs this process may use")
    arguments = parser.parse_args()
    workers: int | Literal["auto"] = "auto" if arguments.workers == "auto" else int(arguments.workers)
    train(arguments.root, arguments.epochs, workers)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
