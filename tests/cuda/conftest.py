"""The tests that need a GPU: skipped, with the reason, where there is none."""

from pathlib import Path

import pytest
import torch
from millrace import _core


def missing() -> str:
    """Why there is nothing to test here; empty when there is."""
    if not torch.cuda.is_available():
        return f"torch sees no CUDA device (torch {torch.__version__})"
    return _core.cuda_missing_reason()


def pytest_collection_modifyitems(items) -> None:
    here, reason = Path(__file__).parent, missing()
    for item in items:
        if reason and here in item.path.parents and not item.get_closest_marker("without_gpu"):
            item.add_marker(pytest.mark.skip(reason=reason))
