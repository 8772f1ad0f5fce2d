"""Pipelines as people write them, and what one changed import line makes of each: torch's loader and
millrace's in turns.

    python -m benchmarks.reach [--images DIR] [--rounds 7] [--out FILE.jsonl] [pipeline ...]

The pipelines are in reach_pipelines.py, reach_items.py and tutorials.py; over two workers where their
names do not say otherwise. Before anything is timed, the batches of an epoch must be equal, value by value,
or, where both sides draw their own crops and operations, of the same forms, types and brightness. `runs` says
what made millrace's batches: "native", or the Python dataset in "processes" or "inline", with what its
pictures became. A pipeline whose packages are not installed is left out.
"""

from __future__ import annotations

import argparse
import statistics
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks.compare import interval
from benchmarks.harness import ROOT, run_facts
from benchmarks.photo_runs import photos
from benchmarks.picture_datasets import class_folders, make_cifar
from benchmarks.runs import Sides, hold_to_cpus, rounds_told, rows_in_turns, stored

PHOTOS = 320
PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "pillow",
    "numpy",
    "datasets",
    "webdataset",
    "pyarrow",
    "pandas",
    "h5py",
    "zarr",
    "albumentations",
    "tokenizers",
)

# ------------------------------------------------------------------ data


def make_data(root: Path, paths: list[str]) -> None:
    """Photos in class folders, a mask with two instances beside each, and in two tar shards; CIFAR10's files,
    tokens, Parquet files, sounds and HDF5 patches of noise.
    """
    random = np.random.default_rng(0)
    class_folders(root / "photos", paths)
    for kind in ("masks", "shards", "tables", "sounds", "cifar"):
        (root / kind).mkdir()
    for number, path in enumerate(paths):
        with Image.open(path) as picture:
            mask = np.zeros(picture.size[::-1], np.uint8)
        mask[20:200, 30:150], mask[100:300, 200:320] = 1, 2
        Image.fromarray(mask).save(root / "masks" / f"{number:05}.png")
    for shard in range(2):
        with tarfile.open(root / "shards" / f"{shard}.tar", "w") as tar:
            for number, path in list(enumerate(paths))[shard::2]:
                label = root / "label"
                label.write_text(str(number % 10))
                tar.add(path, f"{number:05}.jpg")
                tar.add(label, f"{number:05}.cls")
    make_cifar(root / "cifar", 10_000)
    random.integers(0, 50_000, 1024 * 4001, np.uint16).tofile(root / "tokens.bin")
    _make_tables(root, random)


def _make_tables(root: Path, random: np.random.Generator) -> None:
    import h5py
    import pyarrow
    from pyarrow import parquet
    from scipy.io import wavfile

    for number in range(4):
        columns = {f"c{i}": random.random(8192).astype(np.float32) for i in range(8)}
        table = pyarrow.table(columns | {"label": np.arange(8192) % 10})
        parquet.write_table(table, root / "tables" / f"{number}.parquet", row_group_size=2048)
    for number in range(400):
        wave = random.integers(-20_000, 20_000, random.integers(32_000, 64_000), np.int16)
        wavfile.write(root / "sounds" / f"{number:03}.wav", 16_000, wave)
    with h5py.File(root / "patches.h5", "w") as file:
        file["x"] = random.random((3000, 3, 64, 64)).astype(np.float32)
        file["y"] = np.arange(3000) % 10


# ------------------------------------------------------------------ both sides


def tensors_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [leaf for part in value for leaf in tensors_of(part)] if isinstance(value, (list, tuple)) else [value]
    )


def form_of(value: Any) -> Any:
    """Nesting, types, and of tensors the sizes without those that differ from batch to batch."""
    if isinstance(value, torch.Tensor):
        return type(value).__name__, str(value.dtype), value.dim()
    if isinstance(value, dict):
        return {key: form_of(part) for key, part in value.items()}
    return [type(value).__name__, *map(form_of, value)] if isinstance(value, (list, tuple)) else type(value)


def check(name: str, theirs: Iterable[Any], ours: Iterable[Any], equal: bool) -> int:
    """SystemExit when the batches are others; how many there are."""
    sums: list[list[float]] = [[], []]
    count = 0
    torch.manual_seed(7)
    expected = list(theirs)
    torch.manual_seed(7)
    for batch, mine in zip(expected, ours, strict=True):
        count += 1
        if form_of(batch) != form_of(mine):
            raise SystemExit(f"{name}: a batch of the form {form_of(mine)}, torch's {form_of(batch)}")
        pairs = list(zip(tensors_of(batch), tensors_of(mine), strict=True))
        if equal and not all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs):
            raise SystemExit(f"{name}: other values than torch's")
        for side, leaf in enumerate(pairs[0]):
            sums[side].append(float(torch.as_tensor(leaf).float().mean()))
    apart = abs(statistics.mean(sums[0]) - statistics.mean(sums[1]))
    error = sum(statistics.variance(values) / len(values) for values in sums) ** 0.5
    if apart > 5 * error + 1e-6:
        raise SystemExit(
            f"{name}: pictures of another brightness, by {apart:.3f} with an error of {error:.3f}"
        )
    return count


def what_runs(loader: Any) -> str:
    loader = getattr(loader, "loader", loader)  # timm's stands around it
    stats = loader.stats()
    if stats["profile"] and stats["profile"].get("native"):
        return "native"
    opened = stats.get("pictures", {}).get("opened", 0)
    return f"{stats['engine']}, lazy pictures" if opened else stats["engine"]


def measure(name: str, root: Path, rounds: int, cpus: list[int]) -> Iterator[dict]:
    import millrace
    from millrace.datasets import webdataset as our_webdataset

    make, equal = pipelines()[name]
    packages: tuple[ModuleType | None, ModuleType] = _webdataset(), our_webdataset
    made = {
        side: make(root, cls, package)
        for side, cls, package in (
            ("torch", torch.utils.data.DataLoader, packages[0]),
            ("millrace", millrace.DataLoader, packages[1]),
        )
    }
    check(name, made["torch"], made["millrace"], equal)
    sides: Sides = {side: (2, lambda loader=loader: loader) for side, loader in made.items()}  # type: ignore
    common = {
        "scenario": name,
        "cpus": len(cpus),
        "runs": what_runs(made["millrace"]),
        "equal": equal,
        **run_facts(PACKAGES),
    }
    yield from rows_in_turns(sides, rounds, cpus, common, lambda _: 1)


def pipelines() -> dict[str, Any]:
    from benchmarks import reach_items, reach_pipelines, tutorials

    return {**reach_pipelines.PIPELINES, **reach_items.PIPELINES, **tutorials.PIPELINES}


def _webdataset() -> ModuleType | None:
    try:
        import webdataset
    except ImportError:
        return None
    return webdataset


def ratios(records: list[dict]) -> list[float]:
    rates: dict[int, dict[str, float]] = {}
    for record in records:
        rates.setdefault(record["repeat"], {})[record["loader"]] = record["rows_per_s"]
    return [pair["millrace"] / pair["torch"] for pair in rates.values()]


def row(name: str, records: list[dict]) -> str:
    found = ratios(records)
    low, high = interval(found, statistics.median)
    return f"| {name} | {records[0]['runs']} | {statistics.median(found):.2f} x ({low:.2f} - {high:.2f}) |"


def main() -> None:
    known = pipelines()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", nargs="*", default=list(known), help="parts of names")
    parser.add_argument("--images", default=str(ROOT / "demo_data" / "photos"), help="class folders of JPEGs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", default="benchmarks/results/reach/local.jsonl", help="results are appended")
    given = parser.parse_args()
    names = [name for name in known if any(part in name for part in given.pipeline)]
    if not names:
        parser.error(f"no pipeline has {' or '.join(given.pipeline)} in its name: {'; '.join(known)}")
    cpus, kept = hold_to_cpus(2), {}
    with tempfile.TemporaryDirectory() as folder:
        make_data(Path(folder), photos(given.images, PHOTOS))
        from benchmarks import tutorials

        if not tutorials.PIPELINES.keys().isdisjoint(names):
            tutorials.make_data(Path(folder))
        for name in names:
            try:
                kept[name] = stored(measure(name, Path(folder), given.rounds, cpus), given.out)
            except ImportError as error:
                print(f"{name} was left out: {error}", flush=True)
            else:
                print(row(name, kept[name]), flush=True)
    if not kept:
        raise SystemExit("nothing was measured")
    medians = [statistics.median(ratios(records)) for records in kept.values()]
    native = sum(records[0]["runs"] == "native" for records in kept.values())
    print(f"\n{rounds_told([record for records in kept.values() for record in records])}")
    print(f"{native} of {len(kept)} native; {sum(m >= 1.3 for m in medians)} at 1.3 x and more, ", end="")
    print(f"{sum(m >= 2 for m in medians)} at 2 x and more; median {statistics.median(medians):.1f} x")


if __name__ == "__main__":
    main()
