"""Draws docs/report.png: runs a loader over photos made for it, and photographs the page of its report.

    python scripts/docs/report_picture.py [--out FILE]      needs Chromium

The loop's own step is short, then long, then short again, so the loader is first too slow, then fast enough.
The numbers are those of this run on this machine.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from millrace import DataLoader, transforms
from millrace.datasets import ImageFolder
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
STEPS, SHORT_S, LONG_S, WIDTH, HEIGHT = 180, 0.002, 0.03, 1060, 2080


def draw_photos(folder: Path, count: int) -> None:
    draws = np.random.default_rng(0)
    for number in range(count):
        place = folder / str(number % 3)
        place.mkdir(parents=True, exist_ok=True)
        coarse = draws.integers(0, 256, (75, 100, 3), dtype=np.uint8)
        photo = Image.fromarray(coarse).resize((800, 600), Image.Resampling.BICUBIC)
        photo.save(place / f"{number:03}.jpg", quality=92)


def run(folder: Path, page: Path) -> None:
    """One epoch of STEPS batches, and its report as a page."""
    chain = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    data = ImageFolder(folder, chain)
    loader = DataLoader(data, batch_size=max(len(data) // STEPS, 1), shuffle=True, num_workers=1)
    for step, _ in enumerate(loader):
        time.sleep(LONG_S if STEPS // 3 <= step < 2 * STEPS // 3 else SHORT_S)
    loader.report().save(page)


def photograph(page: Path, picture: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("there is no Chromium here (scripts/setup.sh with CLIENTS=1 installs it)")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    options += [f"--window-size={WIDTH},{HEIGHT}", "--blink-settings=preferredColorScheme=1"]
    options += [f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=3000"]
    command = [browser, *options, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    with Image.open(picture) as opened:
        flat = opened.convert("RGB").quantize(64)  # flat colours: a third of the bytes
    flat.save(picture, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "report.png")
    out = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        draw_photos(Path(scratch) / "photos", 4 * STEPS)
        run(Path(scratch) / "photos", Path(scratch) / "report.html")
        photograph(Path(scratch) / "report.html", out)
    print(out)


if __name__ == "__main__":
    main()
