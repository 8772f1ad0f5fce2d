"""`python -m millrace run SCRIPT`: scripts that train as pytorch/examples' imagenet, torchvision's reference,
timm's train.py and DINO's run natively, unchanged, over the samples and in the order that torch has.
"""

import json
from pathlib import Path

import pytest
import torch.distributed
from launching import check_native, launch, stage_of
from loader_data import make_folder, torchvision_or_skip

torchvision_or_skip()
pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
PREFETCHED = "collate_fn: native — fast_collate; rows are written straight into the batch"


@pytest.fixture(scope="session")
def splits(tmp_path_factory):
    """Folders train, of 14 photos, and val, of 13, in three classes."""
    folder = tmp_path_factory.mktemp("splits")
    make_folder(folder / "train", 14)
    make_folder(folder / "val", 13)
    return folder


def run(how, script, *words, cwd, ranks=0):
    """(the script's report, what ran its loaders), of all ranks where there are some."""
    output, seen = launch(how, HERE / script, *words, cwd=cwd, ranks=ranks)
    reports = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return (reports, seen) if ranks else (reports[0], seen[0] if seen else None)


def test_imagenet(splits, tmp_path):
    found, loaders = run("run", "script_imagenet.py", splits, "-j", 2, cwd=tmp_path)
    expected, _ = run("plain", "script_imagenet.py", splits, "-j", 2, cwd=tmp_path)
    assert found == expected and len(found["trained"]) == 8
    check_native(loaders, 2)
    _, (loader,) = run("run", "script_imagenet.py", splits, "--evaluate", cwd=tmp_path)
    check_native([loader], 1)


def test_imagenet_in_two_ranks(splits, tmp_path):
    if not torch.distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    words = "script_imagenet.py", splits, "-j", 1, "--distributed", "--epochs", 1
    found, ranks = run("run", *words, cwd=tmp_path, ranks=2)
    trained = [sorted(label for batch in report["trained"] for label in batch) for report in found]
    assert [len(labels) for labels in trained] == [7, 7]
    for loaders in ranks:
        check_native(loaders, 3)  # the last is over the Subset that the samplers left
        assert loaders[-1]["dataset"] == "Subset"


PRESETS = {
    "pil": [],
    "pil v2": ["--v2", "--policy", "ta_wide", "--erase", 0.1, "--mix"],
    "policy": ["--policy", "ra", "--repeated"],
    "auto": ["--policy", "imagenet", "--erase", 0.5, "--mix"],
    "tensors v2": ["--v2", "--backend", "tensor"],
}


@pytest.mark.parametrize("way", PRESETS)
def test_presets(splits, tmp_path, way):
    words = ["script_presets.py", splits, *PRESETS[way]]
    found, loaders = run("run", *words, cwd=tmp_path)
    check_native(loaders, 2)
    assert "transform: native — Train(" in loaders[0]["explain"]
    mixed = "collate_fn: python — native default_collate; RandomChoice of collate_fn in Python"
    assert stage_of(loaders[0], "collate_fn").startswith(mixed) == ("--mix" in words)
    if way in ("pil", "policy"):
        expected, _ = run("plain", *words, cwd=tmp_path)
        assert found == expected


def test_a_dataset_that_was_kept(splits, tmp_path):
    """Pickled with its transforms, whose class is of `__main__`, and read by the next run."""
    for _ in range(2):
        words = "script_presets.py", splits, "--kept", tmp_path / "dataset.pt"
        _, loaders = run("run", *words, cwd=tmp_path)
        check_native(loaders, 2)


TIMM = {
    "prefetcher": [],
    "plain": ["--no-prefetcher", "--aa", "rand-m9-mstd0.5-inc1", "--reprob", 0.25],
    "mixed": ["--aa", "augmix-m5-w4-d2", "--mixup", 0.8],
    "multi": ["--multi-epochs", "--aa", "original-mstd0.5", "--reprob", 0.2],
    "repeated": ["--repeated"],
}


@pytest.mark.parametrize("way", TIMM)
def test_timm(splits, tmp_path, way):
    pytest.importorskip("timm")
    words = ["script_timm.py", splits, *TIMM[way]]
    found, loaders = run("run", *words, cwd=tmp_path)
    check_native(loaders, 2)
    assert (PREFETCHED in stage_of(loaders[0], "collate_fn")) == (way in ("prefetcher", "multi", "repeated"))
    assert ("FastCollateMixup gets samples" in stage_of(loaders[0], "collate_fn")) == (way == "mixed")
    if way in ("prefetcher", "repeated"):
        expected, _ = run("plain", *words, cwd=tmp_path)
        assert found == expected


def test_views(splits, tmp_path):
    words = "script_views.py", "--data_path", splits / "train"
    found, loaders = run("run", *words, cwd=tmp_path)
    check_native(loaders, 1)
    assert "transform: native — DataAugmentationDINO: 6 views (" in loaders[0]["explain"]
    expected, _ = run("plain", *words, cwd=tmp_path)
    assert found == expected and len(found["trained"]) == 6
