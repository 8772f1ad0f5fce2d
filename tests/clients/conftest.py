"""Frameworks that people drive a DataLoader with. Each test is skipped where its framework is not installed (CLIENTS=1 make test)."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

# Read when the libraries are imported: nothing here needs a network, or a progress bar.
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_TELEMETRY": "1"}

from loader_data import make_folder, pictures, torchvision_or_skip  # noqa: E402

import millrace  # noqa: E402

with contextlib.suppress(pytest.skip.Exception):
    torchvision_or_skip()  # these libraries import it when it is there, so what its import needs must be there first


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """A folder of 13 JPEGs: the last batch is short for most batch sizes."""
    folder = tmp_path_factory.mktemp("photos")
    make_folder(folder, 13)
    return str(folder)


@pytest.fixture
def photos(root):
    """The engine knows this data set. Labels are indices."""
    return pictures(root)


@pytest.fixture
def installed():
    millrace.install()
    yield
    millrace.uninstall()
