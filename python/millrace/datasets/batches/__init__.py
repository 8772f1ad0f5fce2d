"""Map-style datasets of ours that make whole batches at once, and what they have in common.

`BatchDataset` is the type that the planner knows; `ChunkedDataset` has samples in chunks that are decoded
whole (row groups of Parquet, chunks of Zarr and HDF5), through a cache that knows which chunks come next.
"""

from .chunk_cache import ChunkCache
from .chunked import ChunkedDataset, Field, sample_values
from .dataset import BatchDataset, BatchMaker, MakerOptions

__all__ = [
    "BatchDataset",
    "BatchMaker",
    "ChunkCache",
    "ChunkedDataset",
    "Field",
    "MakerOptions",
    "sample_values",
]
