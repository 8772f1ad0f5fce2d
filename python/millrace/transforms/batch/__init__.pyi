# The public names of millrace.transforms.batch, and where each comes from when it is asked for.

from . import functional as functional
from .base import BatchTransform as BatchTransform
from .base import Compose as Compose
from .colors import ColorJitter as ColorJitter
from .colors import Normalize as Normalize
from .colors import RandomGrayscale as RandomGrayscale
from .fused import Augmentation as Augmentation
from .fused import augment as augment
from .geometry import RandomAffine as RandomAffine
from .geometry import RandomErasing as RandomErasing
from .geometry import RandomHorizontalFlip as RandomHorizontalFlip
from .geometry import RandomRotation as RandomRotation
from .mixing import CutMix as CutMix
from .mixing import MixUp as MixUp
