"""The training scripts themselves, unchanged, by `python -m millrace run`: imagenet of pytorch/examples,
torchvision's references/classification/train.py, timm's train.py and DINO's main_dino.py.

They are in no package, so they are run where $MILLRACE_PUBLIC_SCRIPTS names a folder that has them with the
modules beside them, as imagenet/main.py, tv_reference/train.py, timm_train/train.py and dino/main_dino.py.
"""

import os
import shutil
from pathlib import Path

import pytest
from launching import check_native, launch, stage_of
from loader_data import make_folder, torchvision_or_skip

torchvision_or_skip()
pytestmark = pytest.mark.slow


def script(path):
    folder = os.environ.get("MILLRACE_PUBLIC_SCRIPTS")
    if folder is None:
        pytest.skip("$MILLRACE_PUBLIC_SCRIPTS names no folder of scripts")
    if not (found := Path(folder, path)).is_file():
        pytest.skip(f"{folder} has no {path}")
    return found


def make_splits(folder, training):
    """Folders train, of twice `training` photos, and val, of 12: six classes."""
    for split, count in (("train", training), ("val", 6)):
        for half in "xy":
            make_folder(folder / half, count)
            (folder / split).mkdir(exist_ok=True)
            for label in (folder / half).iterdir():
                shutil.move(label, folder / split / (half + label.name))
    return folder


@pytest.fixture(scope="session")
def splits(tmp_path_factory):
    return make_splits(tmp_path_factory.mktemp("six"), 9)


def run(path, *words, cwd, **variables):
    _, (loaders,) = launch("run", script(path), *words, cwd=cwd, **variables)
    return loaders


def group(**variables):
    """What launchers set for the only rank of a script that asks for a GPU."""
    alone = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }
    return alone | {"OBSERVED_AS_GPU": "1"} | variables


def test_imagenet(splits, tmp_path):
    words = "-a squeezenet1_1 -j 2 --epochs 1 -b 4 -p 1 --no-accel".split()
    check_native(run("imagenet/main.py", *words, splits, cwd=tmp_path), 2)


TORCHVISION = {
    "plain": "",
    "ta_wide": "--auto-augment ta_wide --random-erase 0.1 --mixup-alpha 0.2 --cutmix-alpha 1.0",
    "ra": "--auto-augment ra --cache-dataset",
}


@pytest.mark.parametrize("way", TORCHVISION)
def test_torchvisions_reference(splits, tmp_path, way):
    words = "--model squeezenet1_1 --device cpu -b 4 -j 2 --epochs 1 --print-freq 1 --lr 0.001".split()
    words += "--train-crop-size 64 --val-crop-size 64 --val-resize-size 72 --data-path".split()
    home = {"HOME": str(tmp_path)}  # where it keeps datasets
    loaders = run("tv_reference/train.py", *words, splits, *TORCHVISION[way].split(), cwd=tmp_path, **home)
    check_native(loaders, 2)
    assert "ClassificationPresetTrain(RandomResizedCrop" in stage_of(loaders[0], "transform")


def test_torchvisions_reference_with_repeated_samples(tmp_path, tmp_path_factory):
    """Its RASampler takes whole 256 samples."""
    photos = make_splits(tmp_path_factory.mktemp("many"), 128)
    words = "--model squeezenet1_1 --device cpu -b 64 -j 2 --epochs 1 --lr 0.001 --ra-sampler".split()
    words += "--train-crop-size 64 --val-crop-size 64 --val-resize-size 72 --data-path".split()
    loaders = run("tv_reference/train.py", *words, photos, cwd=tmp_path, **group())
    check_native(loaders, 2)
    assert "RASampler in batches of 64 runs in the consumer's thread" in stage_of(loaders[0], "sampler")


TIMM = {
    "prefetcher": "",
    "plain": "--no-prefetcher --aa rand-m9-mstd0.5-inc1 --reprob 0.25",
    "mixed": "--aa original-mstd0.5 --reprob 0.25 --recount 3 --mixup 0.8 --use-multi-epochs-loader",
}


@pytest.mark.parametrize("way", TIMM)
def test_timms_train(splits, tmp_path, way):
    pytest.importorskip("timm")
    words = "--train-split train --val-split val --model test_vit --num-classes 6 --img-size 160".split()
    words += "-b 4 -j 2 --epochs 1 --warmup-epochs 0 --device cpu --output out".split()
    loaders = run("timm_train/train.py", "--data-dir", splits, *words, *TIMM[way].split(), cwd=tmp_path)
    check_native(loaders, 2)
    told = {
        "prefetcher": "native — fast_collate",
        "plain": "native — default",
        "mixed": "python — native decode",
    }
    assert stage_of(loaders[0], "collate_fn").startswith(f"collate_fn: {told[way]}")
    assert ("native — fast_collate" in stage_of(loaders[1], "collate_fn")) == (way != "plain")


def test_dino(splits, tmp_path):
    words = "--arch vit_tiny --patch_size 32 --out_dim 64 --batch_size_per_gpu 4 --epochs 1".split()
    words += "--warmup_epochs 0 --local_crops_number 4 --num_workers 2 --use_fp16 false".split()
    words += "--output_dir . --data_path".split()
    loaders = run("dino/main_dino.py", *words, splits / "train", cwd=tmp_path, **group())
    check_native(loaders, 1)
    assert "DataAugmentationDINO: 6 views (" in stage_of(loaders[0], "transform")
