"""WebDataset: samples in tar shards, by the webdataset package's names and in its meaning; exact resume, and shards that divide themselves.

 urls.py     "train-{000..127}.tar"                                  open_shards.py  what a URL stands for
 split.py    who reads which shards                                  draws.py        randomness as a function of a position
 flow.py     what a stage at work is, and the rule of its place      chain.py        pipelines: epochs and states
 shards.py   the source; dataset.py: WebDataset; mixture.py          fluent.py       the methods
 stages.py   decode, map, to_tuple, ...; decoders.py, images.py      holding.py      shuffle, batched, ...; collation.py
"""

from .dataset import WebDataset
from .decoders import DecodingError, PickleRefused
from .flow import Stage
from .handlers import ignore_and_continue, ignore_and_stop, reraise_exception, warn_and_continue, warn_and_stop
from .mixture import Mixture
from .indexed import IndexedWebDataset
from .split import single_node_only, split_by_node, split_by_worker

__all__ = [
    "DecodingError",
    "Mixture",
    "IndexedWebDataset",
    "PickleRefused",
    "Stage",
    "WebDataset",
    "ignore_and_continue",
    "ignore_and_stop",
    "reraise_exception",
    "single_node_only",
    "split_by_node",
    "split_by_worker",
    "warn_and_continue",
    "warn_and_stop",
]
