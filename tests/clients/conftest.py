"""Frameworks around a DataLoader, each skipped where it is not installed (CLIENTS=1 make test)."""

import contextlib
import os

import pytest
import torch.distributed

# Read when the libraries are imported: nothing here needs a network, or a progress bar.
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_TELEMETRY": "1"}

import millrace
from loader_data import make_folder, pictures, torchvision_or_skip

with contextlib.suppress(pytest.skip.Exception):
    # these libraries import it when it is there, so what its import needs must be there first
    torchvision_or_skip()


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """A folder of 13 JPEGs: the last batch is short for most batch sizes."""
    folder = tmp_path_factory.mktemp("photos")
    make_folder(folder, 13)
    return str(folder)


@pytest.fixture(scope="session")
def gallery(tmp_path_factory):
    """Path of a folder as picture_files.py makes it. Read only."""
    from picture_files import make_gallery

    folder = tmp_path_factory.mktemp("gallery")
    make_gallery(folder)
    return folder


@pytest.fixture
def photos(root):
    """The engine knows this data set. Labels are indices."""
    return pictures(root)


@pytest.fixture(autouse=True)
def alone_again():
    """Lightning leaves variables in the environment by which Accelerate then believes itself one of several
    ranks, and initialises
    torch.distributed, for all tests of this process that come later.
    """
    names = (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "OMP_NUM_THREADS",
    )
    before = {name: os.environ.get(name) for name in names}
    yield
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.fixture
def installed():
    millrace.install()
    yield
    millrace.uninstall()
