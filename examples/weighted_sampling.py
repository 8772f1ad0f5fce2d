"""Shows samplers on labels of which one is rare: by weight, in balanced batches, shared by ranks, mixed, and
taken up again.

    python examples/weighted_sampling.py

Prints how often the rare class comes in each way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import torch
from millrace import DataLoader
from millrace.samplers import (
    DistributedWeightedSampler,
    MixtureSampler,
    StratifiedBatchSampler,
    WeightedRandomSampler,
    weights_from_labels,
)
from torch.utils.data import TensorDataset

LABELS = torch.tensor([0] * 8000 + [1] * 1800 + [2] * 200)
NAMES = ("cat", "dog", "otter")


def shares(labels: Iterable[int]) -> str:
    counts = Counter(map(int, labels))
    return ", ".join(f"{name} {counts[number] / counts.total():.1%}" for number, name in enumerate(NAMES))


def main() -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.arange(len(LABELS)), LABELS)
    print(f"the data:             {shares(LABELS)}")

    for mode in ("sqrt", "effective", "inverse"):
        sampler = WeightedRandomSampler(weights_from_labels(LABELS, mode), len(LABELS))
        loader = DataLoader(data, batch_size=100, sampler=sampler)
        seen = torch.cat([labels for _, labels in loader])
        print(f"{mode + ' weights:':22}{shares(seen)}")

    batches = StratifiedBatchSampler(LABELS, batch_size=30, mode="balanced", drop_last=True)
    fewest = min(
        min(Counter(labels.tolist()).values()) for _, labels in DataLoader(data, batch_sampler=batches)
    )
    print(f"balanced batches:     at least {fewest} of each class in all {len(batches)} batches of 30")

    ranks = [
        DistributedWeightedSampler(weights_from_labels(LABELS), 10_000, num_replicas=4, rank=rank)
        for rank in range(4)
    ]
    together = [index for sampler in ranks for index in sampler]
    print(f"four ranks together:  {shares(LABELS[together])}")

    # A run of four ranks dies, and goes on with three: what was left of the epoch comes, each draw once.
    alone = list(DistributedWeightedSampler(weights_from_labels(LABELS), 10_000, num_replicas=1, rank=0))
    iterators = [iter(sampler) for sampler in ranks]
    for iterator in iterators:
        iterator.take(700)
    state = json.dumps(iterators[0].state_dict())
    parts = []
    for rank in range(3):
        one = DistributedWeightedSampler(weights_from_labels(LABELS), 10_000, num_replicas=3, rank=rank)
        one.load_state_dict(json.loads(state))
        parts.append(list(one))
    rest = [index for step in zip(*parts) for index in step]
    print(
        f"taken up by three:    {'the same draws' if rest[:7200] == alone[2800:] else 'OTHER DRAWS'}, from a"
        f" state of {len(state)} bytes"
    )

    # Three quarters from the first data set; after 1,000 draws, a quarter.
    mixture = MixtureSampler([8000, 2000], weights=[3, 1], num_samples=2000)
    indices = iter(mixture)
    before = sum(index < 8000 for index in indices.take(1000))
    mixture.set_weights([1, 3])
    after = sum(index < 8000 for index in indices.take(1000))
    print(f"a mixture:            {before} of 1,000 from the first data set, {after} of the next 1,000")


if __name__ == "__main__":
    main()
