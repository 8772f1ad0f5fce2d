"""Hugging Face's `datasets.Dataset` with a column of pictures and a transform, as set_transform() and
with_transform() leave it:

    def transforms(examples):
        examples["pixel_values"] = [train(image.convert("RGB")) for image in examples["image"]]
        return examples

The recogniser reads the function's source for the steps that each picture provably goes through
(_common/lowering/read_batches.py). The engine reads the pictures from Arrow's memory, or from their files;
Python looks up the other columns afterwards. Neither `datasets` nor pyarrow is imported here.
"""

from __future__ import annotations

import urllib.parse
import weakref
from typing import Any

import numpy as np

from ... import _core
from ..._common.lowering.as_shipped import check_class, check_functions
from ..._common.lowering.read_batches import read_batches
from ..._common.lowering.read_values import Column, Op, Pictures, Steps
from ..._common.lowering.recognising import NotLowered, holder_name, loaded
from ..engines.arrow_rows import ArrowRows, ByName
from ..engines.native import Files
from .arrow import METHODS, check_formatter, index_map
from .source import Source

_FORMATTING = "datasets.formatting.formatting"
_PARTS = "CustomFormatter", "PythonArrowExtractor", "PythonFeaturesDecoder", "format_table", "query_table"
_KIND = "struct<bytes: binary, path: string>", "struct<path: string, bytes: binary>"
_RGB = Op({"op": "rgb"}, 'mode="RGB"')


def recognise_arrow_pictures(dataset: Any) -> Source:
    """The Source of a Dataset with a transform; NotLowered if Python must make its samples."""
    check_class(type(dataset), *METHODS)
    check_functions(_FORMATTING, *_PARTS)
    check_formatter("custom", "CustomFormatter")
    columns = _columns(dataset)
    name, feature = _picture_column(dataset, columns)
    function = dataset.format["format_kwargs"]["transform"]
    made = read_batches(function, columns, name)
    if made is None:
        raise NotLowered(
            f"{holder_name(function)}, the Arrow dataset's transform, may do anything: its source is not"
            ' there, or not understood; the engine knows such as `examples["pixel_values"] ='
            f' [transform(image) for image in examples["{name}"]]; return examples`'
        )
    changed = [key for key, column in made.items() if isinstance(column, Pictures) and column.picture.steps()]
    if len(changed) != 1:
        raise NotLowered(
            f"{holder_name(function)} makes {len(changed)} columns of pictures; the engine makes one"
        )
    if len(dataset) == 0:
        raise NotLowered("the Arrow dataset has no rows; there is nothing to read")
    decode = type(feature).decode_example.__code__.co_names
    pictures: Any = made[changed[0]]
    mode = [] if getattr(feature, "mode", None) is None else [_RGB]
    others = {key: column.name if isinstance(column, Column) else None for key, column in made.items()}
    del others[changed[0]]
    found: Any = index_map(dataset)

    def files() -> Files:
        kept = _kept_pictures(dataset, name)
        targets = ArrowRows(dataset.data, others, name, feature)
        return Files(kept, np.arange(len(kept)), targets=targets)

    return Source(
        "Arrow dataset",
        Steps(function, (*mode, *pictures.picture.steps())),
        files,
        index_maps=() if found is None else (found,),
        exif="exif_transpose" in decode,
        any_mode=True,
        form=ByName(tuple(made), changed[0]),
    )


def _columns(dataset: Any) -> list[str]:
    """The columns that the transform gets, in their order."""
    if set(dataset.format["format_kwargs"]) != {"transform"}:
        raise NotLowered("the Arrow dataset's format has more arguments than its transform")
    columns, chosen = list(dataset.data.column_names), dataset.format["columns"]
    if dataset.format["output_all_columns"] and set(chosen) != set(columns):
        raise NotLowered(
            "output_all_columns=True adds columns behind the transform; give it all columns, or choose with"
            " select_columns()"
        )
    return [name for name in columns if name in chosen]


def _picture_column(dataset: Any, columns: list[str]) -> tuple[str, Any]:
    """The name of the column that `datasets` decodes, and its feature."""
    features = dataset.info.features
    decoded = [name for name in columns if features._column_requires_decoding.get(name)]
    if not decoded:
        raise NotLowered(
            "the Arrow dataset has a transform, and no column of pictures that datasets decodes; use"
            " with_format('torch'), and transform the finished batch"
        )
    if len(decoded) != 1 or type(features[decoded[0]]) is not loaded("datasets.features.image", "Image"):
        kinds = ", ".join(f"{name!r} ({type(features[name]).__name__})" for name in decoded)
        raise NotLowered(
            f"columns that datasets decodes are {kinds}; the engine knows one column of Image(), choose it"
            " with select_columns()"
        )
    import PIL.Image  # noqa: F401  by which the function's source is read, and datasets opens the pictures

    (name,) = decoded
    feature = features[name]
    check_class(type(feature), "decode_example")
    check_class(type(features), "decode_batch")
    if getattr(feature, "mode", None) not in (None, "RGB"):
        raise NotLowered(f"column {name!r} has mode={feature.mode!r}; the engine makes RGB")
    kind = str(dataset.data.table.column(name).type)
    if kind not in _KIND:
        raise NotLowered(f"column {name!r} is of Arrow type {kind}, not of an Image's")
    return name, feature


# ---------------------------------------------------------------- where the pictures lie

# By dataset, for its table: nobody changes a table, so the same object has the same rows.
_known: weakref.WeakKeyDictionary[Any, tuple[Any, str, _core.ArrowPictures]] = weakref.WeakKeyDictionary()


def _kept_pictures(dataset: Any, name: str) -> _core.ArrowPictures:
    table, known, pictures = _known.get(dataset, (None, "", None))
    if pictures is None or table is not dataset.data or known != name:
        chunks = [_chunk(chunk, name) for chunk in dataset.data.table.column(name).chunks if len(chunk)]
        pictures = _core.ArrowPictures(name, chunks)
        _known[dataset] = dataset.data, name, pictures
    return pictures


def _chunk(chunk: Any, name: str) -> tuple[np.ndarray, Any, Any]:
    """The chunk in the form that _core.ArrowPictures takes."""
    data, paths = chunk.field("bytes"), chunk.field("path")
    has_bytes = _there(data)
    kinds = np.where(has_bytes, 1, np.where(_there(paths), 2, 0)).astype(np.uint8)
    kinds[~_there(chunk)] = 0
    if (used := kinds == 2).any():
        _check_local(paths, used, name)
    return kinds, _strings(data), _strings(paths)


def _there(array: Any) -> np.ndarray:
    return array.is_valid().to_numpy(zero_copy_only=False)


def _strings(array: Any) -> tuple[np.ndarray, Any] | None:
    """(int32 offsets of shape (rows + 1,), the bytes that they point into), in Arrow's memory; None if the
    array has none.
    """
    _, offsets, data = array.buffers()
    if offsets is None:
        return None
    return np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1], data


def _check_local(paths: Any, used: np.ndarray, name: str) -> None:
    """NotLowered if a path is no local file but a URL, or a file inside an archive."""
    offsets, data = _strings(paths)  # type: ignore[misc]
    if b":" not in bytes(memoryview(data)[offsets[0] : offsets[-1]]):
        return
    for path in paths.take(np.flatnonzero(used)).to_pylist():
        if urllib.parse.urlparse(path).scheme:
            raise NotLowered(
                f"column {name!r} has pictures that are not on this machine's disks, such as {path!r}; the"
                " engine reads local files, and bytes in the table"
            )
