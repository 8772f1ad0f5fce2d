"""Which files a table has, local or in a store, and TableFiles: what Parquet and ArrowFile have in common.

Paths, URLs, globs, folders, and lists of these; folders named key=value are columns. Files are opened when
they are read, and held to what they were at first.
"""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Union
from urllib.parse import unquote

from millrace import stores

from ..._common.per_process import PerProcess
from ..._common.regular_files import open_regular
from ...stores.settings import locate, shown
from ..kept import FirstVersions
from ..source_file import SourceFile
from ..webdataset.urls import expand_braces
from .filtering import Progress
from .rules import Rules, unified
from .rules import shown as names_shown
from .tabular import Chunk, Tabular, check_same

Paths = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def list_files(paths: Paths, endings: Sequence[str], magic: bytes) -> list[str]:
    """Files and URLs, in the order given; a folder's and a glob's sorted. Of a folder, those at any depth
    that end in one of `endings`, in letters of any case, or begin with the bytes `magic`; others are warned
    of. Names that begin with "_" or "." are passed over, as pyarrow.dataset does. FileNotFoundError where
    there is none.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = expand_braces(os.fspath(paths)) if not os.path.exists(paths) else [paths]
    found: list[str] = []
    for path in paths:
        found += _files_of(os.fspath(path), tuple(endings), magic)
    if not found:
        raise FileNotFoundError("there are no files: the list of paths is empty")
    return found


def _files_of(path: str, endings: tuple[str, ...], magic: bytes) -> list[str]:
    local = locate(path).local
    if local is None:
        if "*" in path:
            raise ValueError(
                f"{path!r}: what a store holds is not listed; name the objects, 'part-{{000..127}}.parquet'"
                " is allowed"
            )
        return [path]
    local = os.path.expanduser(local)
    found, lacking = [], "no such file"
    if os.path.isdir(local):
        found = _files_in(local, endings, magic)
        lacking = f"the folder holds no file that ends in {' or '.join(endings)}"
    elif os.path.exists(local):
        found = [local]
    elif glob.has_magic(local):
        lacking = "no file matches"
        for name in sorted(glob.glob(local, recursive=True)):
            if os.path.isfile(name):
                found.append(name)
            elif "**" not in local and not os.path.basename(name).startswith("_"):  # as Spark leaves tables
                found += _files_in(name, endings, magic)
    if not found:
        raise FileNotFoundError(f"{path}: {lacking}")
    return found


def _files_in(path: str, endings: tuple[str, ...], magic: bytes) -> list[str]:
    found: list[str] = []
    others: list[str] = []
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for name in sorted(names):
            if not name.startswith(("_", ".")):
                file = os.path.join(folder, name)
                ours = name.lower().endswith(endings) or _begins_with(file, magic)
                (found if ours else others).append(file)
    if found and others:
        warnings.warn(
            f"{path}: {names_shown(others)} left out: what else the folder holds ends in {endings[0]}; name"
            " the files to read, or begin the names of others with _",
            stacklevel=6,
        )
    return found


def _begins_with(file: str, magic: bytes) -> bool:
    try:
        with open_regular(file, "rb") as opened:
            return opened.read(len(magic)) == magic
    except OSError:
        return False


class Partitions:
    """`columns`: {key in the files' paths: its value for each file}, int where all files have ints, else str;
    None: null.
    """

    def __init__(self, files: Sequence[str]) -> None:
        found = [_keys_of(file) for file in files]
        names = list(found[0]) if found else []
        for file, keys in zip(files, found):
            if list(keys) != names:
                raise ValueError(
                    f"{file}: its folders name {names_shown(list(keys))}, and those of {files[0]}"
                    f" {names_shown(names)}; give files of one layout, or hive=False"
                )
        self.columns = {name: _typed([keys[name] for keys in found]) for name in names}

    def is_text(self, name: str) -> bool:
        return any(isinstance(value, str) for value in self.columns[name])

    def values(self, file: int) -> dict[str, Any]:
        return {name: column[file] for name, column in self.columns.items()}


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


_OPEN_SOURCES = 64
# bytes of each object that are kept: what was read is decoded and not asked for again
_SOURCE_MEMORY = 16 << 20
_MOST_REQUESTS = 16
_GAP = 256 << 10  # bytes between two ranges that are rather read than left out


def _opener(cache: Any, store_options: dict[str, Any] | None) -> Callable[[str], Any]:
    """stores.open_source(), which keeps open what it opened last."""
    kept: dict[str, Any] = {} if cache is not None else {"memory": _SOURCE_MEMORY}
    opens = partial(stores.open_source, cache=cache, store_options=store_options, **kept)
    return lru_cache(_OPEN_SOURCES)(opens)


class Files:
    """Files by number. Picklable; open files belong to one process."""

    def __init__(self, paths: Sequence[str], cache: Any, store_options: dict[str, Any] | None) -> None:
        self._paths, self._first = list(paths), FirstVersions()
        self._open = PerProcess(_opener, cache, store_options)

    def __len__(self) -> int:
        return len(self._paths)

    def name(self, file: int) -> str:
        return shown(self._paths[file])

    def local(self, file: int) -> str | None:
        return locate(self._paths[file]).local

    def check(self, file: int) -> None:
        """CorruptDataError when a local file is no longer what it was when it was first looked at.
        FileNotFoundError when it is gone, OSError when it is no regular file.
        """
        path = self.local(file)
        if path is not None:
            self._first.check_file(path)

    def source(self, file: int) -> Any:
        """The file's ByteSource."""
        return self._open()(self._paths[file])  # of this process: sources of stores are not forked

    def as_file(self, file: int, ranges: Sequence[tuple[int, int]] = ()) -> str | SourceFile:
        """What pyarrow opens: a local file's path, or a file object that has these ranges (offset, size) at
        hand.
        """
        self.check(file)
        local = self.local(file)
        if local is not None:
            return local
        source = self.source(file)
        return SourceFile(source, fetch_ranges(source, ranges))


def fetch_ranges(source: Any, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, bytes]]:
    """The bytes of ranges (offset, size), near ones together, all asked for at once: (offset, bytes),
    rising.
    """
    joined: list[list[int]] = []
    for begin, size in sorted(ranges):
        if joined and begin <= joined[-1][1] + _GAP:
            joined[-1][1] = max(joined[-1][1], begin + size)
        else:
            joined.append([begin, begin + size])
    if len(joined) <= 1:
        return [(begin, source.read_at(begin, end - begin)) for begin, end in joined]
    with ThreadPoolExecutor(min(len(joined), _MOST_REQUESTS), thread_name_prefix="millrace-ranges") as pool:
        return list(pool.map(lambda part: (part[0], source.read_at(part[0], part[1] - part[0])), joined))


class TableFiles(Tabular):
    """The base. A class derived from it reads what each file says of itself, then calls _prepare_files(),
    which asks the three methods below it.
    """

    def __init__(
        self,
        listed: Sequence[str],
        hive: bool,
        cache: Any,
        store_options: dict[str, Any] | None,
        rules: Rules,
        filters: Any,
        progress: Progress,
        cache_bytes: int | None,
    ) -> None:
        super().__init__(rules, filters, progress, cache_bytes)
        self._files = Files(listed, cache, store_options)
        self._partitions = Partitions(listed if hive else [])

    @property
    def files(self) -> list[str]:
        return [self._files.name(file) for file in range(len(self._files))]

    def _prepare_files(self, columns: Sequence[str] | None) -> None:
        """Reads the files' schemas. ValueError names a file with other columns than the first."""
        schema = self._schema_of(0)
        inside = [name for name in schema.names if name not in self._partitions.columns]
        wanted = inside if columns is None else [name for name in columns if name in inside]
        if self._rules.types == "unified":
            self._rules = replace(self._rules, types=self._unified_types(schema, wanted))
            for name, kind in self._rules.types.items():  # type: ignore[union-attr]
                at = schema.get_field_index(name)
                schema = schema.set(at, schema.field(at).with_type(kind))
        chunks: list[Chunk] = []
        for file in range(len(self._files)):
            if not self._says_what_the_first_says(file):
                check_same(
                    self._schema_of(file),
                    schema,
                    self._file_name(file),
                    self._file_name(0),
                    self._rules,
                    wanted,
                )
            first = 0
            for number, rows in enumerate(self._rows_of_chunks(file)):
                chunks.append(Chunk(file, number, rows, first))
                first += rows
        texts = {name: self._partitions.is_text(name) for name in self._partitions.columns}
        self._prepare(schema, chunks, columns, texts)

    def _unified_types(self, first: Any, names: Sequence[str]) -> dict[str, Any]:
        """Of the columns that are not alike in all files, and can be."""
        kinds = {name: {first.field(name).type: None} for name in names if first.names.count(name) == 1}
        for file in range(1, len(self._files)):
            if not self._says_what_the_first_says(file):
                schema = self._schema_of(file)
                for name in [name for name in kinds if schema.names.count(name) == 1]:
                    kinds[name][schema.field(name).type] = None
        wider = {name: unified(list(found)) for name, found in kinds.items() if len(found) > 1}
        return {name: kind for name, kind in wider.items() if kind is not None}

    def _schema_of(self, file: int) -> Any:
        """As a pyarrow.Schema."""
        raise NotImplementedError

    def _says_what_the_first_says(self, file: int) -> bool:
        """Whether its schema is the first file's to the letter, and needs no look at its types."""
        raise NotImplementedError

    def _rows_of_chunks(self, file: int) -> list[int]:
        raise NotImplementedError

    def _file_name(self, file: int) -> str:
        return self._files.name(file)

    def _constants_of(self, file: int) -> Mapping[str, Any]:
        return self._partitions.values(file)
