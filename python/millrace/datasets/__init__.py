"""Datasets that the engine reads natively: ImageFolder, pictures in class folders; WebDataset, samples in tar shards."""

from .folder_listing import IMG_EXTENSIONS
from .image_folder import ImageFolder
from .pillow_decode import decode_with_pillow, pil_loader
from .sequences import PackedSequences, PackedStream, Tokenized, cu_seqlens, document_mask, document_mask_mod
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
    "IMG_EXTENSIONS",
    "DecodingError",
    "ImageFolder",
    "IndexedWebDataset",
    "Mixture",
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
