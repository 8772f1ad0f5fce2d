"""What was built how: torch, millrace, libjpeg, Python; and the environment's settings that change how many
threads work.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
from typing import Any

import torch

from millrace import _core

from .system_files import SystemFiles, whole

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def software(files: SystemFiles) -> dict[str, Any]:
    """JSON types. torch_cuda: the version of CUDA that torch was built with, None without; millrace_cuda: ""
    when this build can use a CUDA device, else why not, with the remedy; missing_in_torch: what this
    torch lacks, and what follows; gil: False on interpreters without one; libjpeg: the path of the library
    that the codecs use, None when it is part of ours; simd_is_off: by an environment variable of
    libjpeg-turbo's.
    """
    mapped = [line.rpartition(" ")[2] for line in files.text("/proc/self/maps").splitlines()]
    return {
        "python": platform.python_version(),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "start_method": multiprocessing.get_start_method(allow_none=True)
        or multiprocessing.get_all_start_methods()[0],
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda or torch.version.hip,
        "torch_threads": torch.get_num_threads(),
        "millrace": _core.__version__,
        "missing_in_torch": _core.missing_in_torch(),
        "millrace_cuda": _core.cuda_missing_reason(),
        "nvtx": _has_nvtx(),
        "libjpeg": next(
            (
                name
                for name in mapped
                if os.path.basename(name).startswith("libjpeg.so") and "pillow" not in name.lower()
            ),
            None,
        ),
        "simd_is_off": os.environ.get("JSIMD_FORCENONE") == "1",
        "threads_environment": {name: whole(os.environ[name]) for name in _THREADS if name in os.environ},
    }


def _has_nvtx() -> bool:
    try:
        _core.nvtx(True)
    except RuntimeError:
        return False
    _core.nvtx(False)
    return True
