"""Which files a table has, local or in a store, and TableFiles: what Parquet and ArrowFile have in common.

Paths, URLs, globs, folders, and lists of these; folders named key=value are columns. Files are opened when
they are read, and held to what they were at first.
"""

from __future__ import annotations

import glob
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Union
from urllib.parse import unquote

from millrace import stores

from ..._common.per_process import PerProcess
from ...stores.settings import locate, shown
from ..kept import FirstVersions
from ..source_file import SourceFile
from ..webdataset.urls import expand_braces
from .filtering import Progress
from .rules import Rules
from .rules import shown as names_shown
from .tabular import Chunk, Tabular, check_same

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
                    f"{file}: its folders name {names_shown(list(keys))}, and those of {files[0]}"
                    f" {names_shown(self.names)}; give files of one layout, or hive=False"
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


_OPEN_SOURCES = 64
# bytes of each object that are kept: what was read is decoded and not asked for again
_SOURCE_MEMORY = 16 << 20
_MOST_REQUESTS = 16
_GAP = 256 << 10  # bytes between two ranges that are rather read than left out


class _OpenSources:
    def __init__(self) -> None:
        self.sources: OrderedDict[int, Any] = OrderedDict()
        self.lock = threading.Lock()


class Files:
    """Files by number. Picklable; what is open belongs to one process."""

    def __init__(self, paths: Sequence[str], cache: Any, store_options: dict[str, Any] | None) -> None:
        self._paths, self._cache, self._store_options = list(paths), cache, store_options
        self._first = FirstVersions()
        self._open = PerProcess(_OpenSources)

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
        opened = self._open()  # of this process: sources of stores, and locks, are not forked
        with opened.lock:
            if file in opened.sources:
                opened.sources.move_to_end(file)
                return opened.sources[file]
        path, kept = self._paths[file], {} if self._cache is not None else {"memory": _SOURCE_MEMORY}
        source = stores.open_source(path, cache=self._cache, store_options=self._store_options, **kept)
        with opened.lock:
            opened.sources[file] = source
            while len(opened.sources) > _OPEN_SOURCES:
                opened.sources.popitem(last=False)
        return source

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
        """ValueError names a file whose columns are not those of the first."""
        schema = self._schema_of(0)
        inside = [name for name in schema.names if name not in self._partitions.names]
        wanted = inside if columns is None else [name for name in columns if name in inside]
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
        self._prepare(
            schema, chunks, columns, {name: self._partitions.is_text(name) for name in self._partitions.names}
        )

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
