"""Ray Train: two workers, whose loaders get help from the cluster's other CPUs; one dies in the middle of an
epoch, and Ray has both go on from the last checkpoint.

    python examples/ray_train.py DIR [--epochs 2] [--die-after 9] [--cluster auto]

DIR: class folders of JPEGs, under the same path on each node. Trains once without a fault and once with it:
the losses of all steps are the same. Without --cluster, Ray is started on this machine.
Needs `pip install ray pandas pyarrow`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import millrace
import ray
import torch
from millrace import transforms
from ray import train
from ray.train.torch import TorchTrainer, prepare_model
from torch.utils.data import DistributedSampler

RANKS, BATCH, EVERY = 2, 4, 4


def loader_of(folder: str) -> millrace.DataLoader[Any]:
    """One rank's. auto_epoch tells the sampler the epoch, whose order each one has anew."""
    chain = transforms.Compose(
        [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    )
    data = millrace.datasets.ImageFolder(folder, transform=chain)
    return millrace.DataLoader(
        data,
        BATCH,
        sampler=DistributedSampler(data, seed=1),
        num_workers=1,
        auto_epoch=True,
        generator=torch.Generator().manual_seed(1),
        remote="ray",
        remote_workers=RANKS,
    )


def train_loop_per_worker(config: dict[str, Any]) -> None:
    torch.manual_seed(0)  # all ranks begin with the same network
    loader = loader_of(config["folder"])
    network = prepare_model(
        torch.nn.Sequential(
            torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(192, config["outputs"])
        )
    )
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    first, losses = 0, []

    checkpoint = train.get_checkpoint()  # None, until Ray has to start the workers again
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "model.pt"))
            progress = json.loads(Path(folder, "progress.json").read_text())
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(progress["loader"])
        first, losses = progress["epoch"], progress["losses"]
    resumed = len(losses)

    def report(epoch: int) -> None:
        """All ranks call it, at the same step: their loaders' states are one, which any number can load."""
        progress = {"loader": millrace.gather_state(loader), "epoch": epoch, "losses": losses}
        by_actors = sum(node["batches"] for node in loader.stats()["remote"]["nodes"].values())
        metrics = {"losses": losses, "resumed behind": resumed, "by actors": by_actors}
        if train.get_context().get_world_rank() > 0:
            train.report(metrics)
            return
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "progress.json").write_text(json.dumps(progress))
            saved = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(saved, Path(folder, "model.pt"))
            train.report(metrics, checkpoint=train.Checkpoint.from_directory(folder))

    for epoch in range(first, config["epochs"]):
        for pictures, labels in loader:
            loss = torch.nn.functional.cross_entropy(network(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 5))
            if len(losses) % EVERY == 0:
                report(epoch)
            if len(losses) == config["die_after"] and not resumed and train.get_context().get_world_rank():
                os._exit(1)
    if len(losses) % EVERY:
        report(epoch)


def fit(folder: str, epochs: int, storage: str, die_after: int | None = None) -> Any:
    classes = sum(path.is_dir() for path in Path(folder).iterdir())
    trainer = TorchTrainer(
        train_loop_per_worker,
        train_loop_config={"folder": folder, "outputs": classes, "epochs": epochs, "die_after": die_after},
        scaling_config=train.ScalingConfig(num_workers=RANKS, resources_per_worker={"CPU": 1}),
        run_config=train.RunConfig(
            storage_path=storage, failure_config=train.FailureConfig(max_failures=1 if die_after else 0)
        ),
    )
    return trainer.fit().metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--die-after", type=int, default=9, help="steps after which a worker's process ends")
    parser.add_argument("--cluster", help='its address; "auto": that which this machine is part of')
    arguments = parser.parse_args()
    if arguments.cluster:
        ray.init(address=arguments.cluster, log_to_driver=False)
    else:  # a CPU for each worker, and one for each worker's help
        ray.init(address="local", num_cpus=2 * RANKS, include_dashboard=False, log_to_driver=False)
    folder = str(Path(arguments.folder).absolute())
    with tempfile.TemporaryDirectory() as storage:
        whole = fit(folder, arguments.epochs, storage)
        parted = fit(folder, arguments.epochs, storage, arguments.die_after)
    steps, actors = len(whole["losses"]), whole["by actors"]
    print(f"{steps} steps; {actors} batches of the first rank's last epoch were made by actors")
    print(f"with a fault: {len(parted['losses'])} steps, resumed behind step {parted['resumed behind']}")
    same = whole["losses"] == parted["losses"]
    print(f"the losses of all steps are {'the same' if same else 'NOT the same'}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
