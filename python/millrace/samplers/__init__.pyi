# The public names of millrace.samplers, and where each comes from when it is asked for.

from .global_order import ChunkShuffle as ChunkShuffle
from .global_order import PermutationSampler as PermutationSampler
from .global_order import ShardShuffle as ShardShuffle
from .global_order import TwoTierShuffle as TwoTierShuffle
from .grouped import LengthGroupedSampler as LengthGroupedSampler
from .grouped import StratifiedBatchSampler as StratifiedBatchSampler
from .mixture import MixtureSampler as MixtureSampler
from .resumable import native as native
from .shuffle_buffer import ShuffleBuffer as ShuffleBuffer
from .torchs import BatchSampler as BatchSampler
from .torchs import DistributedSampler as DistributedSampler
from .torchs import RandomSampler as RandomSampler
from .torchs import SequentialSampler as SequentialSampler
from .torchs import SubsetRandomSampler as SubsetRandomSampler
from .weighted import DistributedWeightedSampler as DistributedWeightedSampler
from .weighted import WeightedRandomSampler as WeightedRandomSampler
from .weighted import weights_from_labels as weights_from_labels
