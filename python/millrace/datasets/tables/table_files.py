"""TableFiles: what Parquet and ArrowFile have in common: tables in files, local or remote, in folders whose
names may be columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .filtering import Progress
from .opening import Files
from .paths import Partitions
from .rules import Rules
from .tabular import Chunk, Tabular, check_same


class TableFiles(Tabular):
    """The base. A class derived from it reads what each file says of itself, then calls _prepare_files(),
    which asks the three
    methods below it.
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
