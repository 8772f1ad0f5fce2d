"""Samplers: which sample comes next. Torch's, with torch's draws, and some that torch has not.

Each works in torch's DataLoader, too. Iterators hand out Python ints (or lists of them), or arrays with
take(); iterators and samplers have state_dict(), samplers load_state_dict(), and those that shuffle by (seed,
epoch) have set_epoch().
"""

from .batches import BatchSampler
from .distributed import DistributedSampler
from .lengths import LengthGroupedSampler
from .mixture import MixtureSampler
from .native import native
from .permutation import PermutationSampler
from .plain import RandomSampler, SequentialSampler, SubsetRandomSampler
from .shards import ChunkShuffle, ShardShuffle, TwoTierShuffle
from .shuffle_buffer import ShuffleBuffer
from .stratified import StratifiedBatchSampler
from .weighted import DistributedWeightedSampler, WeightedRandomSampler, weights_from_labels

__all__ = [
    "BatchSampler",
    "ChunkShuffle",
    "DistributedSampler",
    "DistributedWeightedSampler",
    "LengthGroupedSampler",
    "MixtureSampler",
    "PermutationSampler",
    "RandomSampler",
    "SequentialSampler",
    "ShardShuffle",
    "ShuffleBuffer",
    "StratifiedBatchSampler",
    "SubsetRandomSampler",
    "TwoTierShuffle",
    "WeightedRandomSampler",
    "native",
    "weights_from_labels",
]
