"""Puts batches of a plain torch DataLoader on the device ahead of the training step: one line.

    python examples/prefetch_to_device.py               # on torch's current accelerator, else on the CPU
    python examples/prefetch_to_device.py --lightning   # in a Lightning Trainer, where that is installed

The photos stay uint8 on the link, a quarter of float32's bytes; normalising and flipping happen on the
device, on the stream that copies.
"""

from __future__ import annotations

import argparse
from typing import Any

import millrace
import torch
from millrace.transforms import batch
from torch.utils.data import DataLoader, Dataset

CLASSES, BATCH = 10, 32


class Photos(Dataset[tuple[torch.Tensor, int]]):
    """Pictures of 3 x 64 x 64 bytes, brighter from class to class."""

    def __len__(self) -> int:
        return 640

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        label = index % CLASSES
        noise = torch.randint(0, 40, (3, 64, 64), generator=torch.Generator().manual_seed(index))
        return (noise + 20 * label).to(torch.uint8), label


normalize = batch.Compose(
    [batch.RandomHorizontalFlip(), batch.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))]
)


def on_device(photos_and_labels: list[torch.Tensor]) -> list[torch.Tensor]:
    photos, labels = photos_and_labels
    return [normalize(photos), labels]


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(CLASSES)
    )


def train(batches: Any) -> None:
    model = network().to(torch.accelerator.current_accelerator() or "cpu")
    device = next(iter(model.parameters())).device
    model(torch.zeros(1, 3, 64, 64, device=device))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(3):
        total = torch.zeros((), device=device)
        for photos, labels in batches:
            assert photos.device == labels.device == device and photos.dtype == torch.float32
            loss = torch.nn.functional.cross_entropy(model(photos), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()  # no .item(): it would make the host wait for the device at every step
        print(f"epoch {epoch + 1}: loss {total.item() / len(batches):.3f} on {device}")


def train_with_lightning(batches: Any) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = network()
            self.model(torch.zeros(1, 3, 64, 64))

        def training_step(self, photos_and_labels: Any, index: int) -> torch.Tensor:
            photos, labels = photos_and_labels
            return torch.nn.functional.cross_entropy(self.model(photos), labels)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 1e-3)

    trainer = lightning.Trainer(
        max_epochs=1, devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(Module(), batches)
    print(f"Lightning took {trainer.global_step} steps")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lightning", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Photos(), BATCH, shuffle=True, num_workers=2)  # torch's own

    batches = millrace.DevicePrefetcher(loader, on_device=on_device)  # the one line

    if arguments.lightning:
        train_with_lightning(batches)
    else:
        train(batches)


if __name__ == "__main__":
    main()
