"""Photos for training by other machines' CPUs: millrace's loader with an actor, and Ray Data, in turns.

    python -m benchmarks.remote_ray_data [--images DIR] [--photos 1000] [--times 4] [--rounds 7] [--out FILE]

RandomResizedCrop(224) and flip to uint8, batches of 64, on one cluster of two nodes with one CPU each; the
trainer runs on the first one's. `ray_data` is written as Ray's documentation has it: read_images(), map()
with torchvision's transforms, iter_torch_batches(), a task on each node. `millrace` has one thread in the
trainer and one actor of one CPU on the other node. An epoch is each photo `times` times, links to the same
files. First both give the same pixels of centre crops, photo by photo, and as many samples of an epoch, of
the same brightness. CPU seconds are those of all processes, Ray's own among them.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import millrace
import numpy as np
import torch

from benchmarks.compare import told
from benchmarks.harness import ROOT, quiet_rounds, run_facts
from benchmarks.loaders._torchvision import import_torchvision
from benchmarks.photo_runs import photos
from benchmarks.remote_cluster import NODE, Cluster, Spent, cluster, wait_for
from benchmarks.runs import rounds_told, stored, timed_epoch

BATCH, SIZE, CLASSES = 64, 224, 10
PACKAGES = ("ray", "torch", "torchvision", "pillow", "pyarrow", "pandas", "numpy")


def make_folder(root: Path, paths: list[str], times: int) -> None:
    """Class folders with each photo so many times."""
    for number in range(len(paths) * times):
        folder = root / f"class_{number % CLASSES}"
        folder.mkdir(exist_ok=True)
        source, target = paths[number % len(paths)], folder / f"{number:06}.jpg"
        try:
            os.link(os.path.realpath(source), target)
        except OSError:  # another file system
            shutil.copyfile(source, target)


# ------------------------------------------------------------------ both sides


def ray_dataset(root: Path, train: bool) -> Any:
    """Ray Data's rows: "image" of (3, 224, 224), uint8, and "label", the class folder."""
    import ray

    def transformed(row: dict[str, Any]) -> dict[str, Any]:
        from PIL import Image

        label = int(os.path.basename(os.path.dirname(row["path"])).rpartition("_")[2])
        return {"image": chain_of(train)(Image.fromarray(row["image"])).numpy(), "label": label}

    rows = ray.data.read_images(str(root), mode="RGB", include_paths=True, shuffle="files" if train else None)
    return rows.map(transformed)


@functools.cache
def chain_of(train: bool) -> Any:
    import_torchvision()
    from torchvision import transforms as t

    crop = (
        [t.RandomResizedCrop(SIZE), t.RandomHorizontalFlip()]
        if train
        else [t.Resize(256), t.CenterCrop(SIZE)]
    )
    return t.Compose([*crop, t.PILToTensor()])


def ray_batches(data: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for batch in data.iter_torch_batches(batch_size=BATCH):
        yield batch["image"], batch["label"]


def loader_of(root: Path, train: bool) -> Any:
    """millrace's, helped by one thread of an actor, which leaves the node's CPU to Ray Data's tasks when it
    rests.
    """
    from millrace import transforms as t

    crop = (
        [t.RandomResizedCrop(SIZE), t.RandomHorizontalFlip()]
        if train
        else [t.Resize(256), t.CenterCrop(SIZE)]
    )
    data = millrace.datasets.ImageFolder(str(root), transform=t.Compose([*crop, t.PILToTensor()]))
    actor = {"actors": 1, "num_cpus": 0, "resources": {NODE: 1}}
    options: dict[str, Any] = {"remote": "ray", "remote_workers": actor}
    return millrace.DataLoader(data, BATCH, shuffle=train, num_workers=1, native="require", **options)


# ------------------------------------------------------------------ equal first


def pictures_of(batches: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
    """All pixels and labels of an epoch, in an order that does not depend on that of the epoch."""
    found = [(pictures.numpy().copy(), np.asarray(labels)) for pictures, labels in batches]
    pixels, labels = (np.concatenate(parts) for parts in zip(*found))
    order = sorted(range(len(pixels)), key=lambda at: (labels[at], pixels[at].tobytes()))
    return pixels[order], labels[order]


def check_pixels(ours: Iterable[Any], theirs: Iterable[Any]) -> int:
    """SystemExit unless both have the same centre crops of the same classes; how many."""
    (pixels, labels), (their_pixels, their_labels) = pictures_of(ours), pictures_of(theirs)
    if pixels.shape != their_pixels.shape or pixels.dtype != their_pixels.dtype:
        forms = [(some.shape, str(some.dtype)) for some in (pixels, their_pixels)]
        raise SystemExit(f"pictures of {forms[0]}, Ray Data's of {forms[1]}")
    if not np.array_equal(labels, their_labels) or not np.array_equal(pixels, their_pixels):
        raise SystemExit("other pixels or labels than Ray Data's")
    return len(labels)


def check_crops(ours: Iterable[Any], theirs: Iterable[Any], samples: int) -> None:
    """SystemExit unless both have so many samples, of the same classes and, in the mean, as bright."""
    means, classes = [], []
    for batches in (ours, theirs):
        found = [(p.float().mean((1, 2, 3)), torch.as_tensor(labels)) for p, labels in batches]
        means.append(torch.cat([mean for mean, _ in found]).double())
        classes.append(torch.cat([labels for _, labels in found]).bincount().tolist())
    counts = [len(mean) for mean in means]
    if counts != [samples, samples] or classes[0] != classes[1]:
        raise SystemExit(f"samples of an epoch: {counts}, of classes {classes}")
    apart = float(means[0].mean() - means[1].mean())
    error = float(sum(mean.var() / len(mean) for mean in means)) ** 0.5
    if abs(apart) > 5 * error + 1e-6:
        raise SystemExit(f"crops of another brightness, by {apart:.2f} with an error of {error:.2f}")


# ------------------------------------------------------------------ times


def measure(on: Cluster, paths: list[str], times: int, rounds: int) -> Iterator[dict]:
    on.ray.data.DataContext.get_current().enable_progress_bars = False
    with tempfile.TemporaryDirectory() as some, tempfile.TemporaryDirectory() as folder:
        few, root = Path(some), Path(folder)
        make_folder(few, paths[:64], 1)
        make_folder(root, paths, times)
        same = loader_of(few, False)
        wait_for(same, 1)
        equal = check_pixels(same, ray_batches(ray_dataset(few, False)))
        del same  # its actor ends
        loader, data = loader_of(root, True), ray_dataset(root, True)
        wait_for(loader, 1)
        samples = len(paths) * times
        check_crops(loader, ray_batches(data), samples)
        sides = {"millrace": lambda: loader, "ray_data": lambda: ray_batches(data)}
        common = {
            "scenario": "photos",
            "cpus": len(on.cpus),
            "workers": 2,
            "pictures": samples,
            "photos": len(paths),
            "photo_bytes": round(sum(map(os.path.getsize, paths)) / len(paths)),
            "batch": BATCH,
            "equal_pictures": equal,
            **run_facts(PACKAGES),
        }

        def one_round(repeat: int) -> list[dict]:
            records = []
            for name in list(sides)[:: -1 if repeat % 2 else 1]:
                times = timed_epoch(sides[name](), on.cpus, lambda batch: len(batch[1]), Spent().stop)
                times["rows_per_s"] = times["rows"] / times["seconds"]
                if times["rows"] != samples:
                    raise SystemExit(f"{name}: {times['rows']} samples of {samples}")
                records.append({**common, "loader": name, "kind": "epoch", "repeat": repeat, **times})
            return records

        yield from quiet_rounds(rounds, one_round)


def ratios(records: list[dict], key: str = "rows_per_s") -> list[float]:
    """millrace's by Ray Data's, round by round."""
    rounds: dict[int, dict[str, float]] = {}
    for record in records:
        rounds.setdefault(record["repeat"], {})[record["loader"]] = record[key]
    return [pair["millrace"] / pair["ray_data"] for pair in rounds.values()]


def table(records: list[dict]) -> str:
    counted = [record for record in records if record["quiet"]] or records
    lines = ["| loader | photos/s | CPU ms per photo | first batch, s |", "|---|---:|---:|---:|"]
    for name in ("millrace", "ray_data"):
        mine = [record for record in counted if record["loader"] == name]
        cells = [
            statistics.median(values)
            for values in (
                [r["rows_per_s"] for r in mine],
                [r["cpu_seconds"] / r["rows"] * 1e3 for r in mine],
                [r["first_s"] for r in mine],
            )
        ]
        lines.append(f"| {name} | {cells[0]:,.0f} | {cells[1]:.2f} | {cells[2]:.2f} |")
    return "\n".join([*lines, "", f"millrace : ray_data {told(ratios(counted))}"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", default=str(ROOT / "demo_data" / "photos"), help="class folders of JPEGs")
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", default="benchmarks/results/remote_ray_data/local.jsonl")
    given = parser.parse_args()
    out = os.path.abspath(given.out)
    with cluster(head_cpus=1) as on:
        found = photos(os.path.abspath(given.images), given.photos)
        records = stored(measure(on, found, given.times, given.rounds), out)
    print(f"{rounds_told(records)}\n\n{table(records)}")


if __name__ == "__main__":
    from benchmarks import remote_ray_data  # Ray's workers import it, by this name

    remote_ray_data.main()
