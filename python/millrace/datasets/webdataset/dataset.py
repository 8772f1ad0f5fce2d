"""WebDataset: samples in tar shards, read as the webdataset package reads them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

from millrace._common.ranks import world
from millrace._common.signed_urls import unsigned

from .chain import ENDLESS, seed_of
from .flow import Context, Flow
from .handlers import Handler, reraise_exception
from .holding import DetShuffle
from .indexed import IndexedWebDataset
from .open_shards import StoreOptions, check_url, checked_urls
from .shardlists import ResampledShards, SimpleShardList, TarfileToSamples
from .shards import ShardChain, Shards
from .split import Reader, Splitter, check_splitters, split_by_node, split_by_worker


class EditableSteps(list):
    """A WebDataset's steps. Changing the list turns the data set into a DataPipeline of the new list."""

    becomes: Any = None  # DataPipeline, set by its module, which imports this one
    owner: Any = None

    def of(self, owner: Any) -> EditableSteps:
        self.owner = owner
        return self

    def _changed(self) -> None:
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.__class__ = self.becomes
            owner.__dict__["_steps"] = self
            owner._forget()


def _changing(name: str) -> Any:
    method = getattr(list, name)

    @functools.wraps(method)
    def change(self: EditableSteps, *args: Any, **kw: Any) -> Any:
        result = method(self, *args, **kw)
        self._changed()
        return result

    return change


for _method in "__delitem__ __setitem__ __iadd__ append clear extend insert pop remove reverse".split():
    setattr(EditableSteps, _method, _changing(_method))


class WebDataset(ShardChain):
    """Samples in tar shards.

    Files a/b.jpg, a/b.cls of a shard are a sample {"__key__": "a/b", "__url__": shard, "jpg": ..., "cls":
    ...}; the shard's name is its URL without signatures and passwords (millrace/_common/signed_urls.py).

    An IterableDataset; fluent methods (fluent.py) append stages, each making a new dataset:

    >>> shards = WebDataset("train-{000..127}.tar", shardshuffle=True).shuffle(1000)
    >>> shards = shards.decode("pil").to_tuple("jpg;png", "cls").batched(64)

    Differences to the webdataset package: ranks and workers divide the shards by themselves, and when there
    are fewer shards than readers, the samples (describe_split()). All random choices depend on (seed, epoch),
    so the same seed gives the same order, another one in each epoch; and a place in it can be saved and taken
    up at every sample. Pickled fields are refused unless decode() allows them.

    With millrace.DataLoader epochs count themselves. With torch's and workers, call set_epoch(epoch) before
    each one.

    Args:
        urls: "train-{000..127}.tar", several of them joined by "::", or any iterable of paths and URLs.
        handler: what to do about shards and samples that cannot be read (handlers.py); the default raises.
        mode: None, or "resampled".
        resampled: endless: shards are drawn with replacement, by each reader from all of them, so
            `shardshuffle` and splitters change nothing. Declare an epoch with with_epoch().
        repeat: True is .repeat().
        shardshuffle: True or a number: the shards in random order, another one in each epoch, the same on all
            ranks.
        cache_size: bytes that the shards in cache_dir may have; -1: all but a tenth of the disk.
        cache_dir: a folder where shards from elsewhere are kept, shared by all processes of the machine.
        url_to_name: ValueError unless None: the cache names its files itself.
        detshuffle: no effect, as shuffles are deterministic.
        nodesplitter, workersplitter: the division of shards among ranks and workers (split.py). "auto"
            divides shards, or samples if there are too few shards; "shards", "samples": these only. None: all
            read all. Or a function from an iterator of {"url": ...} to an iterator of those that this reader
            takes, as webdataset's. While a loader that Accelerate prepared gives each rank its part, ranks do
            not divide here (a function still divides: leave it out).
        select_files, rename_files: functions of the names in the archives, called in the order rename,
            select.
        empty_check: a reader that finds no sample in its shards raises ValueError.
        verbose: prints which shard is opened.
        seed: of all shuffles; the same on all ranks. None: WDS_SEED of the environment, or 0.
        memory: bytes of shards from elsewhere that each reader may have in memory or on their way.
        store_options: for millrace.stores, which reads them: credentials, endpoint, region, ...

    Raises:
        ValueError: if arguments mean nothing, if a name is twice in a sample, or, with `empty_check`, if a
            reader finds no sample.
        CorruptDataError: if a shard has errors; it names the shard and the offset.
        FileNotFoundError: and the like, if a shard cannot be opened.
    """

    def __init__(
        self,
        urls: str | Iterable[str],
        handler: Handler = reraise_exception,
        mode: str | None = None,
        resampled: bool = False,
        repeat: bool = False,
        shardshuffle: None | bool | int = None,
        cache_size: int = -1,
        cache_dir: str | None = None,
        url_to_name: Callable[[str], str] | None = None,
        detshuffle: bool = False,
        nodesplitter: Splitter = "auto",
        workersplitter: Splitter = "auto",
        select_files: Callable[[str], bool] | None = None,
        rename_files: Callable[[str], str] | None = None,
        empty_check: bool = True,
        verbose: bool = False,
        seed: int | None = None,
        *,
        memory: int = 256 << 20,
        store_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(seed_of(seed))
        cache_dir = os.environ.get("WDS_CACHE", cache_dir)
        if mode not in (None, "resampled"):
            raise ValueError(f"mode={mode!r} is unknown; use None or 'resampled'")
        if url_to_name is not None:
            raise ValueError(
                "url_to_name has no meaning here: the cache names its files itself; leave it out"
            )
        check_splitters(nodesplitter=nodesplitter, workersplitter=workersplitter)
        if isinstance(urls, dict) or (
            isinstance(urls, str) and urls.endswith((".yaml", ".yml", ".json", "/"))
        ):
            raise ValueError(
                f"urls={urls!r}: shards are named by braces or a list here, not by a specification or folder"
            )
        self.shards = Shards(
            checked_urls(urls, commands=True),
            bool(shardshuffle) and not (resampled or mode == "resampled"),
            resampled or mode == "resampled",
            nodesplitter,
            workersplitter,
            select_files,
            rename_files,
            handler,
            empty_check,
            verbose,
            StoreOptions(
                None if cache_dir is None else os.path.expanduser(cache_dir),
                int(os.environ.get("WDS_CACHE_SIZE", cache_size)),
                memory,
                store_options,
            ),
        )
        if repeat:
            self._repetitions = ENDLESS

    def indexed(self, index_dir: str | None = None) -> IndexedWebDataset:
        """The same shards and stages as a map-style dataset: any order, len(), exact shuffles of all shards.

        It takes plain tars only.

        Args:
            index_dir: where the shards' indexes are kept when they do not lie beside them; None: in the
                user's cache folder.

        Raises:
            ValueError: if a stage does not treat sample by sample (shuffle, batched, slice), or has a
                handler.
        """
        shards = self.shards
        if shards.select_files is not None or shards.rename_files is not None:
            raise ValueError(
                "an index has the files as they are called in the shards: leave select_files and"
                " rename_files out"
            )
        for url in self.urls:
            check_url(url)  # commands are read front to back only
        return IndexedWebDataset(self.urls, self._stages, index_dir, shards.stores)

    def describe_split(self, num_workers: int = 0, ranks: int | None = None) -> str:
        """The shards that each reader reads in the next epoch, and why: a line per reader.

        Args:
            ranks: how many ranks; None: the present number.
        """
        if self.shards.resampled:
            return (
                f"{len(self.urls)} shards, resampled: every reader draws shards from all of them, with"
                " replacement"
            )
        ranks, workers = world()[1] if ranks is None else ranks, max(1, num_workers)
        lines: list[str] = []
        for rank in range(ranks):
            for worker in range(workers):
                context = Context(self.seed, self.epoch, 0, Reader(rank, ranks, worker, workers))
                share = self.shards.share(context)
                if not lines:
                    lines.append(f"{share.why}, in epoch {self.epoch}:")
                names = ", ".join(unsigned(self.urls[number]) for number in share.shards[:8]) + (
                    ", ..." if len(share.shards) > 8 else ""
                )
                part = (
                    "" if share.stride == 1 else f", every {share.stride}. sample from number {share.offset}"
                )
                lines.append(
                    f"  rank {rank}, worker {worker}: {len(share.shards)} of {len(self.urls)} shards{part}:"
                    f" {names}"
                )
        return "\n".join(lines)

    @property
    def pipeline(self) -> Any:
        """The steps as a DataPipeline lists them.

        Changing this list makes the data set that DataPipeline, which runs in Python.
        """
        steps = super().pipeline
        return EditableSteps(steps).of(self) if type(self) is WebDataset else steps

    def _head(self) -> tuple[Any, ...]:
        shards, urls = self.shards, list(self.urls)
        source: Any = ResampledShards(urls, seed=self.seed) if shards.resampled else SimpleShardList(urls)
        divided = ((shards.nodesplitter, split_by_node), (shards.workersplitter, split_by_worker))
        steps = [
            splitter if callable(splitter) else known for splitter, known in divided if splitter is not None
        ]
        shuffled = [DetShuffle(len(urls), seed=self.seed)] if shards.shuffled else []
        return (
            source,
            *shuffled,
            *steps,
            TarfileToSamples(shards.handler, shards.select_files, shards.rename_files),
        )

    def _source(self, context: Context, own: Any) -> Flow:
        return self.shards.run(context, own)
