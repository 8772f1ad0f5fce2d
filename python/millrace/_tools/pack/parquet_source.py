"""Parquet files as a source: a sample for each row. Needs pyarrow."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from millrace._common.regular_files import check_regular
from millrace.errors import UnavailableError

from .encode import encode_fields
from .selection import WINDOW_UNITS
from .sources import Source, digest


class ParquetSource(Source):
    """Rows of Parquet files. Keys: the column "__key__" where there is one, else file name and row number
    ("train-00000/000000042").

    Columns become fields as in encode.py; a struct with "bytes" in it, as Hugging Face stores pictures, is
    those bytes. Row groups are read whole, and about ten of them are kept.
    """

    def __init__(self, paths: list[str]) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise UnavailableError("reading Parquet files needs pyarrow: pip install pyarrow") from None
        self._paths = paths

        def opened(path: str) -> Any:
            check_regular(path)
            return parquet.ParquetFile(path)

        self._open = opened
        self.unit_lengths = []
        self._groups: list[tuple[str, int, int]] = []  # file, row group, its first row in the file
        for path in paths:
            with self._open(path) as file:
                rows = 0
                for group in range(file.metadata.num_row_groups):
                    self._groups.append((path, group, rows))
                    self.unit_lengths.append(file.metadata.row_group(group).num_rows)
                    rows += self.unit_lengths[-1]
                schema = file.schema_arrow
        self.classes, self._label_column = _labels_of(schema)
        self._has_keys = "__key__" in schema.names
        self._names = _distinct_names(paths)
        self._place = [(unit, row) for unit, length in enumerate(self.unit_lengths) for row in range(length)]
        self._tables: OrderedDict[tuple[int, bool], Any] = OrderedDict()
        self._lock = threading.Lock()

    def describe(self) -> str:
        files = [(self._names[path], os.path.getsize(path)) for path in self._paths]
        return f"parquet {digest(files, self.unit_lengths)}"

    def __len__(self) -> int:
        return len(self._place)

    def key(self, number: int) -> str:
        unit, row = self._place[number]
        path, _, first = self._groups[unit]
        if self._has_keys:
            return str(self._table(unit, labels_only=True).column("__key__")[row].as_py())
        return f"{self._names[path]}/{first + row:09d}"

    def label(self, number: int) -> int | None:
        unit, row = self._place[number]
        if self._label_column is None:
            return None
        value = self._table(unit, labels_only=True).column(self._label_column)[row].as_py()
        return value if isinstance(value, int) else None

    def read(self, number: int) -> dict[str, bytes]:
        unit, row = self._place[number]
        table = self._table(unit, labels_only=False)
        values = {name: table.column(name)[row].as_py() for name in table.column_names if name != "__key__"}
        return encode_fields({name: _unwrapped(value) for name, value in values.items()})

    def _table(self, unit: int, labels_only: bool) -> Any:
        with self._lock:
            key = (unit, labels_only)
            if key not in self._tables:
                path, group, _ = self._groups[unit]
                columns = [
                    name for name in ("__key__" if self._has_keys else None, self._label_column) if name
                ]
                with self._open(path) as file:
                    self._tables[key] = file.read_row_group(group, columns=columns if labels_only else None)
                while len(self._tables) > WINDOW_UNITS + 2:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(key)
            return self._tables[key]


def _distinct_names(paths: list[str]) -> dict[str, str]:
    stems = {path: Path(path).stem for path in paths}
    if len(set(stems.values())) < len(paths):
        return {path: str(Path(path).with_suffix("")).strip("/") for path in paths}
    return stems


def _unwrapped(value: Any) -> Any:
    return value["bytes"] if isinstance(value, dict) and isinstance(value.get("bytes"), bytes) else value


def _labels_of(schema: Any) -> tuple[list[str] | None, str | None]:
    """Names of the classes as Hugging Face's metadata has them, and which column the labels are in."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        for name, feature in features.items():
            if feature.get("_type") == "ClassLabel":
                return feature.get("names"), name
    except (KeyError, ValueError, AttributeError):
        pass
    return None, next(
        (name for name in ("label", "labels", "cls", "class", "target") if name in schema.names), None
    )
