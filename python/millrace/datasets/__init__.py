"""Datasets that the engine reads natively: ImageFolder, pictures in class folders; WebDataset, samples in tar shards; Parquet, ArrowFile
and Table, rows of tables."""

from .folder_listing import IMG_EXTENSIONS
from .image_folder import ImageFolder
from .pillow_decode import decode_with_pillow, pil_loader
from .tables import ArrowFile, Parquet, Table
from .webdataset import (
    DecodingError,
    IndexedWebDataset,
    Mixture,
    WebDataset,
    ignore_and_continue,
    ignore_and_stop,
    reraise_exception,
    single_node_only,
    split_by_node,
    split_by_worker,
    warn_and_continue,
    warn_and_stop,
)

__all__ = [
    "ArrowFile",
    "IMG_EXTENSIONS",
    "DecodingError",
    "ImageFolder",
    "IndexedWebDataset",
    "Mixture",
    "Parquet",
    "Table",
    "WebDataset",
    "decode_with_pillow",
    "ignore_and_continue",
    "ignore_and_stop",
    "pil_loader",
    "reraise_exception",
    "single_node_only",
    "split_by_node",
    "split_by_worker",
    "warn_and_continue",
    "warn_and_stop",
]
