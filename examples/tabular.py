"""Trains a small network on a real table in Parquet files, whose filters, categories and nulls the dataset
takes care of.

    python examples/tabular.py [--epochs 30]

The table is the Wisconsin breast cancer data that scikit-learn ships: 569 cells' nuclei, 30 measurements
each, and a diagnosis. It is written to a folder of Parquet files, with a column of text and with holes in one
measurement, as real tables have them. Rows come in shuffled batches, a tensor for each column. A few seconds
on two cores.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import millrace
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from millrace.datasets import Parquet
from torch import nn

TEST_EVERY = 5  # every fifth patient is held out
BATCH = 32


def write_table(folder: Path) -> list[str]:
    """Two files of several row groups; returns the names of the measurements."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the table comes with scikit-learn: pip install scikit-learn")
    source = Path(spec.submodule_search_locations[0], "datasets", "data", "breast_cancer.csv")
    with source.open(newline="") as file:
        header, *rows = csv.reader(file)
    values = np.array(rows, dtype=np.float32)
    names = [f"m{number:02d}" for number in range(values.shape[1] - 1)]
    columns = dict(zip(names, values.T))
    columns["patient"] = np.arange(len(values))
    columns["diagnosis"] = np.array(header[2:])[values[:, -1].astype(int)]
    table = pa.table(columns)
    holes = pa.array(values[:, 3], mask=columns["patient"] % 19 == 0)
    table = table.set_column(3, "m03", holes)
    for part, rows_of_part in enumerate((table.slice(0, 300), table.slice(300))):
        pq.write_table(rows_of_part, folder / f"part-{part}.parquet", row_group_size=64)
    return names


def features(batch: dict[str, torch.Tensor], names: list[str]) -> torch.Tensor:
    return torch.stack([batch[name] for name in names] + [batch["m03_mask"].float()], dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=30)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        names = write_table(Path(folder))
        options: dict[str, Any] = {
            "categories": {"diagnosis": ["malignant", "benign"]},
            "nulls": {"m03": "mask"},
        }
        patients = range(569)
        training = Parquet(
            folder, filters=[("patient", "in", [p for p in patients if p % TEST_EVERY])], **options
        )
        held_out = Parquet(folder, filters=[("patient", "in", patients[::TEST_EVERY])], **options)
        print(
            f"{len(training)} patients to learn from, {len(held_out)} held out, in {len(training.row_groups)}"
            " row groups"
        )

        loader = millrace.DataLoader(
            training, BATCH, sampler=training.shuffled(buffer_chunks=4), num_workers=2, auto_epoch=True
        )
        print(loader.explain())
        normal = nn.BatchNorm1d(len(names) + 1, affine=False)
        model = nn.Sequential(
            normal, nn.Linear(len(names) + 1, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2)
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
        for epoch in range(epochs):
            total = 0.0
            for batch in loader:
                loss = nn.functional.cross_entropy(model(features(batch, names)), batch["diagnosis"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * len(batch["diagnosis"])
            if epoch % 10 == 9 or epoch == 0:
                print(f"epoch {epoch + 1}: loss {total / len(training):.3f}")

        model.eval()
        test = next(iter(millrace.DataLoader(held_out, len(held_out))))
        with torch.no_grad():
            right = (model(features(test, names)).argmax(1) == test["diagnosis"]).float().mean()
        print(f"right about {100 * float(right):.1f}% of the held-out patients")


if __name__ == "__main__":
    main()
