"""wds.utils: whether shards may run code, the reader of this process, and the small helpers that scripts
import from there.

`enforce_security` is one switch for everything that runs what data or URLs say. It is read when such a thing
is met, in worker processes, too:

    None, the default    commands (pipe:) are refused, and pickles that decode() was not allowed to read
    False                a script says so, or WDS_SECURE=0: both are read, as the webdataset package does
    True                 or WDS_SECURE=1: refused whatever decode() allows, and so are .pth fields, local
    files in gopen(), GOPEN_REWRITE
"""

from __future__ import annotations

import importlib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .split import Reader


def _of_environment(name: str) -> bool | None:
    value = os.environ.get(name, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"{name}={value!r} in the environment: give 0 or 1, or leave it out")
    return None if value == "" else value == "1"


enforce_security: bool | None = _of_environment("WDS_SECURE")


class Closing:
    """Base of objects that a with statement closes at its end."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class PipelineStage:
    """Base of steps that a script writes: `run(samples)` gives the samples after the step."""

    def run(self, samples: Iterator[Any]) -> Iterable[Any]:
        raise NotImplementedError(f"{type(self).__name__} needs a method run(samples)")

    def invoke(self, *args: Any, **kw: Any) -> Iterable[Any]:
        """The package's older name of run()."""
        return self.run(*args, **kw)


def identity(value: Any) -> Any:
    """The function that map_tuple() calls for a field that stays as it is."""
    return value


def is_iterable(thing: Any) -> bool:
    """Whether it can be iterated over and is no text."""
    return isinstance(thing, Iterable) and not isinstance(thing, (str, bytes))


def lookup_sym(sym: str, modules: Sequence[str]) -> Any:
    """The first thing called `sym` in these modules (".filters": of this package); None when none has it."""
    found = (getattr(importlib.import_module(name, __package__), sym, None) for name in modules)
    return next((thing for thing in found if thing is not None), None)


def make_seed(*parts: Any) -> int:
    """A seed below 2^31 that depends on all parts, and is the same in every process."""
    return zlib.crc32(repr(parts).encode()) & 0x7FFFFFFF


def pytorch_worker_info(group: Any = None) -> tuple[int, int, int, int]:
    """(rank, ranks, worker, workers) of this process or thread; `group`: ranks in this one of
    torch.distributed.
    """
    reader = Reader.here()
    if group is None:
        return reader.rank, reader.ranks, reader.worker, reader.workers
    import torch.distributed as distributed

    return distributed.get_rank(group), distributed.get_world_size(group), reader.worker, reader.workers


def pytorch_worker_seed(group: Any = None) -> int:
    """Another number for each worker of each rank, the same in each run."""
    rank, _, worker, _ = pytorch_worker_info(group)
    return rank * 1000 + worker


def guess_batchsize(batch: Sequence[Any]) -> int:
    """How many samples the columns of a batch have."""
    return len(batch[0])


def repeatedly(
    source: Iterable[Any],
    nepochs: int | None = None,
    nbatches: int | None = None,
    nsamples: int | None = None,
    batchsize: Callable[[Any], int] = guess_batchsize,
) -> Iterator[Any]:
    """The items of `source` again and again.

    Args:
        nepochs, nbatches, nsamples: epochs, batches and samples after which it ends.
        batchsize: a function of a batch that says how many samples it has.
    """
    epochs = batches = samples = 0
    while nepochs is None or epochs < nepochs:
        before = batches
        for batch in source:
            yield batch
            batches += 1
            samples += 0 if nsamples is None else batchsize(batch)
            if (nbatches is not None and batches >= nbatches) or (
                nsamples is not None and samples >= nsamples
            ):
                return
        if batches == before:  # there is nothing to repeat
            return
        epochs += 1
