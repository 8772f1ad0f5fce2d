"""WebDataset: samples in tar shards, by the webdataset package's names and in its meaning; exact resume, and shards that divide themselves.

 urls.py     "train-{000..127}.tar"                                  open_shards.py  what a URL stands for
 split.py    who reads which shards                                  draws.py        randomness as a function of a position
 flow.py     what a stage at work is, and the rule of its place      chain.py        pipelines: epochs and states
 shards.py   the source; dataset.py: WebDataset; mixture.py          fluent.py       the methods
 stages.py   decode, map, to_tuple, ...; decoders.py, images.py      holding.py      shuffle, batched, ...; collation.py
 pipelines.py, web_loader.py  DataPipeline, WebLoader                names.py        what else `import webdataset as wds` had

`from millrace.datasets import webdataset as wds` is the changed line of a script that writes wds.WebDataset(...).
"""

from typing import Any

from .dataset import WebDataset
from .decoders import DecodingError, PickleRefused
from .flow import Stage
from .handlers import ignore_and_continue, ignore_and_stop, reraise_exception, warn_and_continue, warn_and_stop
from .indexed import IndexedWebDataset
from .mixture import Mixture
from .pipelines import DataPipeline, RandomMix, ResampledShards, RoundRobin, SimpleShardList, tarfile_to_samples
from .split import non_empty, single_node_only, split_by_node, split_by_worker
from .web_loader import WebLoader

__all__ = [
    "DataPipeline",
    "DecodingError",
    "IndexedWebDataset",
    "Mixture",
    "PickleRefused",
    "RandomMix",
    "ResampledShards",
    "RoundRobin",
    "SimpleShardList",
    "Stage",
    "WebDataset",
    "WebLoader",
    "ignore_and_continue",
    "ignore_and_stop",
    "non_empty",
    "reraise_exception",
    "single_node_only",
    "split_by_node",
    "split_by_worker",
    "tarfile_to_samples",
    "warn_and_continue",
    "warn_and_stop",
]


def __getattr__(name: str) -> Any:
    from .names import lookup

    return lookup(__name__, name)
