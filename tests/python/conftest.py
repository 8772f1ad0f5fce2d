"""Fixtures of several test files. Functions they share are in pictures.py and loader_data.py, which can be
imported by name.
"""

import io
import signal
import threading

import pytest
from loader_data import make_folder, torchvision_or_skip
from millrace._pictures import asking
from millrace._pictures.counts import PictureCounts
from pictures import make_jpeg_folder
from PIL import Image
from stream_cases import write_shards
from torch.utils.data._utils import worker as torch_worker

# A shell that starts its jobs in the background tells them to ignore Ctrl-C, and Python then never raises
# KeyboardInterrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def torchvision():
    return torchvision_or_skip()


@pytest.fixture(scope="session")
def v2(torchvision):
    from torchvision.transforms import v2

    return v2


@pytest.fixture(scope="session")
def jpeg_folder(tmp_path_factory):
    """Path of a folder of 3 classes with 8 JPEGs each. Read only."""
    return make_jpeg_folder(tmp_path_factory.mktemp("jpegs") / "root")


@pytest.fixture(scope="session")
def replay_folder(tmp_path_factory):
    """Path of a folder of 21 small JPEGs of three classes. Read only."""
    root = tmp_path_factory.mktemp("replay") / "root"
    make_folder(root)
    return root


@pytest.fixture(scope="session")
def replay_shards(tmp_path_factory):
    """Path of a folder of four shards of pictures, as stream_cases.py has them. Read only."""
    return write_shards(tmp_path_factory.mktemp("replay shards"))


@pytest.fixture
def packages_as_before():
    """What is put into packages for pictures that wait is out of them again behind the test."""
    yield
    asking.put_back()


@pytest.fixture
def counts(packages_as_before):
    """Of this thread, which asks for a dataset."""
    mine = PictureCounts()
    before = asking.asks(mine)
    yield mine
    asking.stops_asking(before)


@pytest.fixture
def become(monkeypatch):
    """become(rank, ranks, worker, workers): this process answers as that reader would."""

    def become(rank=0, ranks=1, worker=0, workers=1):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        info = torch_worker.WorkerInfo(id=worker, num_workers=workers, seed=0, dataset=None)
        monkeypatch.setattr(torch_worker, "_worker_info", info)

    return become


@pytest.fixture
def stuck_picture():
    """Files that begin with STUCK are decoded by Pillow, which waits for the event. Then they are the picture
    `then`, a file's bytes, or none.
    """

    class Gate(threading.Event):
        then = b""

    gate = Gate()

    def opened(file, name=None):
        gate.wait(60)
        return Image.open(io.BytesIO(gate.then))

    Image.register_open("STUCK", opened, lambda prefix: prefix.startswith(b"STUCK"))
    yield gate
    gate.set()
    Image.ID.remove("STUCK")
    del Image.OPEN["STUCK"]
