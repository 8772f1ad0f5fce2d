"""Worker processes when descriptors run out while they start, and where address space is limited."""

import gc
import os
import resource
import subprocess
import sys

import millrace
import pytest
from python_code import run_code
from torch.utils.data import Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index * index


def open_now():
    return set(os.listdir("/proc/self/fd"))


def limit(number):
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def starts_with_few_descriptors():
    """How often workers could not start; at each, what was open before is open still, and nothing else."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    highest, fillers = max(map(int, open_now())), [-1]
    while fillers[-1] <= highest:  # no number below is free
        fillers.append(os.open(os.devnull, os.O_RDONLY))
    list(millrace.DataLoader(Squares(), 2, num_workers=1))  # what is opened once and for all
    loader = millrace.DataLoader(Squares(), 2, num_workers=4)
    told = 0
    for more in range(16):
        gc.collect()
        before, ours = open_now(), False
        limit(fillers[-1] + 1 + more)
        try:
            list(loader)
        except OSError as error:
            ours = "ulimit -n" in str(error)
        finally:
            limit(soft)
        gc.collect()
        if ours:  # multiprocessing, too, opens two pipes, and leaves the first open when there is no second
            assert open_now() == before, f"with {more} more"
            told += 1
    return told


def test_none_is_left_open_when_they_run_out():
    """In a process of its own: threads that other tests have left may open and close what they like."""
    subprocess.run([sys.executable, "-W", "ignore", __file__], check=True, timeout=120)


MEASURED = """
import gc, os, resource, sys, threading, warnings
import millrace, torch
warnings.simplefilter("ignore")

class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((100_000,), float(index))

def addresses():
    return int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")

def loader(workers, **options):
    return millrace.DataLoader(Pictures(), 4, num_workers=workers, **options)

list(loader(1))  # what is loaded once and for all
gc.collect()
before = addresses()
"""


def test_iterators_take_the_address_space_of_their_batches():
    """Many at a time, and none of it is left."""
    done = run_code(
        MEASURED
        + """
iterators = [iter(loader(1, persistent_workers=True)) for _ in range(24)]
assert [next(iterator)[0, 0].item() for iterator in iterators] == [0.0] * 24
print(addresses() - before)
del iterators
gc.collect()
print(addresses() - before)
"""
    )
    during, after = map(int, done.stdout.split())
    assert during < 24 * 100e6 and after < 100e6


@pytest.mark.parametrize("room, told", [(4e9, ""), (2e7, "ulimit -v")])
def test_a_limit_on_address_space_counts_batches(room, told):
    done = run_code(
        MEASURED
        + """
train, validation = (loader(4, persistent_workers=True) for _ in range(2))
iterators = iter(train), iter(validation)
room = int(float(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_AS, (addresses() + room, resource.RLIM_INFINITY))
try:
    for _ in range(2):
        kept = [*train, *validation]
        assert [batch[0, 0].item() for batch in kept] == [*range(0, 32, 4)] * 2
    torch.empty(room // 2, dtype=torch.uint8)
    threading.Thread(target=int).start()
except OSError as error:
    print(error)
""",
        room,
    )
    assert told in done.stdout and bool(told) == bool(done.stdout.strip()), done.stdout


if __name__ == "__main__":
    assert starts_with_few_descriptors() > 0
