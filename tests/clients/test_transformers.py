"""The Hugging Face Trainer builds its loaders, with its own worker_init_fn, and hands them to Accelerate."""

import millrace
import pytest
import torch
import torch.utils.data
from training import InPython, model, noted

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")


class Trainer(transformers.Trainer):
    """Writes down every batch it trains on; pictures do not come as keyword arguments."""

    def compute_loss(self, model, inputs, return_outputs=False, **others):
        self.seen.append(noted(inputs))
        loss = model(inputs[0]).mean()
        return (loss, {}) if return_outputs else loss


def train(dataset, folder, workers):
    arguments = transformers.TrainingArguments(
        str(folder),
        per_device_train_batch_size=4,
        num_train_epochs=2,
        dataloader_num_workers=workers,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        seed=3,
    )
    trainer = Trainer(
        model(), arguments, train_dataset=dataset, data_collator=torch.utils.data.default_collate
    )
    trainer.seen = []
    trainer.train()
    return trainer.callback_handler.train_dataloader, trainer.seen


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("native", [True, False], ids=["photos", "python"])
def test_trainer(photos, tmp_path, workers, native):
    dataset = photos if native else InPython()
    _, expected = train(dataset, tmp_path, workers)
    millrace.install()
    try:
        loader, seen = train(dataset, tmp_path, workers)
    finally:
        millrace.uninstall()
    assert isinstance(loader, millrace.DataLoader) and type(loader.base_dataloader) is millrace.DataLoader
    assert loader.base_dataloader.stats()["engine"] == (
        ("threads" if native else "processes") if workers else "inline"
    )
    assert seen == expected and len(seen) == 8
