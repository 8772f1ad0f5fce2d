"""Datasets that are read natively.

Pictures: ImageFolder; WebDataset, samples in tar shards. Numbers: Tokens, windows over files of token ids;
PackedSequences and PackedStream, documents packed into rows; Arrays, HDF5, Zarr. Tables: Parquet, ArrowFile,
Table. Text: JSONL, Lines, Tokenized.
"""

from .arrays import Arrays
from .folder_listing import IMG_EXTENSIONS
from .hdf5 import HDF5
from .image_folder import ImageFolder
from .lines import JSONL, JSONField, JSONLStream, Lines
from .pillow_decode import decode_with_pillow, pil_loader
from .sequences import PackedSequences, PackedStream, Tokenized, cu_seqlens, document_mask, document_mask_mod
from .tables import ArrowFile, Parquet, Table
from .tokens import Tokens
from .webdataset import (
    DecodingError,
    IndexedWebDataset,
    Mixture,
    WebDataset,
    WebLoader,
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
    "Arrays",
    "ArrowFile",
    "DecodingError",
    "HDF5",
    "IMG_EXTENSIONS",
    "ImageFolder",
    "IndexedWebDataset",
    "JSONField",
    "JSONL",
    "JSONLStream",
    "Lines",
    "Mixture",
    "PackedSequences",
    "PackedStream",
    "Parquet",
    "Table",
    "Tokenized",
    "Tokens",
    "WebDataset",
    "WebLoader",
    "Zarr",
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
