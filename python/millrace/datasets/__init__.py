"""Datasets that the engine reads natively: ImageFolder, pictures in class folders; WebDataset, samples in tar shards; Tokens, windows over
files of token ids; Arrays, rows of arrays in memory and in files.
"""
"""Datasets that are read natively: ImageFolder, pictures in class folders; WebDataset, samples in tar shards; JSONL, Lines, text files."""
"""Datasets that the engine reads natively: ImageFolder, pictures in class folders; WebDataset, samples in tar shards; HDF5 and Zarr,
rows of arrays."""
"""Datasets that the engine reads natively: ImageFolder, pictures in class folders; WebDataset, samples in tar shards; Parquet, ArrowFile
and Table, rows of tables."""

from .arrays import Arrays
from .folder_listing import IMG_EXTENSIONS
from .hdf5 import HDF5
from .image_folder import ImageFolder
from .lines import JSONL, JSONField, JSONLStream, Lines
from .pillow_decode import decode_with_pillow, pil_loader
from .tokens import Tokens
from .sequences import PackedSequences, PackedStream, Tokenized, cu_seqlens, document_mask, document_mask_mod
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
from .zarr import Zarr

__all__ = [
    "HDF5",
    "ArrowFile",
    "IMG_EXTENSIONS",
    "Arrays",
    "DecodingError",
    "ImageFolder",
    "IndexedWebDataset",
    "JSONField",
    "JSONL",
    "JSONLStream",
    "Lines",
    "Mixture",
    "Tokens",
    "Parquet",
    "Table",
    "WebDataset",
    "Zarr",
    "PackedSequences",
    "PackedStream",
    "Tokenized",
    "WebDataset",
    "cu_seqlens",
    "decode_with_pillow",
    "document_mask",
    "document_mask_mod",
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
