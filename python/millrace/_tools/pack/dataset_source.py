"""Any torch Dataset as a source. Its code runs in the calling thread, one sample after the other: it may not
be made for more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .encode import encode_fields, encode_tuple
from .shard_source import label_of
from .sources import FolderSource, Source


def dataset_source(dataset: Any) -> Source:
    """Image folders without transforms give their files as they are; anything else is indexed (or iterated)
    and encoded (encode.py).
    """
    transforms = [getattr(dataset, name, None) for name in ("transform", "target_transform", "transforms")]
    samples = getattr(dataset, "samples", None)
    if (
        samples is not None
        and not any(transforms)
        and all(hasattr(dataset, name) for name in ("classes", "root", "loader"))
    ):
        return FolderSource.of_samples(
            list(dataset.classes), [tuple(item) for item in samples], str(dataset.root)
        )
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return MapSource(dataset)
    if hasattr(dataset, "__iter__"):
        return IterableSource(dataset)
    raise TypeError(
        f"{type(dataset).__name__} cannot be packed: it should have __getitem__ and __len__, or __iter__"
    )


def _files(sample: Any) -> dict[str, bytes]:
    if isinstance(sample, Mapping):
        return encode_fields(
            {str(name): value for name, value in sample.items() if not str(name).startswith("__")}
        )
    return encode_tuple(sample)


def _key(sample: Any, number: int) -> str:
    return str(sample["__key__"]) if isinstance(sample, Mapping) and "__key__" in sample else f"{number:09d}"


class MapSource(Source):
    """A Dataset with __getitem__ and __len__. Keys are nine-digit indices; labels come from `targets` or
    `labels`, else from samples.
    """

    threads = False

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        classes = getattr(dataset, "classes", None)
        self.classes = list(map(str, classes)) if classes is not None else None
        self._labels = next(
            (
                list(values)
                for name in ("targets", "labels")
                if (values := getattr(dataset, name, None)) is not None and len(values) == len(dataset)
            ),
            None,
        )

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
            yield _key(sample, number), _files(sample)
