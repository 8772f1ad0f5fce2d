"""Tiny trees of pictures in the layouts that torchvision's datasets expect, and the datasets over them."""

from __future__ import annotations

import importlib
import json
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from millrace._common import shipped
from PIL import Image

Make = Callable[[Path, dict[str, Any]], Any]
_generator = np.random.default_rng(7)


def picture(path: Path, mode: str = "RGB", side: int = 0) -> None:
    """A picture of 20 to 29 pixels a side, or of `side`, in the format of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = (side, side) if side else _generator.integers(20, 30, 2)
    shape = (height, width) if mode == "L" else (height, width, 3)
    Image.fromarray(_generator.integers(0, 256, shape, dtype=np.uint8)).save(path)


def classes(root: Path, names: str, ending: str, each: int = 3) -> None:
    for name in names:
        for number in range(each):
            picture(root / f"class_{name}" / f"{number}.{ending}")


def write_tables(path: Path, tables: dict[str, Any]) -> None:
    """Where a data set has a file of Matlab's; accept_files() has it read."""
    with open(path, "wb") as file:
        pickle.dump(tables, file)


def _read_tables(path: Any, squeeze_me: bool = True) -> Any:
    with open(path, "rb") as file:
        return pickle.load(file)


def _module(name: str) -> Any:
    return importlib.import_module(f"torchvision.datasets.{name}")


def image_folder(root: Path, options: dict[str, Any]) -> Any:
    classes(root, "ab", "jpg")
    return _module("folder").ImageFolder(root, **options)


def valid_files(root: Path, options: dict[str, Any]) -> Any:
    classes(root, "ab", "png", 4)
    return _module("folder").ImageFolder(
        root, is_valid_file=lambda path: not path.endswith("1.png"), **options
    )


def dataset_folder(root: Path, options: dict[str, Any]) -> Any:
    classes(root, "ab", "ppm")
    folder = _module("folder")
    return folder.DatasetFolder(root, folder.pil_loader, (".ppm",), **options)


def imagenet(root: Path, options: dict[str, Any]) -> Any:
    classes(root / "val", "xy", "JPEG")
    torch.save(({"class_x": ("cat", "puss"), "class_y": ("dog",)}, []), root / "meta.bin")
    return _module("imagenet").ImageNet(root, "val", **options)


def imagenette(root: Path, options: dict[str, Any]) -> Any:
    for name in ("n01440764", "n02102040"):
        for number in range(3):
            picture(root / "imagenette2-160" / "train" / name / f"{number}.jpeg")
            image = root / "imagenette2-160" / "train" / name / f"{number}.JPEG"
            image.with_suffix(".jpeg").rename(image)
    return _module("imagenette").Imagenette(root, size="160px", **options)


def eurosat(root: Path, options: dict[str, Any]) -> Any:
    classes(root / "eurosat" / "2750", "abc", "jpg", 2)
    return _module("eurosat").EuroSAT(root, **options)


def country211(root: Path, options: dict[str, Any]) -> Any:
    classes(root / "country211" / "valid", "ab", "jpg")
    return _module("country211").Country211(root, "valid", **options)


def flowers102(root: Path, options: dict[str, Any]) -> Any:
    base = root / "flowers-102"
    for number in range(1, 8):
        picture(base / "jpg" / f"image_{number:05d}.jpg")
    ids = np.array([2, 7, 4, 1, 5])
    write_tables(base / "setid.mat", {"trnid": ids, "valid": ids[:1], "tstid": ids[1:]})
    write_tables(base / "imagelabels.mat", {"labels": np.array([3, 1, 2, 2, 1, 3, 9])})
    return _module("flowers102").Flowers102(root, "train", **options)


def food101(root: Path, options: dict[str, Any]) -> Any:
    base = root / "food-101"
    listed = {"soup": ["soup/2", "soup/0"], "cake": ["cake/1", "cake/0", "cake/2"]}
    for name in sum(listed.values(), []):
        picture(base / "images" / f"{name}.jpg")
    (base / "meta").mkdir()
    (base / "meta" / "train.json").write_text(json.dumps(listed))
    return _module("food101").Food101(root, **options)


def pets(root: Path, options: dict[str, Any]) -> Any:
    base, lines = root / "oxford-iiit-pet", ["Birman_1 2 1 1", "beagle_7 1 2 1", "Birman_3 2 1 2"]
    for line in lines:
        picture(base / "images" / f"{line.split()[0]}.jpg")
    (base / "annotations").mkdir()
    (base / "annotations" / "trainval.txt").write_text("\n".join(lines) + "\n")
    return _module("oxford_iiit_pet").OxfordIIITPet(root, **options)


def two_targets(root: Path, options: dict[str, Any]) -> Any:
    return pets(root, {**options, "target_types": ["binary-category", "category"]})


def cars(root: Path, options: dict[str, Any]) -> Any:
    base = root / "stanford_cars"
    (base / "devkit").mkdir(parents=True)
    rows = np.zeros(4, dtype=[("class", "O"), ("fname", "O")])
    for number, label in enumerate((2, 1, 2, 3)):
        picture(base / "cars_train" / f"{number}.jpg")
        rows[number] = np.uint8(label), f"{number}.jpg"
    write_tables(base / "devkit" / "cars_train_annos.mat", {"annotations": rows})
    write_tables(base / "devkit" / "cars_meta.mat", {"class_names": np.array(["a", "b", "c"], dtype=object)})
    return _module("stanford_cars").StanfordCars(root, **options)


def aircraft(root: Path, options: dict[str, Any]) -> Any:
    data = root / "fgvc-aircraft-2013b" / "data"
    for number in range(4):
        picture(data / "images" / f"{number}.jpg")
    (data / "families.txt").write_text("A320\nBoeing 737\n")
    (data / "images_family_trainval.txt").write_text("0 A320\n1 Boeing 737\n2 Boeing 737\n3 A320\n")
    return _module("fgvc_aircraft").FGVCAircraft(root, annotation_level="family", **options)


def places(root: Path, options: dict[str, Any]) -> Any:
    for number in range(3):
        picture(root / "val_256" / f"{number}.jpg")
    (root / "categories_places365.txt").write_text("/a/abbey 0\n/b/bar 1\n")
    (root / "places365_val.txt").write_text("0.jpg 1\n1.jpg 0\n2.jpg 1\n")
    return _module("places365").Places365(root, "val", small=True, **options)


def caltech101(root: Path, options: dict[str, Any]) -> Any:
    base = root / "caltech101" / "101_ObjectCategories"
    for name in ("BACKGROUND_Google", "Faces", "ant"):
        for number in (1, 2, 3):
            picture(base / name / f"image_{number:04d}.jpg", "L" if number == 2 else "RGB")
    return _module("caltech").Caltech101(root, **options)


def caltech256(root: Path, options: dict[str, Any]) -> Any:
    base = root / "caltech256" / "256_ObjectCategories"
    for place, name in enumerate(("001.ak47", "002.flag"), 1):
        for number in (1, 2):
            picture(base / name / f"{place:03d}_{number:04d}.jpg", "L" if number == 2 else "RGB")
    return _module("caltech").Caltech256(root, **options)


def sun397(root: Path, options: dict[str, Any]) -> Any:
    base = root / "SUN397"
    for number, name in enumerate(("a/abbey", "b/bar/indoor", "a/abbey")):
        picture(base / name / f"sun_{number}.jpg")
    (base / "ClassName.txt").write_text("/a/abbey\n/b/bar/indoor\n")
    return _module("sun397").SUN397(root, **options)


def textures(root: Path, options: dict[str, Any]) -> Any:
    base, names = root / "dtd" / "dtd", ["woven/0.jpg", "banded/1.jpg", "woven/2.jpg"]
    for name in names:
        picture(base / "images" / name)
    (base / "labels").mkdir()
    (base / "labels" / "train1.txt").write_text("\n".join(names) + "\n")
    return _module("dtd").DTD(root, **options)


def signs(root: Path, options: dict[str, Any]) -> Any:
    for label in ("00000", "00014"):
        for number in range(2):
            picture(root / "gtsrb" / "GTSRB" / "Training" / label / f"{number}.ppm")
    return _module("gtsrb").GTSRB(root, **options)


def tested_signs(root: Path, options: dict[str, Any]) -> Any:
    base = root / "gtsrb"
    for number in range(3):
        picture(base / "GTSRB" / "Final_Test" / "Images" / f"{number}.ppm")
    lines = ["Filename;Width;ClassId", "0.ppm;20;7", "1.ppm;20;3", "2.ppm;20;7"]
    (base / "GT-final_test.csv").write_text("\n".join(lines) + "\n")
    return _module("gtsrb").GTSRB(root, "test", **options)


def sentences(root: Path, options: dict[str, Any]) -> Any:
    for label in ("negative", "positive"):
        picture(root / "rendered-sst2" / "train" / label / "0.png")
        picture(root / "rendered-sst2" / "train" / label / "1.png")
    return _module("rendered_sst2").RenderedSST2(root, **options)


def clevr(root: Path, options: dict[str, Any]) -> Any:
    base = root / "clevr" / "CLEVR_v1.0"
    (base / "scenes").mkdir(parents=True)
    names = [f"CLEVR_{number}.png" for number in range(3)]
    scenes = [{"image_filename": name, "objects": [{}] * (3 + n)} for n, name in enumerate(names)]
    for name in names:
        picture(base / "images" / "val" / name)
    (base / "scenes" / "CLEVR_val_scenes.json").write_text(json.dumps({"scenes": scenes}))
    return _module("clevr").CLEVRClassification(root, "val", **options)


def faces(root: Path, options: dict[str, Any]) -> Any:
    base = root / "lfw-py"
    for name, number in (("Ada_L", 1), ("Ada_L", 2), ("Bo_B", 1)):
        picture(base / "lfw_funneled" / name / f"{name}_{number:04d}.jpg")
    (base / "lfw-names.txt").write_text("Ada_L 2\nBo_B 1\n")
    (base / "peopleDevTrain.txt").write_text("2\nBo_B\t1\nAda_L\t2\n")
    return _module("lfw").LFWPeople(root, "train", **options)


def plants(root: Path, options: dict[str, Any]) -> Any:
    for name in ("00000_Animalia_B_C_D_E_F_G", "00001_Plantae_B_C_D_E_F_H"):
        picture(root / "2021_train_mini" / name / "0.jpg")
        picture(root / "2021_train_mini" / name / "1.jpg", "L")
    return _module("inaturalist").INaturalist(
        root, "2021_train_mini", target_type=["kingdom", "full"], **options
    )


OPENED_AS_RGB: list[Make] = [
    *(image_folder, valid_files, dataset_folder, imagenet, imagenette, eurosat, country211, flowers102),
    *(food101, pets, two_targets, cars, aircraft, places, sun397, textures, signs, tested_signs, sentences),
    *(clevr, faces),
]
IN_ANY_MODE: list[Make] = [caltech101, caltech256, plants]
INTEGRITY = {"flowers102": "Flowers102", "places365": "Places365", "lfw": "LFWPeople"}


def accept_files(monkeypatch: Any) -> None:
    """Without the checksums of the files that the whole data sets have, and without scipy."""
    scipy = types.ModuleType("scipy")
    scipy.io = types.ModuleType("scipy.io")
    scipy.io.loadmat = _read_tables
    monkeypatch.setitem(sys.modules, "scipy", scipy)
    monkeypatch.setitem(sys.modules, "scipy.io", scipy.io)
    for module, name in INTEGRITY.items():
        monkeypatch.setattr(getattr(_module(module), name), "_check_integrity", lambda *given: True)


def ships(monkeypatch, cls, name, function):
    """A version of the library whose class has this function, as far as anybody can tell."""
    shipped.replaced(cls.__module__)  # has been looked at
    known = shipped._codes(sys.modules[cls.__module__])
    monkeypatch.setitem(known, f"{cls.__qualname__}.{name}", [function.__code__])
    monkeypatch.setattr(cls, name, function)
