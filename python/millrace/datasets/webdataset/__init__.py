"""WebDataset: samples in tar shards, by the webdataset package's names and in its meaning; exact resume, and
shards that divide themselves.

- urls.py: "train-{000..127}.tar"; open_shards.py: opens URLs; split.py: divides shards among readers
- flow.py: a stage at work, and the rule of its position; randomness as a function of the position; a run, and
  its state
- chain.py: pipelines and their epochs
- shards.py: the source; dataset.py: WebDataset; mix.py: Mixture; fluent.py: the methods
- stages.py: decode, map, to_tuple, ...; decoders.py
- holding.py: shuffle, batched, ...; collation.py
- pipeline.py, compat.py: DataPipeline, WebLoader
- missing.py: names of `import webdataset as wds` that are not here

By the package's module names: autodecode, cache, compat, extradatasets, filters, gopen, handlers, mix,
pipeline, shardlists, tariterators, tenbin, utils, writer; each has the package's functions over those above,
so imports from them work, too.

`from millrace.datasets import webdataset as wds` is the changed line of a script that writes
wds.WebDataset(...).
"""

from typing import Any

from . import (
    autodecode,
    cache,
    compat,
    extradatasets,
    filters,
    mix,
    pipeline,
    shardlists,
    tariterators,
    tenbin,
    utils,
    writer,
)
from .autodecode import (
    IMAGE_EXTENSIONS,
    Continue,
    Decoder,
    DecodingError,
    ImageHandler,
    basichandlers,
    gzfilter,
    handle_extension,
    imagehandler,
    torch_audio,
    torch_loads,
    torch_video,
)
from .cache import LRUCleanup, pipe_cleaner
from .compat import FluidInterface, FluidWrapper, WebDataset, WebLoader
from .decoders import PickleRefused
from .extradatasets import MockDataset, with_epoch, with_length
from .filters import (
    Cached,
    LMDBCached,
    associate,
    batched,
    decode,
    default_collation_fn,
    detshuffle,
    extract_keys,
    getfirst,
    identity,
    info,
    listed,
    log_keys,
    map,
    map_dict,
    map_tuple,
    pipelinefilter,
    rename,
    rename_keys,
    rsample,
    select,
    shuffle,
    slice,
    to_dict,
    to_tuple,
    transform_with,
    unbatched,
    unlisted,
    xdecode,
)
from .flow import Stage
from .gopen import gopen, gopen_schemes
from .handlers import (
    ignore_and_continue,
    ignore_and_stop,
    reraise_exception,
    warn_and_continue,
    warn_and_stop,
)
from .indexed import IndexedWebDataset
from .mix import Mixture, RandomMix, RoundRobin
from .pipeline import DataPipeline
from .shardlists import (
    DirectoryShardList,
    ResampledShardList,
    ResampledShards,
    SimpleShardList,
    expand_urls,
    non_empty,
    resampled,
    shardspec,
    single_node_only,
    split_by_node,
    split_by_worker,
)
from .tariterators import group_by_keys, tar_file_expander, tarfile_samples, tarfile_to_samples, url_opener
from .utils import PipelineStage, repeatedly
from .writer import ShardWriter, TarWriter, numpy_dumps, torch_dumps

__all__ = [
    "IMAGE_EXTENSIONS",
    "Cached",
    "Continue",
    "DataPipeline",
    "Decoder",
    "DecodingError",
    "DirectoryShardList",
    "FluidInterface",
    "FluidWrapper",
    "ImageHandler",
    "IndexedWebDataset",
    "LMDBCached",
    "LRUCleanup",
    "Mixture",
    "MockDataset",
    "PickleRefused",
    "PipelineStage",
    "RandomMix",
    "ResampledShardList",
    "ResampledShards",
    "RoundRobin",
    "ShardWriter",
    "SimpleShardList",
    "Stage",
    "TarWriter",
    "WebDataset",
    "WebLoader",
    "associate",
    "autodecode",
    "basichandlers",
    "batched",
    "cache",
    "compat",
    "decode",
    "default_collation_fn",
    "detshuffle",
    "expand_urls",
    "extract_keys",
    "extradatasets",
    "filters",
    "getfirst",
    "gopen",
    "gopen_schemes",
    "group_by_keys",
    "gzfilter",
    "handle_extension",
    "identity",
    "ignore_and_continue",
    "ignore_and_stop",
    "imagehandler",
    "info",
    "listed",
    "log_keys",
    "map",
    "map_dict",
    "map_tuple",
    "mix",
    "non_empty",
    "numpy_dumps",
    "pipe_cleaner",
    "pipeline",
    "pipelinefilter",
    "rename",
    "rename_keys",
    "repeatedly",
    "reraise_exception",
    "resampled",
    "rsample",
    "select",
    "shardlists",
    "shardspec",
    "shuffle",
    "single_node_only",
    "slice",
    "split_by_node",
    "split_by_worker",
    "tar_file_expander",
    "tarfile_samples",
    "tarfile_to_samples",
    "tariterators",
    "tenbin",
    "to_dict",
    "to_tuple",
    "torch_audio",
    "torch_dumps",
    "torch_loads",
    "torch_video",
    "transform_with",
    "unbatched",
    "unlisted",
    "url_opener",
    "utils",
    "warn_and_continue",
    "warn_and_stop",
    "with_epoch",
    "with_length",
    "writer",
    "xdecode",
]


def __getattr__(name: str) -> Any:
    from .missing import lookup

    return lookup(__name__, name)
