"""Started by torchrun: what two ranks get of a stream of shards from a framework. Writes JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
import millrace  # noqa: E402
from loader_data import torchvision_or_skip  # noqa: E402
from millrace.datasets import WebDataset  # noqa: E402

with contextlib.suppress(pytest.skip.Exception):
    # as conftest.py: what its import needs has to be there before transformers and lightning
    torchvision_or_skip()

BATCH = 4


def stream(urls: str) -> WebDataset:
    return WebDataset(urls, shardshuffle=True).shuffle(7).decode().to_tuple("cls").map_tuple(torch.tensor)


def gathered(value):
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def with_accelerate(urls: str) -> dict:
    """By (who reads, workers, their start, the loader's class): the numbers of each rank in two epochs."""
    import accelerate
    from torch.utils.data import DataLoader

    found = {}
    for dispatch in (None, False):
        accelerator = accelerate.Accelerator(
            cpu=True, dataloader_config=accelerate.DataLoaderConfiguration(dispatch_batches=dispatch)
        )
        for workers, start in ((0, None), (2, "fork"), (2, "spawn")):
            for install in (False, True):
                if install and start is not None:
                    continue
                if install:
                    millrace.install()
                loader = DataLoader(stream(urls), BATCH, num_workers=workers, multiprocessing_context=start)
                prepared = accelerator.prepare(loader)
                epochs = [[number for (batch,) in prepared for number in batch.tolist()] for _ in range(2)]
                found[f"dispatch={dispatch} workers={workers} {start} installed={install}"] = gathered(epochs)
                millrace.uninstall()
    loader = millrace.DataLoader(stream(urls), BATCH)  # not prepared: the stream divides itself
    found["left out"] = gathered(
        [[number for (batch,) in loader for number in batch.tolist()] for _ in range(2)]
    )
    return found


def with_trainer(urls: str, folder: str) -> dict:
    import transformers

    class Trainer(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **others):
            self.seen += inputs[0].tolist()
            return model(inputs[0].float().unsqueeze(1)).mean()

    arguments = transformers.TrainingArguments(
        folder,
        per_device_train_batch_size=BATCH,
        max_steps=10,
        dataloader_num_workers=0,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    model = torch.nn.Linear(1, 1)
    trainer = Trainer(
        model, arguments, train_dataset=stream(urls), data_collator=torch.utils.data.default_collate
    )
    trainer.seen = []
    trainer.train()
    return {"trainer": gathered([trainer.seen[:20], trainer.seen[20:]])}


def with_lightning(urls: str) -> dict:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.seen = torch.nn.Linear(1, 1), [[], []]

        def training_step(self, batch, batch_index):
            self.seen[self.current_epoch] += batch[0].tolist()
            return self.model(batch[0].float().unsqueeze(1)).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    module = Module()
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, millrace.DataLoader(stream(urls), BATCH, num_workers=1))
    return {"lightning": gathered(module.seen)}


def main() -> None:
    framework, urls, folder = sys.argv[1:]
    if framework == "trainer":
        found = with_trainer(urls, folder)
    else:
        found = {"accelerate": with_accelerate, "lightning": with_lightning}[framework](urls)
    if dist.get_rank() == 0:
        Path(folder, "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
