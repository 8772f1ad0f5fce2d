"""Worker processes when descriptors run out while they start."""

import gc
import os
import resource

import pytest
from torch.utils.data import Dataset

import millrace


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index * index


def open_now():
    return set(os.listdir("/proc/self/fd"))


@pytest.fixture
def limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest, fillers = max(map(int, open_now())), [-1]
    while fillers[-1] <= highest:  # no number below is free
        fillers.append(os.open(os.devnull, os.O_RDONLY))
    yield lambda more: resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1 + more, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for filler in fillers[1:]:
        os.close(filler)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_none_is_left_open_when_they_run_out(limit):
    list(millrace.DataLoader(Squares(), 2, num_workers=1))  # what is opened once and for all
    loader = millrace.DataLoader(Squares(), 2, num_workers=4)
    told = 0
    for more in range(16):
        gc.collect()
        before, ours = open_now(), False
        limit(more)
        try:
            list(loader)
        except OSError as error:
            ours = "ulimit -n" in str(error)
        finally:
            limit(999)
        gc.collect()
        if ours:  # multiprocessing, too, opens two pipes, and leaves the first open when there is no second
            assert open_now() <= before, f"with {more} more"  # what others had open before may go meanwhile
            told += 1
    assert told > 0
