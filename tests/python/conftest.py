"""Fixtures of several test files. Functions they share are in pictures.py and loader_data.py, which can be
imported by name.
"""

import io
import signal
import threading

import pytest
from loader_data import make_folder, torchvision_or_skip
from pictures import make_jpeg_folder
from PIL import Image
from stream_cases import write_shards

# A shell that starts its jobs in the background tells them to ignore Ctrl-C, and Python then never raises
# KeyboardInterrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def torchvision():
    return torchvision_or_skip()


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
