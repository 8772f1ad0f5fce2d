"""Ctrl-C and the end of the process: at once, without a hang, without a crash."""

import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys, threading
import millrace
from millrace import transforms
transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
data = millrace.datasets.ImageFolder(sys.argv[1], transform)
many = [i % len(data) for i in range(10**6)]
workers = int(sys.argv[2])
loader = millrace.DataLoader(data, batch_size=32, sampler=many, num_workers=workers, native="require")
{body}
"""

LOOP = """
try:
    for step, batch in enumerate(loader):
        if step == 2:
            print("running", flush=True)
except KeyboardInterrupt:
    del loader
    import contextlib, gc, time; gc.collect()
    def left():
        names = []
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):  # it has just ended
                names.append(open(f"/proc/self/task/{task}/comm").read())
        return sum(name.startswith("millrace") for name in names)
    until = time.monotonic() + 60
    while left() and time.monotonic() < until:
        time.sleep(0.001)
    print("interrupted", left(), flush=True)
"""


def start(folder, workers, body):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body), folder, str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.alone
def test_ctrl_c_stops_at_once_and_leaves_no_thread(jpeg_folder, workers):
    process = start(jpeg_folder, workers, LOOP)
    try:
        assert process.stdout.readline() == "running\n", process.stderr.read()
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted 0\n"
        assert time.monotonic() - sent < 3
        assert process.wait(timeout=200) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "body",
    [
        "iterator = iter(loader); next(iterator)",
        "iterator = iter(loader); held = next(iterator); raise SystemExit(0)",
        "kept = [b for b, _ in zip(loader, range(6))]",
        "import atexit\niterator = iter(loader); atexit.register(lambda: next(iterator, None))",
    ],
)
def test_the_process_ends_cleanly_with_a_live_iterator(jpeg_folder, body):
    process = start(jpeg_folder, 2, body)
    try:
        _, errors = process.communicate(timeout=200)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
