"""README and docs are true: their Python runs as printed, the README's table is the stored results'."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from pictures import make_jpeg_folder
from shard_data import make_picture_shards

from benchmarks import compare

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NEEDED = {"array_files": ("h5py", "zarr"), "tables": ("pyarrow", "duckdb")}  # by a page


def blocks_of(path: Path) -> list:
    """Its Python, in the order of the page."""
    found = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)
    compiled = []
    for number, block in enumerate(found, 1):
        name = f"{path.name}, block {number}"
        linecache.cache[name] = len(block), None, block.splitlines(True), name  # some of it is read
        compiled.append(compile(block, name, "exec", dont_inherit=True))
    return compiled


def make_arrays(folder: Path) -> None:
    import h5py
    import zarr

    with h5py.File(folder / "measured-1.h5", "w") as file:
        file["images"], file["labels"] = np.zeros((9, 3, 8, 8), np.float32), np.arange(9)
    group = zarr.open_group(folder / "weather.zarr", mode="w")
    group.create_array(
        "t2m", shape=(40, 6, 5), chunks=(10, 6, 5), dtype="f4", dimension_names=("time", "lat", "lon")
    )[:] = 1


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_jpeg_folder(tmp_path / "photos", per_class=50)
    (tmp_path / "photos" / "ant" / "broken.jpg").write_bytes(b"")
    make_picture_shards(tmp_path / "tars", [10, 7, 10, 5])
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    first, *others = blocks_of(ROOT / "README.md")

    with pytest.raises(OSError, match="broken.jpg"):  # on_error="raise" is what the first block has
        exec(first, names)
    (tmp_path / "photos" / "ant" / "broken.jpg").unlink()
    exec(first, names)
    assert names["images"].shape == (150 % 128, 3, 224, 224) and names["images"].dtype == torch.float32
    assert names["labels"].dtype == torch.int64
    assert {"threads"} == {names["loader"].stats()["engine"]}, "the README's script runs on the engine"
    for block in others:
        exec(block, names)


@pytest.mark.parametrize(
    "page", [path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in PAGES]
)
def test_pages_run(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    if page == "pictures":
        request.getfixturevalue("torchvision")
    for package in NEEDED.get(page, ()):
        pytest.importorskip(package)
    make_jpeg_folder(tmp_path / "photos", per_class=50)
    make_picture_shards(tmp_path / "tars", [10, 7, 10, 5])
    if page == "array_files":
        make_arrays(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks_of(ROOT / "docs" / f"{page}.md"):
        exec(block, names)
    out = capsys.readouterr().out
    if page == "native":
        whole, partly = out.split("files, read and decoded where samples are made")
        assert "native" in whole and "python —" not in whole
        assert (
            "transform: native — RandomResizedCrop, RandomHorizontalFlip\ntransform: python — cutout"
            in partly
        )
    if page == "pictures":
        found = names["loader"].stats()
        assert found["pictures"]["opened"] >= found["samples"] and not found["pictures"]["left_to_pillow"]
    if page == "resume":
        assert names["loader"].auto_epoch, "the last loader of the page"


def test_pages_are_found_from_the_readme() -> None:
    """No link leads nowhere; README.md has one to each page, but those that a folder's first page has."""
    made = {
        ROOT / "docs" / found for found in re.findall(r"\bapi/\w+\.md", (ROOT / "mkdocs.yml").read_text())
    }
    linked: dict[Path, set[Path]] = {}
    for path in [ROOT / "README.md", *PAGES]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            there = (path.parent / target).resolve()
            assert there.exists() or there in made, f"{path.name}: {target}"
            linked.setdefault(path, set()).add(there)
    for page in PAGES:
        first = page.parent / "index.md"
        start = ROOT / "README.md" if page.parent == ROOT / "docs" or page == first else first
        assert page in linked[start], f"{start.name} has no link to {page.name}"


def test_pages_say_nothing_in_the_blocks_of_others() -> None:
    """What stands in a block marked py is another project's and is not run: it must not be ours."""
    for path in PAGES:
        for block in re.findall(r"^```py\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
            compile(block, path.name, "exec")
            assert "millrace" not in block and path.parent.name == "migrate"


def test_at_gives_a_row_of_the_epoch_again(tmp_path: Path) -> None:
    from millrace import DataLoader, transforms
    from millrace.datasets import ImageFolder

    chain = [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    train = ImageFolder(make_jpeg_folder(tmp_path / "photos", per_class=4), transforms.Compose(chain))
    loader = DataLoader(train, batch_size=12, num_workers=2)
    ((images, _),) = loader
    again, label = train.at(5, loader.seed, loader.epoch)
    assert torch.equal(again, images[5]) and label == train.targets[5]


def test_torchvision_needs_only_the_first_line(tmp_path: Path, torchvision) -> None:
    from millrace import DataLoader
    from torchvision.transforms import v2

    chain = v2.Compose([v2.RandomResizedCrop(32), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    train = torchvision.datasets.ImageFolder(make_jpeg_folder(tmp_path / "photos", per_class=4), chain)
    assert len(list(DataLoader(train, 4, num_workers=1, native="require"))) == 3


def test_the_table_is_what_was_measured() -> None:
    block = TEXT.partition(compare.BEGIN)[2].partition(compare.END)[0].strip()
    reports = [
        compare.report(compare.read_results(path), workers=workers, scenarios=scenarios)
        for path in sorted((ROOT / "benchmarks" / "results").glob("*.jsonl"))
        for workers in (None, [2])
        for scenarios in (None, ["imagenet_train"])
    ]
    assert block in (reports or [""]), (
        "python -m benchmarks.compare RESULTS --workers 2 --readme README.md writes the table anew"
    )
