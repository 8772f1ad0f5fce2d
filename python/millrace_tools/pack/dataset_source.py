"""Any torch Dataset, or the rows of Parquet files, as a source: Python values as files of a shard. A
dataset's code runs in the calling thread, one sample after the other: it may not be made for more.

The names are those that readers of WebDataset shards know.

| value | field |
|---|---|
| bytes | the name itself for "jpg", "mask.png" and the like; a picture by its content; else bin |
| PIL picture | jpg (RGB and grey, quality 95) or png |
| int, bool | cls for "label", "labels", "target", "class", "cls"; else its own name and .cls |
| str | txt |
| tensor, numpy array | npy |
| anything JSON has, floats too | json |

A field "image" or "img" is named by its kind alone (jpg), others are "name.kind"; None is left out.
"""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from millrace._common.regular_files import check_regular
from millrace.datasets.tables.hugging_face import class_names
from millrace.errors import UnavailableError
from PIL import Image

from .keys import WINDOW_UNITS
from .shard_source import label_of
from .sources import FolderSource, Source, digest, picture_suffix

_PICTURES = ("image", "img", "picture")
_LABELS = ("label", "labels", "cls", "class", "target")
_KNOWN = frozenset(
    "jpg jpeg png webp gif bmp tiff ppm pgm cls cls2 index inx id txt text transcript json jsn npy npz pyd"
    " pickle pth ten bin mp4 wav flac mp3 cbor mp msg".split()
)


def encode_fields(values: dict[str, Any]) -> dict[str, bytes]:
    """Files by suffix. TypeError names what cannot be stored, ValueError two values that get one suffix."""
    result: dict[str, bytes] = {}
    for name, value in values.items():
        if value is None:
            continue
        (kind, content), ending = _encode(name, value), name.rpartition(".")[2].lower()
        if name.lower() in _PICTURES or (kind == "cls" and name.lower() in _LABELS):
            suffix = kind
        elif ending == kind or (ending in _KNOWN and isinstance(value, bytes)):
            suffix = name
        else:
            suffix = f"{name}.{kind}"
        if suffix in result:
            raise ValueError(
                f"two values of a sample would be stored as {suffix!r}: rename one of {', '.join(values)}"
            )
        result[suffix] = content
    return result


def encode_tuple(values: Any) -> dict[str, bytes]:
    """Files by suffix of a tuple or a single value: the kind alone for the first of each kind, "1.kind" and
    so on for later ones.
    """
    result: dict[str, bytes] = {}
    for position, value in enumerate(values if isinstance(values, (tuple, list)) else [values]):
        if value is None:
            continue
        kind, content = _encode(f"value {position}", value)
        result[kind if kind not in result else f"{position}.{kind}"] = content
    return result


def _encode(name: str, value: Any) -> tuple[str, bytes]:
    if isinstance(value, (bytes, bytearray, memoryview)):
        content = bytes(value)
        return picture_suffix(content, "bin"), content
    if isinstance(value, Image.Image):
        return _encode_picture(value)
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        if value.ndim == 0:
            return _encode(name, value.item())
        made = io.BytesIO()
        np.save(made, value, allow_pickle=False)
        return "npy", made.getvalue()
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return "cls", str(int(value)).encode()
    if isinstance(value, str):
        return "txt", value.encode("utf-8", "surrogateescape")
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return "json", json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name}: a {type(value).__name__} cannot be stored ({error}); let the dataset give bytes,"
            " numbers, text, pictures, arrays or what JSON has"
        ) from None


def _encode_picture(image: Image.Image) -> tuple[str, bytes]:
    made = io.BytesIO()
    if image.mode not in ("RGB", "L"):
        image.save(made, "PNG")
        return "png", made.getvalue()
    kept = {"exif": image.info.get("exif", b""), "icc_profile": image.info.get("icc_profile")}
    image.save(made, "JPEG", quality=95, **kept)
    return "jpg", made.getvalue()


def dataset_source(dataset: Any) -> Source:
    """Image folders without transforms give their files as they are; anything else is indexed (or iterated)
    and encoded as above.
    """
    transforms = [getattr(dataset, name, None) for name in ("transform", "target_transform", "transforms")]
    is_folder = all(hasattr(dataset, name) for name in ("samples", "classes", "root", "loader"))
    if is_folder and not any(transforms):
        paths, labels = [path for path, _ in dataset.samples], [int(label) for _, label in dataset.samples]
        return FolderSource(str(dataset.root), list(dataset.classes), paths, labels)
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return MapSource(dataset)
    if hasattr(dataset, "__iter__"):
        return IterableSource(dataset)
    raise TypeError(
        f"{type(dataset).__name__} cannot be packed: it should have __getitem__ and __len__, or __iter__"
    )


def _files(sample: Any) -> dict[str, bytes]:
    if not isinstance(sample, Mapping):
        return encode_tuple(sample)
    names = {str(name): value for name, value in sample.items()}
    return encode_fields({name: value for name, value in names.items() if not name.startswith("__")})


class MapSource(Source):
    """A Dataset with __getitem__ and __len__. Keys are nine-digit indices; labels come from `targets` or
    `labels`, else from samples.
    """

    threads = False

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        classes = getattr(dataset, "classes", None)
        self.classes = list(map(str, classes)) if classes is not None else None
        labels = [getattr(dataset, name, None) for name in ("targets", "labels")]
        known = (list(values) for values in labels if values is not None and len(values) == len(dataset))
        self._labels = next(known, None)

    def describe(self) -> str:
        return f"dataset {type(self._dataset).__qualname__} {len(self)}"

    def __len__(self) -> int:
        return len(self._dataset)

    def key(self, number: int) -> str:
        return f"{number:09d}"

    def label(self, number: int) -> int | None:
        return label_of(self.read(number)) if self._labels is None else int(self._labels[number])

    def read(self, number: int) -> dict[str, bytes]:
        return _files(self._dataset[number])


class IterableSource(Source):
    """An IterableDataset. Keys are its samples' "__key__", else their numbers."""

    by_number = False

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def describe(self) -> str:
        return f"iterable {type(self._dataset).__qualname__}"

    def stream(self) -> Iterator[Any]:
        for number, sample in enumerate(self._dataset):
            named = isinstance(sample, Mapping) and "__key__" in sample
            yield str(sample["__key__"]) if named else f"{number:09d}", _files(sample)


class ParquetSource(Source):
    """Rows of Parquet files. Keys: the column "__key__" where there is one, else file name and row number
    ("train-00000/000000042").

    Columns become fields as above; a struct with "bytes" in it, as Hugging Face stores pictures, is
    those bytes. Row groups are read whole, and about ten of them are kept.
    """

    def __init__(self, paths: list[str]) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise UnavailableError("reading Parquet files needs pyarrow: pip install pyarrow") from None
        self._paths, self._parquet = paths, parquet
        self.unit_lengths = []
        self._groups: list[tuple[str, int, int]] = []  # file, row group, its first row in the file
        for path in paths:
            with self._opened(path) as file:
                rows = 0
                for group in range(file.metadata.num_row_groups):
                    self._groups.append((path, group, rows))
                    self.unit_lengths.append(file.metadata.row_group(group).num_rows)
                    rows += self.unit_lengths[-1]
                schema = file.schema_arrow
        self.classes, self._label_column = _labels_of(schema)
        self._has_keys = "__key__" in schema.names
        self._names = {path: Path(path).stem for path in paths}
        if len(set(self._names.values())) < len(paths):
            self._names = {path: str(Path(path).with_suffix("")).strip("/") for path in paths}
        self._place = [(unit, row) for unit, length in enumerate(self.unit_lengths) for row in range(length)]
        self._tables = lru_cache(WINDOW_UNITS + 2)(self._read_group)
        self._lock = threading.Lock()

    def _opened(self, path: str) -> Any:
        check_regular(path)
        return self._parquet.ParquetFile(path)

    def describe(self) -> str:
        files = [(self._names[path], os.path.getsize(path)) for path in self._paths]
        return f"parquet {digest(files, self.unit_lengths)}"

    def __len__(self) -> int:
        return len(self._place)

    def key(self, number: int) -> str:
        unit, row = self._place[number]
        path, _, first = self._groups[unit]
        if self._has_keys:
            return str(self._table(unit, True).column("__key__")[row].as_py())
        return f"{self._names[path]}/{first + row:09d}"

    def label(self, number: int) -> int | None:
        unit, row = self._place[number]
        if self._label_column is None:
            return None
        value = self._table(unit, True).column(self._label_column)[row].as_py()
        return value if isinstance(value, int) else None

    def read(self, number: int) -> dict[str, bytes]:
        unit, row = self._place[number]
        table = self._table(unit, False)
        values = {name: table.column(name)[row].as_py() for name in table.column_names if name != "__key__"}
        for name, value in values.items():
            if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
                values[name] = value["bytes"]
        return encode_fields(values)

    def _table(self, unit: int, labels_only: bool) -> Any:
        with self._lock:  # so that threads do not read a group each
            return self._tables(unit, labels_only)

    def _read_group(self, unit: int, labels_only: bool) -> Any:
        path, group, _ = self._groups[unit]
        columns = [*["__key__"] * self._has_keys, *filter(None, [self._label_column])]
        with self._opened(path) as file:
            return file.read_row_group(group, columns=columns if labels_only else None)


def _labels_of(schema: Any) -> tuple[list[str] | None, str | None]:
    """Names of the classes as Hugging Face's metadata has them, and which column the labels are in."""
    for name, names in class_names(schema, schema.names).items():
        return names, name
    return None, next((name for name in _LABELS if name in schema.names), None)
