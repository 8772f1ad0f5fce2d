"""The benchmark of Ray Data and remote workers: it compares before it measures, in turns on one cluster."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import remote_help  # noqa: F401  (how Ray's processes are started)
import torch
from loader_data import make_folder, torchvision_or_skip

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore:no remote worker answers:RuntimeWarning")


@pytest.fixture
def benchmark(monkeypatch):
    torchvision_or_skip()
    from benchmarks import remote_ray_data

    # Ray's workers import it, too
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "python"), *sys.path]))
    return remote_ray_data


def batches(brightness, labels=(0, 1), dtype=torch.uint8):
    return [(torch.full((len(labels), 3, 4, 4), brightness, dtype=dtype), torch.tensor(labels))]


def test_other_pictures_end_it(benchmark):
    assert benchmark.check_pixels(batches(7), batches(7)) == 2
    for theirs, words in (
        (batches(8), "other pixels"),
        (batches(7, (0, 2)), "labels"),
        (batches(7, (0,)), "of"),
    ):
        with pytest.raises(SystemExit, match=words):
            benchmark.check_pixels(batches(7), theirs)
    pictures = [(torch.randint(0, 256, (64, 3, 8, 8), dtype=torch.uint8), torch.zeros(64, dtype=torch.int64))]
    darker = [(pictures[0][0] // 2, pictures[0][1])]
    benchmark.check_crops(pictures, pictures, 64)
    with pytest.raises(SystemExit, match="another brightness"):
        benchmark.check_crops(pictures, darker, 64)
    with pytest.raises(SystemExit, match="samples of an epoch"):
        benchmark.check_crops(pictures, pictures, 65)


def test_it_measures_in_turns(benchmark, tmp_path):
    make_folder(tmp_path, 24)
    paths = sorted(str(path) for path in tmp_path.rglob("*.jp*g"))
    with benchmark.cluster(head_cpus=1) as on:
        records = list(benchmark.measure(on, paths, 2, 1))
    assert [record["loader"] for record in records[:2]] == ["millrace", "ray_data"]
    assert all(record["rows"] == 48 and record["equal_pictures"] == 24 for record in records)
    assert np.isfinite(benchmark.ratios(records)).all() and "| ray_data |" in benchmark.table(records)
