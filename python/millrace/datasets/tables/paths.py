"""Which files a table has: paths, URLs, globs, folders, lists of these; and the columns that folders named
key=value stand for.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from typing import Any, Union
from urllib.parse import unquote

from millrace.stores.locations import locate

from ..webdataset.urls import expand_braces
from .rules import shown

Paths = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def list_files(paths: Paths, endings: Sequence[str]) -> list[str]:
    """Files and URLs, in the order given; a folder's and a glob's sorted. Of a folder, those at any depth
    that end in one of `endings`;
    names that begin with "_" or "." are passed over. FileNotFoundError where there is none.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = expand_braces(os.fspath(paths)) if not os.path.exists(paths) else [paths]
    found: list[str] = []
    for path in paths:
        found += _files_of(os.fspath(path), tuple(endings))
    if not found:
        raise FileNotFoundError("there are no files: the list of paths is empty")
    return found


def _files_of(path: str, endings: tuple[str, ...]) -> list[str]:
    local = locate(path).local
    if local is None:
        if "*" in path:
            raise ValueError(
                f"{path!r}: what a store holds is not listed; name the objects, 'part-{{000..127}}.parquet'"
                " is allowed"
            )
        return [path]
    local = os.path.expanduser(local)
    if os.path.isdir(local):
        found = []
        for folder, folders, names in os.walk(local):
            folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
            found += [
                os.path.join(folder, n)
                for n in sorted(names)
                if n.endswith(endings) and not n.startswith(("_", "."))
            ]
        if not found:
            raise FileNotFoundError(f"{path}: the folder holds no file that ends in {' or '.join(endings)}")
        return found
    if not os.path.exists(local) and glob.has_magic(local):
        found = sorted(name for name in glob.glob(local, recursive=True) if os.path.isfile(name))
        if not found:
            raise FileNotFoundError(f"{path}: no file matches")
        return found
    if not os.path.exists(local):
        raise FileNotFoundError(f"{path}: no such file")
    return [local]


class Partitions:
    """`names`: the keys in the files' paths; `rows`: their values for each file, int where all files have
    ints, else str; None: null.
    """

    def __init__(self, files: Sequence[str]) -> None:
        found = [_keys_of(file) for file in files]
        self.names: tuple[str, ...] = tuple(found[0]) if found else ()
        for file, keys in zip(files, found):
            if tuple(keys) != self.names:
                raise ValueError(
                    f"{file}: its folders name {shown(list(keys))}, and those of {files[0]}"
                    f" {shown(self.names)}; give files of one layout, or hive=False"
                )
        columns = [_typed([keys[name] for keys in found]) for name in self.names]
        self.rows: list[tuple[Any, ...]] = list(zip(*columns)) if columns else [()] * len(files)

    def is_text(self, name: str) -> bool:
        number = self.names.index(name)
        return any(isinstance(row[number], str) for row in self.rows)

    def values(self, file: int) -> dict[str, Any]:
        return dict(zip(self.names, self.rows[file]))


def _keys_of(file: str) -> dict[str, str | None]:
    keys: dict[str, str | None] = {}
    for part in file.partition("?")[0].split("/")[:-1]:
        name, equals, value = part.partition("=")
        if equals and name and not name.startswith("."):
            keys[unquote(name)] = None if value == _NO_VALUE else unquote(value)
    return keys


def _typed(values: list[str | None]) -> list[Any]:
    try:
        return [None if value is None else int(value) for value in values]
    except ValueError:
        return list(values)
