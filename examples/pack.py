"""Packs a folder of photos into shards, shows what is in them, and trains from them: pixel for pixel the
folder's data.

    python examples/pack.py [FOLDER]

FOLDER has one folder of pictures per class; without it, a few hundred photos are made (see make_photos.py) or
drawn.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from millrace import DataLoader, pack, transforms
from millrace.__main__ import main as millrace
from millrace.datasets import ImageFolder, WebDataset
from PIL import Image


def draw_pictures(root: Path, count: int = 60) -> Path:
    """Smooth coloured noise as progressive JPEGs, which are slow to decode: packing makes them baseline."""
    random = np.random.default_rng(0)
    for i in range(count):
        folder = root / ("cool", "warm")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        coarse = random.integers(0, 256, (8, 10, 3), dtype=np.uint8)
        coarse[..., 0 if i % 2 else 2] |= 128
        Image.fromarray(coarse).resize((400, 320), Image.Resampling.BICUBIC).save(
            folder / f"{i:04d}.jpg", quality=90, progressive=True
        )
    return root


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        photos = arguments.folder or draw_pictures(Path(scratch) / "photos")
        shards = Path(scratch) / "shards"

        report = pack(photos, shards, samples_per_shard=25, pixel_statistics=True, verify=True)
        print(f"{report['samples']} samples in {len(report['shards'])} shards, {report['pictures']['notes']}")
        print("mean of the pixels:", [round(mean, 3) for mean in report["pixels"]["mean"]])

        print("\nmillrace inspect says:")
        if millrace(["inspect", str(shards)]) != 0:
            return 1

        # The shards have the folder's pictures: the same pixels in the order of their keys.
        urls = [str(shards / shard["name"]) for shard in report["shards"]]
        indexed = WebDataset(urls).decode("pil").to_tuple("__key__", "jpg", "cls").indexed()
        folder = ImageFolder(photos)
        by_key = {
            str(Path(path).relative_to(photos).with_suffix("")): number
            for number, (path, _) in enumerate(folder.samples)
        }
        for key, picture, label in indexed:
            original, original_label = folder[by_key[key]]
            if (
                label != original_label
                or np.asarray(picture.convert("RGB")).tobytes() != np.asarray(original).tobytes()
            ):
                print(f"{key} is not what it was", file=sys.stderr)
                return 1
        print(f"\nall {len(indexed)} pictures have the pixels of their files")

        chain = transforms.Compose(
            [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
        )
        train = WebDataset(urls).decode("pil").to_tuple("jpg", "cls").map_tuple(chain).indexed()
        model = torch.nn.Sequential(
            torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, len(report["classes"]))
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for epoch in range(3):
            losses = []
            for images, labels in DataLoader(train, 16, shuffle=True, num_workers=2):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
