"""The target of a bench run: a dataset or a loader that `module:name` or `script.py:name` names, or an object
at hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millrace.dataloader import DataLoader
from millrace.prefetch import DevicePrefetcher
from torch.utils import data
from torch.utils.data import IterableDataset, RandomSampler, SequentialSampler

from ..named import called, divided, length, named

# Attributes of torch's class with the names of its arguments, and their defaults; batching and sampler are
# handled separately.
_TORCHS = {
    "pin_memory": False,
    "timeout": 0,
    "worker_init_fn": None,
    "multiprocessing_context": None,
    "generator": None,
    "pin_memory_device": "",
    "in_order": True,
}
_OURS = (
    "native",
    "on_error",
    "worker_method",
    "snapshot_every_n_steps",
    "equal_steps",
    "auto_epoch",
    "device",
    "prefetch_to_device",
    "decode",
)


@dataclass(frozen=True)
class Target:
    """`text`: "module:name" or "script.py:name". `live`: the thing itself, if it need not be found.
    `collate`: "module:function".

    The other fields are arguments for the loader; None: not given.
    """

    text: str
    live: Any = None
    collate: Any = None
    batch_size: int | None = None
    shuffle: bool = False
    on_error: str = "raise"

    def __post_init__(self) -> None:
        if self.live is None:
            divided(self.text)
        if isinstance(self.collate, str):
            divided(self.collate, "--collate ")

    def load(self) -> Source:
        """Imports and calls the named object; its errors pass through. ValueError if it is no dataset."""
        thing = named(self.text) if self.live is None else called(self.live, self.text)
        source = source_of(thing, self.text)
        collate = named(self.collate, call=False) if isinstance(self.collate, str) else self.collate
        if collate is not None:
            source.given["collate_fn"] = collate
        _give_batches(source, self)
        if self.on_error != "raise":
            source.given["on_error"] = self.on_error
        return source


@dataclass
class Source:
    """A dataset, and the common arguments of its loaders: `given`, with names of torch's class, or of
    millrace's class only.

    `workers` and `prefetch`: the values of the loader that the arguments were taken from; None without one.
    """

    dataset: Any
    given: dict[str, Any] = field(default_factory=dict)
    workers: int | None = None
    prefetch: int | None = None
    is_loader: bool = False

    def torchs(self) -> dict[str, Any]:
        """`given` without arguments that torch's class does not know."""
        return {name: value for name, value in self.given.items() if name not in _OURS}

    @property
    def is_iterable(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    @property
    def length(self) -> int | None:
        """Samples of the dataset; None if it has no length."""
        return length(self.dataset)


def source_of(thing: Any, text: str) -> Source:
    """The source of a loader or dataset. ValueError for anything else."""
    if isinstance(thing, DevicePrefetcher):
        raise ValueError(
            f"{text} is a DevicePrefetcher; name the loader in it, which may have device= itself"
        )
    if isinstance(thing, data.DataLoader):
        return _of_loader(thing)
    if not hasattr(thing, "__getitem__") and not isinstance(thing, IterableDataset):
        raise ValueError(
            f"{text} is of type {type(thing).__name__}: neither a dataset (with __getitem__, or an"
            " IterableDataset), a function that makes one, nor a DataLoader"
        )
    return Source(thing)


def _of_loader(loader: Any) -> Source:
    given = {
        name: getattr(loader, name) for name, default in _TORCHS.items() if getattr(loader, name) != default
    }
    if loader.collate_fn not in (data.default_collate, data.default_convert):
        given["collate_fn"] = loader.collate_fn
    if loader.batch_size is None and loader.batch_sampler is not None:
        given["batch_sampler"] = loader.batch_sampler
    else:
        given["batch_size"] = loader.batch_size
    if not isinstance(loader.dataset, IterableDataset) and "batch_sampler" not in given:
        given.update(_order(loader))
    switches = ("drop_last", "persistent_workers")
    given.update({name: True for name in switches if getattr(loader, name)})
    if isinstance(loader, DataLoader):
        given.update(
            {name: value for name in _OURS if (value := getattr(loader, name)) != getattr(DataLoader, name)}
        )
    return Source(loader.dataset, given, loader.num_workers, loader.prefetch_factor, is_loader=True)


def _order(loader: Any) -> dict[str, Any]:
    sampler = loader.sampler
    if type(sampler) is SequentialSampler and sampler.data_source is loader.dataset:
        return {}
    plain = (
        type(sampler) is RandomSampler and sampler.data_source is loader.dataset and not sampler.replacement
    )
    return {"shuffle": True} if plain and sampler._num_samples is None else {"sampler": sampler}


def _give_batches(source: Source, target: Target) -> None:
    if target.batch_size is not None:
        if "batch_sampler" in source.given:
            raise ValueError(
                f"{target.text} has a batch_sampler, which says what is in a batch: leave --batch-size out"
            )
        source.given["batch_size"] = target.batch_size
    elif not source.is_loader:
        source.given["batch_size"] = 64
    if not target.shuffle:
        return
    if source.is_iterable or {"sampler", "batch_sampler"} & source.given.keys():
        raise ValueError(f"{target.text} decides itself about its order: leave --shuffle out")
    source.given["shuffle"] = True
