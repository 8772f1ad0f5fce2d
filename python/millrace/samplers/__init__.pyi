# The public names of millrace.samplers, and where each comes from when it is asked for.

from .batches import BatchSampler as BatchSampler
from .distributed import DistributedSampler as DistributedSampler
from .lengths import LengthGroupedSampler as LengthGroupedSampler
from .mixture import MixtureSampler as MixtureSampler
from .native import native as native
from .permutation import PermutationSampler as PermutationSampler
from .plain import RandomSampler as RandomSampler
from .plain import SequentialSampler as SequentialSampler
from .plain import SubsetRandomSampler as SubsetRandomSampler
from .shards import ChunkShuffle as ChunkShuffle
from .shards import ShardShuffle as ShardShuffle
from .shards import TwoTierShuffle as TwoTierShuffle
from .shuffle_buffer import ShuffleBuffer as ShuffleBuffer
from .stratified import StratifiedBatchSampler as StratifiedBatchSampler
from .weighted import DistributedWeightedSampler as DistributedWeightedSampler
from .weighted import WeightedRandomSampler as WeightedRandomSampler
from .weighted import weights_from_labels as weights_from_labels
