"""Datasets that are read natively.

Pictures: ImageFolder; WebDataset, samples in tar shards. Numbers: Tokens, windows over files of token ids;
PackedSequences and PackedStream, documents packed into rows; Arrays, HDF5, Zarr. Tables: Parquet, ArrowFile,
Table. Text: JSONL, Lines, Tokenized.
"""

from .._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
