"""remote_spec(): a plan's spec, with batches that actors make, too."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from ..._common.torch_private import _DatasetKind
from ..engine import EngineSpec
from ..engines.batches import BatchSpec
from ..engines.core import Core, NotInTime
from ..engines.epoch_keys import EpochKeys
from ..engines.native import ImageSpec, NativeSpec
from ..engines.rows import RowsSpec
from ..states import is_stateful
from .core import RemoteCore
from .maker import AnyKeys, RowsAlone, maker_of
from .near import NearMaker
from .pool import Pool, pool_of


@dataclass(frozen=True)
class RemoteSpec(NativeSpec):
    """`pool`: helps to make the batches of `alone`; or, if that is None, those of the Python `dataset`."""

    pool: Pool
    alone: ImageSpec | BatchSpec | None
    dataset: Any
    late = NotInTime

    def __post_init__(self) -> None:
        alone = NativeSpec if self.alone is None else self.alone
        for name in ("leaves_out", "python_collate"):
            object.__setattr__(self, name, getattr(alone, name))

    def core(self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str) -> Core:
        maker: Any = maker_of(self.alone, threads, batch_size, memory)
        keys: Any = AnyKeys()
        if isinstance(self.alone, ImageSpec):
            keys = EpochKeys(len(self.alone.files.files))
        elif isinstance(self.alone, BatchSpec):
            keys = RowsAlone()
        maker = maker or NearMaker(self.pool, self.dataset, threads, memory)
        return RemoteCore(maker, keys, self.pool, memory)

    def rows(self, batch: Any) -> Any:
        return batch if self.alone is None else self.alone.rows(batch)

    def collated(self, made: Any) -> Any:
        return self.alone.collated(made[0]) if isinstance(self.alone, ImageSpec) else made[0]

    def lists_ahead(self, batch_size: int | None) -> int:
        """The lists that are out with members, and as many as local threads make while the order waits for
        one of these.
        """
        out = sum(member.credits for member in self.pool.members)
        return 4 + out + out // 2


def remote_spec(loader: Any, spec: EngineSpec, of_class: type) -> EngineSpec:
    """The RemoteSpec of `spec`; or `spec` itself, with a warning that gives the reason, if actors cannot
    help. `of_class`: the class of the actors' loaders.
    """
    kind, reason = kind_of(loader, spec)
    if kind is None:
        warnings.warn(
            f'remote="{loader.remote}" does not help here: {reason}. This loader\'s batches are made on this'
            " machine alone",
            RuntimeWarning,
            stacklevel=6,
        )
        return spec
    alone = spec if isinstance(spec, (ImageSpec, BatchSpec)) else None
    return RemoteSpec(pool_of(loader, of_class, kind), alone, loader.dataset)


def explained(loader: Any, spec: EngineSpec) -> str:
    """The line of explain()."""
    kind, reason = kind_of(loader, spec)
    return f"remote: {'this machine alone' if kind is None else loader.remote} — {reason}"


def kind_of(loader: Any, spec: EngineSpec) -> tuple[str | None, str]:
    """(how the CPUs of an actor share its work, words for explain()), or (None, why actors cannot help).
    "rows": they share the rows of a batch; "batches": each makes whole ones; "processes": an actor has one
    CPU.
    """
    if type(spec) is ImageSpec:
        if spec.drawn_size is not None:
            return None, "which size a batch has (RandomBatchSize), actors are not told"
        if spec.on_error in (None, "raise"):
            return "rows", "pictures, by the engine"
        return None, "a handler of the dataset's own decides what comes in the place of pictures that fail"
    if type(spec) is BatchSpec:
        if loader.persistent_workers and hasattr(spec.source.dataset, "set_epoch"):
            return None, "with persistent_workers, the dataset's set_epoch() would not reach its copies"
        return "batches", f"whole batches of {type(spec.source.dataset).__name__}, in threads"
    if type(spec) is RowsSpec:
        return None, "rows in memory are only copied, and their way from another machine would be a copy, too"
    if loader._dataset_kind == _DatasetKind.Iterable:
        return None, "a stream is read in its own order; WebDataset.indexed() has its samples by number"
    if not loader._auto_collation:
        return None, "batch_size=None hands out single samples"
    if is_stateful(loader.dataset):
        return None, "the dataset has a state (state_dict), which each copy of it would have for itself"
    return "processes", f"{type(loader.dataset).__name__}, in processes, each sample with seeds of its own"
