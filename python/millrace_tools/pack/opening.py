"""What SRC is: the Source that pack() reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .dataset_source import ParquetSource, dataset_source
from .shard_source import shard_source
from .sources import FolderSource, Source


def open_source(source: Any) -> Source:
    """The Source of a folder of class folders, Parquet files, tar shards, or a Dataset.

    A string or path is looked at: a folder with *.parquet or *.tar (.gz, .zst) in it is read as those, any
    other folder as class folders; files and URLs (braces and lists too) by their endings. Everything else
    should have __getitem__ and __len__, or __iter__.
    """
    if isinstance(source, Source):
        return source
    paths = source if isinstance(source, (list, tuple)) and source else [source]
    if not all(isinstance(path, (str, os.PathLike)) for path in paths):
        return dataset_source(source)
    names = [os.fspath(path) for path in paths]
    if paths is not source and os.path.isdir(source):
        folder = Path(source)
        found = sorted(map(str, folder.rglob("*.parquet"))) or sorted(map(str, folder.glob("*.tar*")))
        names = [name for name in found if not name.endswith((".index", ".part"))]
        if not names:
            return FolderSource.of_folder(os.fspath(source))
    if all(name.endswith(".parquet") for name in names):
        return ParquetSource(names)
    if any(".tar" in name or name.endswith(".tgz") for name in names):
        return shard_source(names)
    if not os.path.exists(names[0]):
        raise FileNotFoundError(
            f"{names[0]} does not exist: SRC should be a folder, Parquet files, tar shards or"
            " module:attribute"
        )
    raise ValueError(f"{names[0]} is no folder, and neither a .parquet nor a .tar file")
