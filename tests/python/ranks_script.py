"""Started by torchrun in test_ranks.py: what one rank of a training run does with its loader. Prints nothing;
writes JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import millrace
import torch
import torch.distributed as dist
from torch.utils.data import Dataset, DistributedSampler

SIZE, BATCH, CUT = 101, 4, 3


class Squares(Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return torch.tensor(index)


def loader_of(kind: str, **options) -> millrace.DataLoader:
    data = Squares()
    if kind == "torch":
        return millrace.DataLoader(
            data, BATCH, sampler=DistributedSampler(data, seed=4), num_workers=1, **options
        )
    return millrace.DataLoader(
        data, BATCH, sampler=millrace.samplers.PermutationSampler(SIZE, seed=4), **options
    )


def gathered(value):
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def run(folder: Path, phase: str) -> dict:
    found = {}
    for kind in ("torch", "ours"):
        loader = loader_of(kind)
        loader.sampler.set_epoch(2)
        if phase == "first":
            iterator = iter(loader)
            seen = [index for _ in range(CUT) for index in next(iterator).tolist()]
            state = millrace.gather_state(loader)
            assert (
                len({hashlib.sha256(json.dumps(each).encode()).hexdigest() for each in gathered(state)}) == 1
            )
            (folder / f"{kind}.json").write_text(json.dumps(state))
            rest = [index for batch in iterator for index in batch.tolist()]
            found[kind] = gathered([seen, rest])
        else:
            loader.load_state_dict(json.loads((folder / f"{kind}.json").read_text()))
            found[kind] = gathered([index for batch in loader for index in batch.tolist()])
    return found


def uneven(equal_steps: str) -> list[list[int]]:
    """Rank r has r + 2 index lists of its own."""
    lists = [[10 * dist.get_rank() + i] for i in range(dist.get_rank() + 2)]
    loader = millrace.DataLoader(range(100), batch_sampler=lists, equal_steps=equal_steps)
    return gathered([[index for batch in loader for index in batch.tolist()] for _ in range(2)])


def in_groups() -> dict:
    """Ranks 0, 1 and 2, 3 are two tensor-parallel groups: 0, 2 and 1, 3 read different parts."""
    from torch.distributed.device_mesh import init_device_mesh

    torch.manual_seed(dist.get_rank())  # the loader has to agree on its own
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    found = {}
    for name, options in {
        "mesh": {"process_group": mesh, "mesh_dim": "data"},
        "group": {"process_group": mesh.get_group("data")},
        "both dimensions": {"process_group": mesh, "mesh_dim": ("data", "tensor")},
    }.items():
        loader = millrace.DataLoader(Squares(), BATCH, shuffle=True, auto_epoch=True, **options)
        epochs = [[index for batch in loader for index in batch.tolist()] for _ in range(2)]
        found[name] = gathered([epochs, loader.seed])
    return found


def main() -> None:
    folder, phase = Path(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo")
    found = run(folder, phase)
    if phase == "first":
        found["uneven"] = {name: uneven(name) for name in ("drop", "repeat", "pad")}
        found["groups"] = in_groups()
        found["report"] = millrace.rank_report(loader_of("torch"))
    if dist.get_rank() == 0:
        (folder / f"{phase}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
