"""Lightning looks at the loader's class and attributes, makes it anew, and combines several."""

import millrace
import pytest
import torch
import torch.distributed
from fake_device import Fake
from training import InPython, model, noted, torchs

lightning = pytest.importorskip("lightning")
pytest.importorskip("lightning.pytorch")

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning advises on worker counts and devices
EPOCHS = 2


class Module(lightning.LightningModule):
    """Writes down every batch it is trained on."""

    def __init__(self, make_loader=None):
        super().__init__()
        self.model, self.make_loader, self.seen = model(), make_loader, []

    def train_dataloader(self):
        return self.make_loader()

    def training_step(self, batch, batch_index):
        if isinstance(batch, dict):
            self.seen.append({name: noted(part) for name, part in batch.items()})
            batch = next(iter(batch.values()))
        else:
            self.seen.append(noted(batch))
        return self.model(batch[0]).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def fit(module, loaders=None, ckpt_path=None, enable_checkpointing=False, **options):
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=enable_checkpointing,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    torch.manual_seed(3)
    try:
        trainer.fit(module, loaders, ckpt_path=ckpt_path)
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    return trainer


@pytest.mark.parametrize("workers, persistent", [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("native", [True, False], ids=["photos", "python"])
def test_fit(photos, workers, persistent, native):
    dataset = photos if native else InPython()
    seen = {}
    for cls in (torchs(), millrace.DataLoader):
        module = Module()
        trainer = fit(
            module, cls(dataset, 4, shuffle=True, num_workers=workers, persistent_workers=persistent)
        )
        seen[cls] = module.seen
    assert type(trainer.train_dataloader) is millrace.DataLoader
    assert trainer.train_dataloader.stats()["engine"] == (
        ("threads" if native else "processes") if workers else "inline"
    )
    assert seen[millrace.DataLoader] == seen[torchs()] and len(seen[torchs()]) == EPOCHS * 4


class Mine(millrace.DataLoader):
    """Its arguments Lightning can only know from patching __init__ while its hook runs."""

    def __init__(self, dataset, size, **options):
        super().__init__(dataset, size, **options)


@pytest.mark.parametrize("hook", [False, True], ids=["argument", "hook"])
def test_distributed_training_puts_its_sampler_in(photos, hook):
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this torch has no gloo")
    seen = {}
    for cls in (torchs(), millrace.DataLoader):
        options = {"native": "require", "on_error": "replace"} if cls is millrace.DataLoader else {}

        def make(cls=cls, options=options):
            kind = Mine if hook and options else cls
            return kind(photos, 4, shuffle=True, num_workers=2, **options)

        module = Module(make)
        trainer = fit(module, None if hook else make(), strategy="ddp", use_distributed_sampler=True)
        loader = trainer.train_dataloader
        assert isinstance(loader.sampler, torch.utils.data.DistributedSampler)
        seen[cls] = module.seen
    assert type(loader) is (Mine if hook else millrace.DataLoader) and (loader.native, loader.on_error) == (
        "require",
        "replace",
    )
    assert loader.stats()["engine"] == "threads"
    assert seen[millrace.DataLoader] == seen[torchs()] and len(seen[torchs()]) == EPOCHS * 4


class Whole(Mine):
    """Gives an argument itself, and hands on what it does not know."""

    def __init__(self, dataset, **options):
        super().__init__(dataset, options.pop("batch_size", 4), worker_method="thread", **options)


@pytest.mark.parametrize("cls", [millrace.DataLoader, Whole])
@pytest.mark.parametrize("workers", [0, 2, "auto"])
def test_our_arguments_are_those_of_the_loader_that_is_made_anew(photos, cls, workers):
    given = {"on_error": "replace", "native": "require", "history": False, "memory_budget": 0.5}
    given = given if workers == "auto" else {**given, "memory_budget": None}
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    loader = cls(photos, batch_size=4, num_workers=workers, **given)
    for _ in range(2):  # what was made anew, too
        again = fabric_made_anew(loader)
        assert type(again) is cls and again is not loader and again.num_workers == loader.num_workers
        assert {name: getattr(again, name) for name in given} == given
        assert again.worker_method == loader.worker_method
        loader = again
    assert len(list(fabric.setup_dataloaders(loader))) == 4


def fabric_made_anew(loader):
    return lightning.fabric.utilities.data._update_dataloader(loader, loader.sampler)


@pytest.mark.parametrize("mode, batches", [("min_size", 4), ("max_size_cycle", 7)])
def test_combined_loaders(photos, mode, batches):
    seen, loaders = {}, {}
    for cls in (torchs(), millrace.DataLoader):
        loaders = {
            "photos": cls(photos, 4, shuffle=True, num_workers=2),
            "python": cls(InPython(), 2, num_workers=1),
        }
        module = Module()
        fit(module, lightning.pytorch.utilities.CombinedLoader(loaders, mode))
        seen[cls] = module.seen
    assert {name: loader.stats()["engine"] for name, loader in loaders.items()} == {
        "photos": "threads",
        "python": "processes",
    }
    assert seen[millrace.DataLoader] == seen[torchs()] and len(seen[torchs()]) == EPOCHS * batches


def test_fabric_makes_the_loader_anew(photos):
    seen = {}
    for cls in (torchs(), millrace.DataLoader):
        fabric = lightning.Fabric(accelerator="cpu", devices=1)
        torch.manual_seed(3)
        loader = fabric.setup_dataloaders(cls(photos, 4, shuffle=True, num_workers=2))
        seen[cls] = [noted(batch) for _ in range(EPOCHS) for batch in loader]
    assert isinstance(loader._dataloader, millrace.DataLoader)
    assert loader._dataloader.stats()["engine"] == "threads"
    assert seen[millrace.DataLoader] == seen[torchs()]


def test_installed_it_takes_torchs_loaders_and_ours(photos, installed):
    assert lightning.fabric.utilities.data.DataLoader is millrace.DataLoader
    seen = []
    for cls in (torchs(), torch.utils.data.DataLoader):
        loader = cls(photos, 4, shuffle=True, num_workers=2)
        module = Module(lambda loader=loader: loader)
        trainer = fit(module)
        assert trainer.train_dataloader is loader
        seen.append(module.seen)
    assert loader.stats()["engine"] == "threads" and seen[0] == seen[1]


class Numbers(torch.utils.data.IterableDataset):
    """Stateful, with a length: else Lightning fetches a batch ahead, and counts it in checkpoints."""

    def __init__(self):
        self.at = self.start = 0

    def __len__(self):
        return 13

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        self.at, self.start = self.start, 0
        while (number := first + self.at * step) < 13:
            self.at += 1
            yield torch.full((3, 16, 16), float(number)), number
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.start = state["at"]


@pytest.mark.parametrize("workers, persistent", [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("kind", ["photos", "python", "stream"])
def test_a_fit_goes_on_from_a_checkpoint_in_mid_epoch(photos, tmp_path, kind, workers, persistent):
    def loader():
        dataset = {"photos": photos, "python": InPython(), "stream": Numbers()}[kind]
        order = {} if kind == "stream" else {"shuffle": True, "generator": torch.Generator().manual_seed(1)}
        return millrace.DataLoader(dataset, 3, num_workers=workers, persistent_workers=persistent, **order)

    class Killed(Exception):
        pass

    class Dying(Module):
        def training_step(self, batch, batch_index):
            if len(self.seen) == 4:
                raise Killed
            return super().training_step(batch, batch_index)

    whole = Module()
    fit(whole, loader())
    first, then = Dying(), Module()
    keep = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, filename="last", every_n_train_steps=3)
    with pytest.raises(Killed):
        fit(first, loader(), callbacks=[keep], enable_checkpointing=True)
    fit(then, loader(), ckpt_path=tmp_path / "last.ckpt")
    assert len(whole.seen) == EPOCHS * 5 and first.seen == whole.seen[:4]
    assert then.seen == whole.seen[3:]


def test_a_prefetcher_around_torchs_loader(monkeypatch):
    """In place of the loader, in one line; a fake device takes the batches."""
    Fake().install(monkeypatch)
    dataset, seen = InPython(), []
    for wrap in (lambda loader: loader, lambda loader: millrace.DevicePrefetcher(loader, "fake", 2)):
        # without shuffling: Lightning calls iter() once more for what is not torch's class, which draws
        module = Module()
        trainer = fit(module, wrap(torchs()(dataset, 4, num_workers=2)))
        seen.append((module.seen, trainer.global_step))
    assert seen[0] == seen[1] and seen[0][1] > 0


def test_a_loader_with_a_device(monkeypatch):
    Fake().install(monkeypatch)
    seen = []
    for device in (None, "cuda"):
        module = Module()
        fit(module, millrace.DataLoader(InPython(), 4, shuffle=True, num_workers=2, device=device))
        seen.append(module.seen)
    assert seen[0] == seen[1]
