"""Digests of an epoch of each kind of data whose kernels are compiled for several instruction sets; a script,
so that it runs under other instruction sets, other versions of torch, and with an installed wheel.

    python all_kernels.py FOLDER

FOLDER is made when it is not there. Prints JSON: the instruction sets in use, and a digest for each kind.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from millrace import DataLoader, _core, transforms
from millrace.datasets import JSONL, ImageFolder, Tokens
from PIL import Image

FORMATS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("jpg", {"quality": 92, "subsampling": 0}),
    ("jpg", {"quality": 85, "subsampling": 2}),
    ("jpg", {"quality": 70, "progressive": True}),
    ("png", {}),
    ("webp", {"quality": 80}),
)
CHAINS: dict[str, list[Any]] = {
    "train": [
        transforms.RandomResizedCrop(64),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
    ],
    "maps": [
        transforms.Resize((80, 72)),
        transforms.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10),
        transforms.RandomPerspective(p=1.0),
        transforms.GaussianBlur(5),
    ],
    "policy": [
        transforms.Resize((64, 64)),
        transforms.RandAugment(4),
        transforms.RandomAdjustSharpness(2, p=0.5),
    ],
    "values": [
        transforms.RandomResizedCrop(48, interpolation=transforms.InterpolationMode.BICUBIC),
        transforms.RandomAutocontrast(),
        transforms.RandomEqualize(),
        transforms.RandomGrayscale(0.3),
    ],
}


def make_data(folder: Path) -> None:
    """Smooth pictures with edges, so that every path of the decoders has something to do."""
    random = np.random.default_rng(7)
    y, x = np.ogrid[0:1:200j, 0:1:260j]
    for number in range(30):
        waves = [np.sin(random.uniform(3, 40) * x + random.uniform(3, 40) * y) for _ in range(3)]
        pixels = (127 + 100 * np.stack(waves, -1) + random.normal(0, 8, (200, 260, 3))).clip(0, 255)
        pixels[40:90, 30 + number : 120] = random.integers(0, 256, 3)
        suffix, options = FORMATS[number % len(FORMATS)]
        path = folder / "pictures" / "abc"[number % 3] / f"{number:02}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).crop((0, 0, 259 - number, 199)).save(path, **options)
    random.integers(0, 50_000, 40_000).astype(np.uint16).tofile(folder / "tokens.bin")
    rows = [{"text": "ü" * (i % 9), "x": i / 7, "n": i * i, "v": [i / 3, -1e-9 * i]} for i in range(500)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def digest(batches: Iterable[Any]) -> str:
    found = hashlib.sha256()
    for batch in batches:
        for part in batch.values() if isinstance(batch, dict) else batch:
            found.update(part.numpy().tobytes() if isinstance(part, torch.Tensor) else repr(part).encode())
    return found.hexdigest()


def epochs(folder: Path) -> dict[str, str]:
    normalize = transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    found = {}
    for name, chain in CHAINS.items():
        dataset = ImageFolder(
            folder / "pictures", transforms.Compose([*chain, transforms.ToTensor(), normalize])
        )
        torch.manual_seed(3)
        loader: Any = DataLoader(dataset, 8, shuffle=True, num_workers=2, native="require")
        found[name] = digest(batch for _ in range(2) for batch in loader)
        # Nothing was left to Pillow, which has no instruction sets to choose.
        assert loader.stats()["engine"] == "threads", loader.explain()
    columns = {"text": str, "x": "float64", "n": "int64", "v": ("float32", (2,))}
    for name, rows in {
        "tokens": Tokens(folder / "tokens.bin", 100, "uint16", stride=1),
        "lines": JSONL(folder / "rows.jsonl", columns),
    }.items():
        torch.manual_seed(3)
        loader = DataLoader(rows, 64, shuffle=True, num_workers=2, native="require")
        found[name] = digest(loader)
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    if not folder.exists():
        make_data(folder)
    targets = {"targets": _core.cpu_targets(), "json": _core.json_target()}
    print(json.dumps({**targets, "digests": epochs(folder)}))


if __name__ == "__main__":
    main()
