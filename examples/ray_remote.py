"""Batches of a class folder made by threads here and by actors of Ray, compared with those of threads alone.

    python examples/ray_remote.py DIR [--remote-workers 2] [--epochs 2]

DIR: class folders of JPEGs, under the same path on each node. Where the script has called ray.init(), or a
cluster runs, its nodes help; else Ray is started on this machine.
"""

from __future__ import annotations

import argparse
from typing import Any

import millrace
import torch
from millrace import transforms


def loader_of(folder: str, **options: Any) -> millrace.DataLoader[Any]:
    chain = transforms.Compose([transforms.RandomResizedCrop(64), transforms.ToTensor()])
    data = millrace.datasets.ImageFolder(folder, transform=chain)
    seed = torch.Generator().manual_seed(1)
    return millrace.DataLoader(data, 8, shuffle=True, num_workers=1, generator=seed, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--remote-workers", type=int, default=2, help="CPUs of the cluster")
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()
    alone = loader_of(arguments.folder)
    helped = loader_of(arguments.folder, remote="ray", remote_workers=arguments.remote_workers)
    for epoch in range(arguments.epochs):
        batches = 0
        for (ours, labels), (theirs, their_labels) in zip(alone, helped, strict=True):
            assert torch.equal(ours, theirs) and torch.equal(labels, their_labels)
            batches += 1
        seen = helped.stats()["remote"]
        by_node = {node: made["batches"] for node, made in seen["nodes"].items()}
        print(f"epoch {epoch}: {batches} equal batches; made here: {seen['local']}, by node: {by_node}")


if __name__ == "__main__":
    main()
