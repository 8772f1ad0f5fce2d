"""Several ranks over one dataset: who reads what, a checkpoint of all of them, and going on with another
number of ranks.

    torchrun --nproc-per-node 4 examples/distributed.py --folder /tmp/run --stop-after 10
    torchrun --nproc-per-node 3 examples/distributed.py --folder /tmp/run   # three go on where four stopped
    python examples/distributed.py                                          # both, one after the other

Each rank is an ordinary script: torch's DistributedSampler, and a loader that counts the epochs for it.
`gather_state` makes one state of all ranks' states, which any number of ranks can load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import millrace
import torch
import torch.distributed as dist
from millrace import DataLoader
from torch.utils.data import DistributedSampler, TensorDataset

SAMPLES, BATCH = 1001, 16


def train(folder: Path, stop_after: int | None) -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dataset = TensorDataset(
        torch.arange(SAMPLES), torch.rand(SAMPLES, 8, generator=torch.Generator().manual_seed(0))
    )
    # A sampler that nobody calls set_epoch() on gives every epoch the same order: auto_epoch=True calls it.
    loader = DataLoader(dataset, BATCH, sampler=DistributedSampler(dataset), num_workers=1, auto_epoch=True)

    report = millrace.rank_report(loader)  # all ranks call it
    checkpoint = folder / "checkpoint.json"
    if checkpoint.exists():
        loader.load_state_dict(json.loads(checkpoint.read_text()))
    elif rank == 0:
        print(report)

    read: list[int] = []
    for step, (indices, _) in enumerate(loader, 1):
        read += indices.tolist()
        if step == stop_after:
            state = millrace.gather_state(loader)  # all ranks call it, at the same step
            if rank == 0:
                checkpoint.write_text(json.dumps(state))
            break

    everything: list[list[int]] = [[] for _ in range(ranks)]
    dist.all_gather_object(everything, read)
    if rank == 0:
        name = folder / f"read by {ranks} ranks.json"
        name.write_text(json.dumps([index for part in everything for index in part]))
        print(f"{ranks} ranks read {', '.join(str(len(part)) for part in everything)} samples")
    dist.destroy_process_group()


def demonstrate() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for ranks, extra in ((4, ["--stop-after", "10"]), (3, [])):
            torchrun = [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={ranks}",
            ]
            environment = {"OMP_NUM_THREADS": "1", **os.environ}
            subprocess.run([*torchrun, __file__, "--folder", scratch, *extra], check=True, env=environment)
        first, second = (
            json.loads(Path(scratch, f"read by {ranks} ranks.json").read_text()) for ranks in (4, 3)
        )
        both = set(first) & set(second)
        print(
            f"together: {len(set(first) | set(second))} of {SAMPLES} samples; {len(both)} twice, to make the"
            " ranks' steps equal"
        )
        sys.exit(len(set(first) | set(second)) != SAMPLES or len(both) > 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, help="of the checkpoint; without it, two runs are started one after the other"
    )
    parser.add_argument("--stop-after", type=int, help="steps, as if the time on the machines were over")
    arguments = parser.parse_args()
    if arguments.folder is None:
        demonstrate()
    else:
        train(arguments.folder, arguments.stop_after)


if __name__ == "__main__":
    main()
