"""Learns to forecast a field on a map from a Zarr store: windows of time, shuffled by chunks, in a small
convolutional network.

    python examples/zarr_science.py [--folder DIR]

The field is temperature-like: a picture that ships with scikit-image, carried along by winds that depend on
latitude and turn round, warmed by a season, and observed with noise. It is written as [time, lat, lon] with
named axes in compressed chunks of 16 steps, as climate data are. A sample is 5 steps behind each other; the
network sees four and forecasts the fifth.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import zarr
from millrace import DataLoader
from millrace.datasets import Zarr
from PIL import Image
from torch import nn

STEPS, LATS, LONS, PAST = 400, 32, 64, 4
EPOCHS, BATCH = 5, 8


def simulate() -> np.ndarray:
    """float32 [time, lat, lon], of mean about 0 and standard deviation about 1."""
    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.origin:
        raise SystemExit("the picture comes with scikit-image: pip install scikit-image")
    package = Path(spec.origin).parent  # its pictures need none of what its code needs
    picture = (
        Image.open(package / "data" / "moon.png").convert("L").resize((LONS, LATS), Image.Resampling.BOX)
    )
    field = np.asarray(picture, np.float64)
    field = (field - field.mean()) / field.std()
    random = np.random.default_rng(0)
    wind = 2 * np.cos(
        np.linspace(-np.pi, np.pi, LATS)
    )  # cells per step: eastwards in the middle, westwards at the poles
    turned = -2j * np.pi * np.fft.rfftfreq(LONS) * wind[:, None]
    latitude = np.sin(np.linspace(-np.pi / 2, np.pi / 2, LATS))[:, None]
    steps = np.empty((STEPS, LATS, LONS), np.float32)
    for step in range(STEPS):
        tide = np.sin(2 * np.pi * step / 40)  # the winds turn round
        field = np.fft.irfft(np.fft.rfft(field, axis=1) * np.exp(turned * tide), LONS, axis=1)
        field += 0.02 * latitude * np.cos(2 * np.pi * step / 100)
        steps[step] = field + 0.02 * random.standard_normal(field.shape)
    steps -= steps.mean()
    steps /= steps.std()
    return steps


def write(folder: Path) -> None:
    group = zarr.open_group(folder, mode="w")
    names = ("time", "lat", "lon")
    array = group.create_array(
        "t2m", shape=(STEPS, LATS, LONS), chunks=(16, LATS, LONS), dtype="f4", dimension_names=names
    )
    array[:] = simulate()


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(PAST, 16, 5, padding=2, padding_mode="replicate"),
        nn.GELU(),
        nn.Conv2d(16, 16, 3, padding=1, padding_mode="replicate"),
        nn.GELU(),
        nn.Conv2d(16, 1, 3, padding=1, padding_mode="replicate"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, help="where the store lies or is made (default: a temporary one)"
    )
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch:
        store = (folder or Path(scratch)) / "weather.zarr"
        if not store.exists():
            write(store)
        train(store)


def train(store: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    both = PAST + 1  # the past, and the step to be forecast
    training = Zarr(store, "t2m", select={"time": slice(0, 320)}, window=both, stride=1)
    held_out = Zarr(store, "t2m", select={"time": slice(320, None)}, window=both, stride=1)
    sampler = training.shuffled(buffer_chunks=3, seed=0)
    loader = DataLoader(training, BATCH, sampler=sampler, num_workers=2)
    print(f"{len(training)} windows of {PAST + 1} x {LATS} x {LONS}, read by {training.readers['t2m']}")

    forecast = network()
    optimizer = torch.optim.Adam(forecast.parameters(), 3e-3)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        start, losses = time.perf_counter(), []
        for window in loader:
            past, following = window[:, :PAST], window[:, PAST:]
            loss = nn.functional.mse_loss(past[:, -1:] + forecast(past), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(
            f"epoch {epoch + 1}: loss {np.mean(losses):.4f},"
            f" {len(training) / (time.perf_counter() - start):,.0f} windows/s"
        )

    with torch.no_grad():
        windows = torch.cat(list(DataLoader(held_out, BATCH, num_workers=2)))
        past, following = windows[:, :PAST], windows[:, PAST:]
        error = nn.functional.mse_loss(past[:, -1:] + forecast(past), following).item()
        persistence = nn.functional.mse_loss(past[:, -1:], following).item()
    print(
        f"held out: error {error:.4f}; of saying that nothing changes {persistence:.4f}:"
        f" {error / persistence:.0%} of it"
    )


if __name__ == "__main__":
    main()
