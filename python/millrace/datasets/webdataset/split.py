"""The shards that each reader reads in an epoch; and whether Accelerate divides a stream among the ranks.

One rule, at two levels: first the ranks divide the shards, then the workers of a rank divide the rank's.
With at least one shard per rank (or worker), each takes every n-th shard, in the order of the epoch;
otherwise all of them read all these shards, and each takes every n-th sample. So nothing is read twice,
nothing is left out, and no reader starves for want of shards.

Accelerate's prepare() makes loaders that assume an IterableDataset to be the same on all ranks: rank 0 reads
and sends each rank its part (dispatch_batches, its default for streams), or every rank reads and keeps its
part (IterableDatasetShard). A stream already divided by rank would lose the other ranks' parts there.
While such a loader iterates, it is listed in Accelerate's GradientState, in forked workers too; a dataset
sent to another process carries the answer of the sending process.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Union

import torch
from torch.utils.data import get_worker_info

from millrace._common.moment import bare
from millrace._common.ranks import world

OWN_PLACE = "epochs of its own"  # in a memo of copy.deepcopy(): the copy is no reader of the same run


class EpochBoard:
    """The epoch that was set, in memory that copies of a dataset in other processes and threads share.

    [epoch, number of times it was set, that number when a worker process last began an epoch, whether a
    second worker process with the same number has warned]
    """

    def __init__(self) -> None:
        self._numbers = bare(torch.tensor, [0, 0, -1, 0]).share_memory_()

    def set(self, epoch: int) -> None:
        self._numbers[0] = epoch
        self._numbers[1] += 1

    def read(self) -> tuple[int, int]:
        epoch, times, _, _ = self._numbers.tolist()
        return epoch, times

    def warn_of_repetition(self) -> None:
        """Warns, once, if an earlier worker process began the same epoch. Called by the first worker in a new
        process when it begins an epoch.
        """
        epoch, times, begun, warned = self._numbers.tolist()
        self._numbers[2] = times
        if begun == times and not warned:
            self._numbers[3] = 1
            warnings.warn(
                f"epoch {epoch} of this WebDataset begins once more, with the order that it had: torch's"
                " DataLoader starts new workers, which do not know of the epoch before. Call"
                " set_epoch(epoch) on the data set before each epoch, give the loader"
                " persistent_workers=True, or use millrace.DataLoader, which counts epochs",
                stacklevel=2,
            )

    def __deepcopy__(self, memo: Any) -> EpochBoard:
        if OWN_PLACE not in memo:
            return self
        twin = EpochBoard()
        twin._numbers.copy_(self._numbers)
        return twin


Splitter = Union[None, str, Callable[[Iterator[dict[str, str]]], Iterable[dict[str, str]]]]

SPLITTERS = ("auto", "shards", "samples")


def check_splitters(**splitters: Splitter) -> None:
    """Raises ValueError, with the argument's name, for a value that is no splitter."""
    for name, splitter in splitters.items():
        if not (splitter is None or splitter in SPLITTERS or callable(splitter)):
            raise ValueError(
                f"{name}={splitter!r}: give None, a function, or one of {', '.join(map(repr, SPLITTERS))}"
            )


@dataclass(frozen=True)
class Reader:
    """One of all workers and ranks that read a dataset together: worker `worker` of `workers` in rank `rank`
    of `ranks`. Without workers: worker 0 of 1.
    """

    rank: int = 0
    ranks: int = 1
    worker: int = 0
    workers: int = 1

    @staticmethod
    def here(known_world: tuple[int, int] | None = None) -> Reader:
        """The reader of this process or thread. `known_world`: (rank, ranks) of the process that sent the
        dataset; used if this process knows only one rank.
        """
        rank, ranks = world()
        if ranks == 1 and known_world is not None:
            rank, ranks = known_world
        info = get_worker_info()
        return Reader(rank, ranks) if info is None else Reader(rank, ranks, info.id, info.num_workers)

    def __str__(self) -> str:
        return f"worker {self.worker} of {self.workers} in rank {self.rank} of {self.ranks}"

    @property
    def number(self) -> int:
        """This reader's number among all readers. Workers of different ranks alternate."""
        return self.worker * self.ranks + self.rank

    @property
    def readers(self) -> int:
        return self.ranks * self.workers


@dataclass(frozen=True)
class Share:
    """The samples that one reader reads: every `stride`-th sample of `shards`, from sample `offset` on.
    `shards`: numbers into the list of URLs, in the epoch's order.
    """

    shards: list[int]
    stride: int
    offset: int
    why: str


def share_of(
    reader: Reader, order: list[int], urls: list[str], nodesplitter: Splitter, workersplitter: Splitter
) -> Share:
    """The reader's share. `order`: the numbers of the shards in this epoch's order, the same for all
    readers.
    """
    shards, stride, by_rank = _divide(order, urls, reader.rank, reader.ranks, nodesplitter, "ranks")
    offset = reader.rank if stride > 1 else 0
    shards, factor, by_worker = _divide(
        shards, urls, reader.worker, reader.workers, workersplitter, "workers"
    )
    if factor > 1:
        offset += stride * reader.worker
    return Share(shards, stride * factor, offset, f"{by_rank}; {by_worker}")


def _divide(
    shards: list[int], urls: list[str], number: int, count: int, splitter: Splitter, who: str
) -> tuple[list[int], int, str]:
    """(the shards of reader `number`, n: it takes every n-th sample of them, the rule in words)"""
    have = f"{len(shards)} shard{'s' if len(shards) != 1 else ''}"
    if callable(splitter):
        entries: Iterator[Any] = ({"url": urls[number], "millrace_shard": number} for number in shards)
        chosen: Iterable[Any] = splitter(entries)
        numbers = [e["millrace_shard"] if "millrace_shard" in e else urls.index(e["url"]) for e in chosen]
        return numbers, 1, f"{have}: {getattr(splitter, '__name__', splitter)} chooses for {who}"
    if splitter is None:
        return shards, 1, f"{have}: all {who} read all, as the splitter is None"
    if count == 1:
        return shards, 1, f"{have} for {who[:-1]} 0 of 1"
    if splitter == "shards" or (splitter == "auto" and len(shards) >= count):
        return shards[number::count], 1, f"{have} for {count} {who}: every {count}. shard"
    few = "fewer shards than" if splitter == "auto" else "as asked for, all"
    return (
        shards,
        count,
        f"{have} for {count} {who}: {few} {who}, so each reads all of them and takes every {count}. sample",
    )


def split_by_node(source: Iterable[Any]) -> Iterator[Any]:
    """Every n-th entry of `source` for each of n ranks.

    As a nodesplitter it is "shards".
    """
    reader = Reader.here()
    return islice(source, reader.rank, None, reader.ranks)


def split_by_worker(source: Iterable[Any]) -> Iterator[Any]:
    """Every n-th entry of `source` for each of n workers.

    As a workersplitter it is "shards".
    """
    reader = Reader.here()
    return islice(source, reader.worker, None, reader.workers)


def single_node_only(source: Iterable[Any]) -> Iterator[Any]:
    """All entries of `source`.

    Raises:
        ValueError: if there are several ranks.
    """
    reader = Reader.here()
    if reader.ranks > 1:
        raise ValueError(
            f"this dataset is for one rank, and there are {reader.ranks}; leave nodesplitter out, and they"
            " divide the shards"
        )
    return iter(source)


def non_empty(source: Iterable[Any]) -> Iterator[Any]:
    """All entries of `source`.

    Raises:
        ValueError: if there is none.
    """
    entry = None
    for entry in source:
        yield entry
    if entry is None:
        raise ValueError(
            "there is nothing in this stream; look whether the shards are empty, or fewer than readers"
        )


def is_divided_by_accelerate(dataset: Any) -> bool:
    """Whether a loader that Accelerate prepared is being iterated, reads `dataset`, and gives each rank a
    part of it.
    """
    state, loaders = sys.modules.get("accelerate.state"), sys.modules.get("accelerate.data_loader")
    if state is None or loaders is None or not state.GradientState._shared_state:
        return False
    for loader in state.GradientState().dataloader_references:
        read = getattr(loader, "dataset", None)
        if isinstance(read, loaders.IterableDatasetShard):
            read = read.dataset
        elif not isinstance(loader, loaders.DataLoaderDispatcher):
            continue
        if read is dataset:
            return True
    return False
