# The public names of millrace.transforms, and where each comes from when it is asked for.

from . import batch as batch
from . import functional as functional
from .base import Compose as Compose
from .base import RandomApply as RandomApply
from .base import Transform as Transform
from .color import ColorJitter as ColorJitter
from .color import Grayscale as Grayscale
from .color import RandomGrayscale as RandomGrayscale
from .functional import InterpolationMode as InterpolationMode
from .geometry import CenterCrop as CenterCrop
from .geometry import RandomCrop as RandomCrop
from .geometry import RandomHorizontalFlip as RandomHorizontalFlip
from .geometry import RandomResizedCrop as RandomResizedCrop
from .geometry import RandomVerticalFlip as RandomVerticalFlip
from .geometry import Resize as Resize
from .neighbours import GaussianBlur as GaussianBlur
from .neighbours import RandomErasing as RandomErasing
from .values import ConvertImageDtype as ConvertImageDtype
from .values import Normalize as Normalize
from .values import PILToTensor as PILToTensor
from .values import ToDtype as ToDtype
from .values import ToImage as ToImage
from .values import ToTensor as ToTensor
from .views import MultiView as MultiView
from .warp import RandomAffine as RandomAffine
from .warp import RandomRotation as RandomRotation
