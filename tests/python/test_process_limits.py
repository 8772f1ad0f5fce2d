"""Worker processes when descriptors run out while they start."""

import gc
import os
import resource
import subprocess
import sys

import millrace
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


if __name__ == "__main__":
    assert starts_with_few_descriptors() > 0
