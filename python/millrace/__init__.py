"""millrace: torch's DataLoader with a native engine under it.

>>> from millrace import DataLoader            # instead of torch.utils.data
"""

import torch  # first: the libraries that _core needs come with it

from ._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)

__version__ = "0.1.0"
#: For CMAKE_PREFIX_PATH: find_package(millrace) finds the C++ library there that a wheel has inside.
cmake_prefix_path = __path__[0]
