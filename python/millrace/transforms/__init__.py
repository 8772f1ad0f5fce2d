"""Image transforms with the names, arguments and results of torchvision's v2, without needing torchvision.

Each works alone on PIL images, tensors (..., C, H, W) and numpy arrays (H, W, C), drawing from torch's global
generator. Of tensors and arrays, resizing, colours and maps are torchvision's own functions, which have to be
installed for that; PIL images, and everything in the engine, need nothing more. Inside a
`millrace.DataLoader` the same objects describe what the engine does natively; there every random decision is
a function of (seed, epoch, index, occurrence) instead.
"""

from .._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
