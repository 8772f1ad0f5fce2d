"""The README is true: its Python runs as printed, and its table is what the stored results say."""
from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from pictures import make_jpeg_folder
from shard_data import make_picture_shards

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)

from benchmarks import compare  # noqa: E402


def make_arrays(folder: Path) -> bool:
    """The files of the section on HDF5 and Zarr, if what writes them is installed."""
    try:
        import h5py
        import zarr
    except ImportError:
        return False
    with h5py.File(folder / "measured-1.h5", "w") as file:
        file["images"], file["labels"] = np.zeros((9, 3, 8, 8), np.float32), np.arange(9)
    group = zarr.open_group(folder / "weather.zarr", mode="w")
    names = ("time", "lat", "lon")
    group.create_array("t2m", shape=(40, 6, 5), chunks=(10, 6, 5), dtype="f4", dimension_names=names)[:] = 1
    return True


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make_jpeg_folder(tmp_path / "photos", per_class=50)
    (tmp_path / "photos" / "ant" / "broken.jpg").write_bytes(b"")
    make_picture_shards(tmp_path / "tars", [10, 7, 10, 5])
    arrays = make_arrays(tmp_path)
    tables = all(map(importlib.util.find_spec, ("pyarrow", "duckdb")))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    first, *others = (
        compile(block, f"README.md, block {i}", "exec")
        for i, block in enumerate(BLOCKS, 1)
        if (arrays or "import HDF5" not in block) and (tables or "import duckdb" not in block)
    )

    with pytest.raises(OSError, match="broken.jpg"):  # on_error="raise" is what the first block has
        exec(first, names)
    (tmp_path / "photos" / "ant" / "broken.jpg").unlink()
    exec(first, names)
    assert names["images"].shape == (150 % 128, 3, 224, 224) and names["images"].dtype == torch.float32
    assert names["labels"].dtype == torch.int64
    assert {"threads"} == {names["loader"].stats()["engine"]}, "the README's script runs on the engine"

    for block in others:
        exec(block, names)
    out = capsys.readouterr().out
    assert "native" in out and "python —" not in out
    assert names["loader"].auto_epoch, "the last loader of the page"


def test_at_gives_a_row_of_the_epoch_again(tmp_path: Path) -> None:
    from millrace import DataLoader, transforms
    from millrace.datasets import ImageFolder

    chain = [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    train = ImageFolder(make_jpeg_folder(tmp_path / "photos", per_class=4), transforms.Compose(chain))
    loader = DataLoader(train, batch_size=12, num_workers=2)
    (images, _), = loader
    again, label = train.at(5, loader.seed, loader.epoch)
    assert torch.equal(again, images[5]) and label == train.targets[5]


def test_torchvision_needs_only_the_first_line(tmp_path: Path, torchvision) -> None:
    from torchvision.transforms import v2

    from millrace import DataLoader

    chain = v2.Compose([v2.RandomResizedCrop(32), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    train = torchvision.datasets.ImageFolder(make_jpeg_folder(tmp_path / "photos", per_class=4), chain)
    assert len(list(DataLoader(train, 4, num_workers=1, native="require"))) == 3


def test_the_table_is_what_was_measured() -> None:
    block = TEXT.partition(compare.BEGIN)[2].partition(compare.END)[0].strip()
    reports = [compare.report(compare.read_results(path), workers=workers, scenarios=scenarios)
               for path in sorted((ROOT / "benchmarks" / "results").glob("*.jsonl"))
               for workers in (None, [2]) for scenarios in (None, ["imagenet_train"])]
    assert block in (reports or [""]), "python -m benchmarks.compare RESULTS --workers 2 --readme README.md writes the table anew"
