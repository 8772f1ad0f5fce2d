"""Datasets that are read natively.

Pictures: ImageFolder; WebDataset, samples in tar shards. Numbers: Tokens, windows over files of token ids;
PackedSequences and PackedStream, documents packed into rows; Arrays, HDF5, Zarr. Tables: Parquet, ArrowFile,
Table. Text: JSONL, Lines, Tokenized.
"""

from .._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    """
    .: webdataset
    .arrays: Arrays
    .folder_listing: IMG_EXTENSIONS
    .hdf5: HDF5
    .image_folder: ImageFolder
    .lines: JSONL JSONField JSONLStream Lines
    .pillow_decode: decode_with_pillow pil_loader
    .sequences: PackedSequences PackedStream Tokenized cu_seqlens document_mask document_mask_mod
    .tables: ArrowFile Parquet Table
    .tokens: Tokens
    .webdataset: DecodingError IndexedWebDataset Mixture WebDataset WebLoader ignore_and_continue
    .webdataset: ignore_and_stop reraise_exception single_node_only split_by_node split_by_worker
    .webdataset: warn_and_continue warn_and_stop
    .zarr: Zarr
    """,
)
