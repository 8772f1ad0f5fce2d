"""`import millrace` costs next to nothing, and every public name is there when it is asked for."""

from __future__ import annotations

import gc
import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MOST_MODULES = 4  # that `import millrace` may add to those of torch
MOST_FOR_THE_LOADER = 78  # and the class, which each spawned worker imports with the script
MOST_FOR_TENSORS = 125  # and a loader over a TensorDataset

PUBLIC = {
    "millrace": """
        Advice BatchHistory CorruptDataError DataLoader DevicePrefetcher DriftAlarm DriftError DriftOptions
        DriftProfile DriftWarning Estimate FrozenList Pad Report StateError Suggestion UnavailableError bench
        cpu_budget datasets default_collate default_convert dump_on_signal empty_cache errors estimate examine
        frozen gather_state get_worker_info install merge_states need_of nvtx pack prometheus rank_report
        replay samplers serve_metrics stores transcode_jpeg transforms uninstall watch
    """,
    "millrace.datasets": """
        Arrays ArrowFile DecodingError HDF5 IMG_EXTENSIONS ImageFolder IndexedWebDataset JSONField JSONL
        JSONLStream Lines Mixture PackedSequences PackedStream Parquet Table Tokenized Tokens WebDataset
        WebLoader Zarr cu_seqlens decode_with_pillow document_mask document_mask_mod ignore_and_continue
        ignore_and_stop pil_loader reraise_exception single_node_only split_by_node split_by_worker
        warn_and_continue warn_and_stop webdataset
    """,
    "millrace.samplers": """
        BatchSampler ChunkShuffle DistributedSampler DistributedWeightedSampler LengthGroupedSampler
        MixtureSampler PermutationSampler RandomSampler SequentialSampler ShardShuffle ShuffleBuffer
        StratifiedBatchSampler SubsetRandomSampler TwoTierShuffle WeightedRandomSampler native
        weights_from_labels
    """,
    "millrace.transforms": """
        AutoAugment AutoAugmentPolicy CenterCrop ColorJitter Compose ConvertImageDtype FiveCrop GaussianBlur
        GaussianNoise Grayscale InterpolationMode MultiView Normalize PILToTensor Pad RandAugment
        RandomAdjustSharpness RandomAffine RandomApply RandomAutocontrast RandomBatchSize RandomChoice
        RandomCrop
        RandomEqualize RandomErasing RandomGrayscale RandomHorizontalFlip RandomInvert RandomOrder
        RandomPerspective RandomPhotometricDistort RandomPosterize RandomResize RandomResizedCrop
        RandomRotation RandomShortestSize RandomSolarize RandomVerticalFlip RandomZoomOut Resize ScaleJitter
        TenCrop ToDtype ToImage ToTensor Transform TrivialAugmentWide batch functional
    """,
    "millrace.transforms.batch": """
        Augmentation BatchTransform ColorJitter Compose CutMix MixUp Normalize RandomAffine RandomErasing
        RandomGrayscale RandomHorizontalFlip RandomRotation augment functional
    """,
    "millrace.stores": "DiskCache Settings ShardStream open_shards open_source",
}


def test_the_module_is_linked_to_no_torch():
    """One build runs under every version; what else it is linked to is there."""
    from millrace import _core

    shared = {
        name: run_tool(tool, _core.__file__)
        for name, tool in (("needed", ["readelf", "-d"]), ("found", ["ldd"]))
    }
    assert "NEEDED" in shared["needed"] and "libc.so" in shared["found"]
    assert not re.search(r"libtorch|libc10|libpython", shared["needed"])
    assert "not found" not in shared["found"]


def run_tool(tool: list[str], path: str) -> str:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"there is no {tool[0]}")
    return subprocess.run([*tool, path], capture_output=True, text=True, check=True).stdout


def fresh(code: str) -> list[str]:
    """The words that `code` prints in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def test_an_import_adds_few_modules() -> None:
    added = fresh(
        "import sys, torch; before = set(sys.modules); import millrace; print(*set(sys.modules) - before)"
    )
    assert "millrace" in added and len(added) <= MOST_MODULES


def test_the_class_brings_no_engine() -> None:
    added = fresh(
        "import sys, torch, torch.utils.data; before = set(sys.modules)\n"
        "from millrace import DataLoader\n"
        "print(*set(sys.modules) - before)"
    )
    assert "millrace.dataloader" in added and len(added) <= MOST_FOR_THE_LOADER


def test_a_loader_of_tensors_brings_no_other_dataset() -> None:
    """Pillow, shards, tables and stores are imported with what needs them."""
    added = fresh(
        "import sys, torch, torch.utils.data; before = set(sys.modules)\n"
        "from millrace import DataLoader\n"
        "rows = torch.utils.data.TensorDataset(torch.zeros(4, 2))\n"
        "assert DataLoader(rows, 2, native='require').explain() and list(DataLoader(rows, 2))\n"
        "print(*set(sys.modules) - before)"
    )
    assert "millrace.dataloader" in added and len(added) <= MOST_FOR_TENSORS
    others = ("PIL", "millrace.datasets.webdataset", "millrace.datasets.tables", "millrace.stores.transfer")
    assert not [name for name in added if name.startswith(others)]


def test_no_collection_runs_while_a_name_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that looks at all of torch's objects takes as long as all of the imports."""
    (tmp_path / "of_lists").mkdir()
    (tmp_path / "of_lists/__init__.py").write_text(
        "from millrace._common.lazy import lazy_names\n"
        "__getattr__, __dir__, __all__ = lazy_names(__name__, '.many: runs\\n .broken: nothing')\n"
    )
    (tmp_path / "of_lists/many.py").write_text(
        "import gc\n"
        "before = gc.get_stats()[0]['collections']\n"
        "lists = [[] for _ in range(100_000)]\n"
        "runs = gc.get_stats()[0]['collections'] - before\n"
    )
    (tmp_path / "of_lists/broken.py").write_text("raise ImportError('broken')\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("of_lists")
    with pytest.raises(ImportError, match="broken"):
        package.nothing
    assert gc.isenabled() and package.runs == 0 and gc.isenabled()
    del package.runs
    gc.disable()
    try:
        assert package.runs == 0 and not gc.isenabled()  # as it was
    finally:
        gc.enable()


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module: str) -> None:
    names = sorted(PUBLIC[module].split())
    package = importlib.import_module(module)
    assert sorted(package.__all__) == names
    assert set(names) <= set(dir(package))
    star: dict[str, object] = {}
    exec(f"from {module} import *", star)
    for name in names:
        assert star[name] is getattr(package, name)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'no_such_name'"):
        package.no_such_name
    with pytest.raises(ImportError):
        exec(f"from {module} import no_such_name")


def test_names_are_the_same_whatever_was_imported_before() -> None:
    """native is a function, whatever module came first; webdataset a package, and names in it."""
    for first in ("import millrace.samplers.resumable", "from millrace.samplers.resumable import known"):
        code = f"{first}; import millrace; print(callable(millrace.samplers.native))"
        assert fresh(code) == ["True"]
    assert fresh("import millrace; print(millrace.datasets.webdataset.WebDataset.__name__)") == ["WebDataset"]


def test_torchs_samplers_are_known_without_asking_for_ours() -> None:
    code = (
        "from torch.utils.data import RandomSampler; from millrace.samplers import native;"
        " print(type(native(RandomSampler([1]))).__module__)"
    )
    assert fresh(code) == ["millrace.samplers.torchs"]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name
)
def test_pages_for_users_name_no_private_module(page: Path) -> None:
    assert not re.findall(r"millrace[./]_[a-z]\w*", page.read_text(encoding="utf-8"))


def test_examples_use_public_names() -> None:
    for path in (ROOT / "examples").glob("*.py"):
        assert not re.findall(
            r"millrace\._(tools|loader|profiling|common)", path.read_text(encoding="utf-8")
        ), path.name
