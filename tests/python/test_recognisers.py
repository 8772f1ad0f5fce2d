"""Which recogniser is asked about a dataset; and what it takes to teach the loader a class of one's own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_data import make_folder, torchvision_or_skip
from millrace import DataLoader, _core, transforms
from millrace._common.lowering.memory_rows import table_rows
from millrace._loader.engines.native import Files
from millrace._loader.plan import plan as planner
from millrace._loader.plan.in_memory import Rows
from millrace._loader.plan.pictures import Pictures
from millrace._loader.plan.recognisers import RECOGNISERS
from millrace._loader.plan.source import Source
from millrace.datasets import HDF5, ImageFolder
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset


class Squares(torch.utils.data.Dataset):
    def __init__(self, count: int) -> None:
        self.numbers = np.arange(count) ** 2

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Any:
        return self.numbers[index]


class Album(torch.utils.data.Dataset):
    def __init__(self, folder: ImageFolder) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return len(self.folder)

    def __getitem__(self, index: int) -> Any:
        return self.folder[index]


class OfSquares(Squares):
    pass


def _album(album: Album) -> Source:
    def files() -> Files:
        paths, labels = album.folder.file_table()
        return Files(_core.PathFiles(paths), labels, paths)

    return Source("album", album.folder.transform, files)


SQUARES = Rows(lambda squares: table_rows(squares.numbers), claims=lambda squares: len(squares) > 1)
ALBUM = Pictures(_album)


@pytest.fixture
def taught(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [(f"{__name__}.{name}", f"{__name__}:{name.upper()}") for name in ("Squares", "Album")]
    monkeypatch.setattr(planner, "RECOGNISERS", [*lines, *RECOGNISERS])


@pytest.mark.parametrize("name, origin", RECOGNISERS)
def test_lines_of_the_table_lead_somewhere(name: str, origin: str) -> None:
    assert isinstance(planner.late(origin), planner.Recogniser)
    module, _, cls = name.rpartition(".")
    if module.startswith(("torchvision.", "timm.")):
        torchvision_or_skip()
    if module.startswith(("timm.", "datasets.")):
        pytest.importorskip(module)
    found = getattr(importlib.import_module(module), cls)
    assert f"{found.__module__}.{found.__qualname__}" == name  # as it is looked for


def test_a_line_and_an_object_make_rows_of_a_dataset(taught: None) -> None:
    for dataset in (Squares(9), Subset(Squares(9), [8, 1]), ConcatDataset([Squares(3), Squares(2)])):
        loader = DataLoader(dataset, 2, native="require")
        told = torch.utils.data.DataLoader(dataset, 2)
        assert [batch.tolist() for batch in loader] == [batch.tolist() for batch in told]
    both = DataLoader(StackDataset(Squares(3), torch.zeros(3)), 3, native="require")
    assert next(iter(both))[0].tolist() == [0, 1, 4]
    for python in (Squares(1), OfSquares(9)):
        assert f"dataset: python — {type(python).__name__} is Python code" in DataLoader(python).explain()


def test_a_line_and_an_object_make_pictures_of_a_dataset(taught: None, tmp_path: Any) -> None:
    make_folder(tmp_path, 6)
    chain = transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()])
    album = Album(ImageFolder(str(tmp_path), chain))
    loader = DataLoader(album, 3, native="require")
    assert "dataset: native — album of 6 files" in loader.explain()
    assert [labels.tolist() for _, labels in loader] == [[0, 0, 1], [1, 2, 2]]
    joined = DataLoader(ConcatDataset([album, album.folder]), 12, native="require")
    assert next(iter(joined))[1].tolist() == [0, 0, 1, 1, 2, 2] * 2
    album.folder.transform = transforms.Compose([transforms.Resize((8, 8)), str])
    assert "transform: python — str" in (told := DataLoader(album).explain()) and "native — Resize" in told


def test_a_class_of_the_same_name_is_another(taught: None) -> None:
    twin = type("Squares", (torch.utils.data.Dataset,), {"__module__": __name__, "__len__": lambda self: 3})
    assert "Squares is Python code" in DataLoader(twin()).explain()


def test_what_an_object_was_given_runs(tmp_path: Any) -> None:
    """As for every dataset in memory, of files that are mapped, too."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "numbers.h5", "w") as file:
        file["x"] = np.arange(4)
    dataset: Any = HDF5(str(tmp_path / "numbers.h5"))
    assert "mapped files" in DataLoader(dataset, native="require").explain()
    dataset.__getitems__ = lambda indices: [{"x": 7} for _ in indices]
    assert next(iter(DataLoader(dataset, 2)))["x"].tolist() == [7, 7]


def _folder(root: Path, *further: Any) -> ImageFolder:
    make_folder(root, 6)
    return ImageFolder(
        str(root), transforms.Compose([transforms.Resize((8, 8)), *further, transforms.ToTensor()])
    )


LOADERS = {
    "pictures": _folder,
    "joined pictures": lambda root: ConcatDataset([_folder(root)]),
    "rows": lambda root: TensorDataset(torch.zeros(4, 2)),
    "Python code": lambda root: Squares(3),
    "Python code behind known steps": lambda root: _folder(root, str),
}


@pytest.mark.parametrize("name", LOADERS)
def test_the_way_of_a_plan_leads_back_to_the_table_seldom(name: str, tmp_path: Path) -> None:
    loader, table = DataLoader(LOADERS[name](tmp_path), 2), Path(planner.__file__)
    planner.make_plan(loader)
    entered: list[Path] = []  # files of the planner's folder, one for each frame that is there
    way = [table]

    def follow(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            file = Path(frame.f_code.co_filename)
            entered.append(file if file.parent == table.parent or not entered else entered[-1])
        elif event == "return" and entered:
            entered.pop()
        if entered and way[-1] != entered[-1]:
            way.append(entered[-1])

    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        plan = planner.make_plan(loader)
    finally:
        sys.setprofile(before)
    assert plan.stages and way[-1] == table and 0 < way.count(table) - 1 <= 8
