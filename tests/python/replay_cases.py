"""What the tests of the history recorder share: runs with replays in between, and what is run."""

from __future__ import annotations

import itertools
import random

import numpy as np
import torch
from loader_data import generator_states
from millrace import BatchHistory, transforms
from shard_data import same

AUGMENTED = transforms.Compose(
    [transforms.RandomResizedCrop(12), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
)


def seed():
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)


def run_with_replays(make, epochs=1, each=4, **recorder):
    """Equal to a run without replays; each `each`-th step, a step of the past is replayed, and at the end all
    are.
    """
    seed()
    plain = make()
    expected = [list(plain) for _ in range(epochs)]
    seed()
    loader = make()
    loader.history = BatchHistory(**recorder)
    for epoch in range(epochs):
        given = []
        for step, batch in enumerate(loader):
            given.append(batch)
            if step % each == 0:
                before = generator_states()
                assert same(loader.replay(step // 2), given[step // 2])
                assert generator_states() == before
        assert same(given, expected[epoch])
    count = len(expected[0])
    # each takes a new process
    steps = sorted({0, count // 2, count - 1}) if loader.stats()["engine"] == "processes" else range(count)
    for epoch, step in itertools.product(range(epochs), steps):
        assert same(loader.replay(step, epoch), expected[epoch][step]), (epoch, step)
    return loader, expected
