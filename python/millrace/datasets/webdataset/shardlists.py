"""wds.shardlists: the shards at the start of a DataPipeline, and the step that goes from shards to samples.

SimpleShardList and ResampledShards before tarfile_to_samples() become a WebDataset (pipeline.py); alone, and
all others, they are iterables of {"url": ...}.
"""

from __future__ import annotations

import contextlib
import glob
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch.utils.data import IterableDataset

from . import utils
from .flow import Context, Draws, Flow, Opaque, Stage
from .handlers import Handler, reraise_exception
from .open_shards import opened_shards
from .shards import ShardFlow, Shards
from .split import Reader, non_empty, single_node_only, split_by_node, split_by_worker
from .urls import expand_braces, expand_urls

__all__ = [
    "DirectoryShardList",
    "ResampledShardList",
    "ResampledShards",
    "SimpleShardList",
    "expand_source",
    "expand_urls",
    "non_empty",
    "resampled",
    "shardspec",
    "single_node_only",
    "split_by_node",
    "split_by_worker",
    "tarfile_to_samples",
]


class SimpleShardList(IterableDataset):
    """The shards in order, or in a random one with a `seed`.

    In front of tarfile_to_samples(), each epoch has another random order.

    Args:
        seed: an int; True: the data set's own.
    """

    resampled = False

    def __init__(self, urls: Any, seed: Any = None) -> None:
        super().__init__()
        self.urls, self.seed = expand_urls(urls), seed

    @property
    def shuffled(self) -> bool:
        return self.seed is not None

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[dict[str, str]]:
        order = list(self.urls)
        if self.shuffled:
            random.Random(None if self.seed is True else self.seed).shuffle(order)
        return ({"url": url} for url in order)


class ResampledShards(IterableDataset):
    """`nshards` shards, drawn with replacement.

    In front of tarfile_to_samples(), without `nshards` and `worker_seed`, a DataPipeline draws by (seed,
    epoch, reader), `deterministic` or not, and is resumed at the very sample. Else each iterator draws anew:
    by (worker_seed(), how many there were before, seed) if `deterministic`, by chance if not.

    Args:
        worker_seed: a function without arguments; None: utils.pytorch_worker_seed.
        max_urls: of an iterable, only so many.
        empty_check: False allows that there are no shards, and gives none.
    """

    resampled, shuffled = True, False

    def __init__(
        self,
        urls: Any,
        nshards: int = sys.maxsize,
        seed: int = 0,
        worker_seed: Callable[[], int] | None = None,
        deterministic: bool = False,
        max_urls: int = 10**6,
        empty_check: bool = True,
    ) -> None:
        super().__init__()
        found = expand_source(urls, max_urls)
        self.urls = expand_urls(found) if found or empty_check else []
        self.nshards, self.seed, self.deterministic = nshards, seed, deterministic
        self.worker_seed = utils.pytorch_worker_seed if worker_seed is None else worker_seed
        self.epoch = -1

    @property
    def is_plain(self) -> bool:
        """Whether no option is used that only Python's iterator supports."""
        return (
            self.nshards == sys.maxsize and self.worker_seed is utils.pytorch_worker_seed and bool(self.urls)
        )

    def __iter__(self) -> Iterator[dict[str, str]]:
        self.epoch += 1
        chance = () if self.deterministic else (os.urandom(16),)
        draws = Draws(self.worker_seed(), self.epoch, self.seed, *chance)
        count = self.nshards if self.urls else 0
        return ({"url": self.urls[draws.below(number, len(self.urls))]} for number in range(count))


ResampledShardList = ResampledShards


def expand_source(source: Any, max_urls: int = 10**9) -> list[str]:
    """The URLs that a string expands to, or the first `max_urls` of a list."""
    return list(islice(expand_urls(source) if isinstance(source, (str, os.PathLike)) else source, max_urls))


def shardspec(spec: str) -> SimpleShardList:
    """SimpleShardList(spec).

    Raises:
        ValueError: if `spec` is a .yaml file, which lists data sets: mix them by RandomMix.
    """
    if spec.endswith((".yaml", ".yml")):
        raise ValueError(
            f"{spec}: data sets are not listed in files here; RandomMix([...], probs=[...]) mixes them"
        )
    return SimpleShardList(spec)


@dataclass(frozen=True)
class _Resampled:
    """The step that resampled() makes: a function of shards, with other random draws at each call."""

    n: int = sys.maxsize

    def __call__(self, source: Iterable[Any]) -> Iterator[Any]:
        items, draw = list(source), random.Random(os.urandom(16))
        return (draw.choice(items) for _ in range(self.n if items else 0))


def resampled(n: int = sys.maxsize) -> _Resampled:
    """A step: `n` of the shards before it, drawn with replacement, in each epoch anew."""
    return _Resampled(n)


class DirectoryShardList(IterableDataset):
    """The shards that appear in a folder. One process takes each, and renames it to "name._PID_" while
    reading it.

    Args:
        path: the folder, with a / at the end.
        pattern: of their names, with {a,b}.
        poll: seconds between two looks while there is no shard; None: the list ends then.
        timeout: seconds without a new shard after which the list ends.
        mode: the fate of a shard when the next one is requested: "unlink", "keep" (it is renamed to
            name._done_), "resample" (it can be taken again).
        select: "random" or "oldest".
    """

    def __init__(
        self,
        path: str,
        pattern: str = "*.{tar,tgz,tar.tgz}",
        poll: float | None = 1,
        timeout: float = 1e12,
        mode: str = "resample",
        select: str = "random",
        fate: None = None,
    ) -> None:
        super().__init__()
        if not path.endswith("/") or not os.path.isdir(path):
            raise ValueError(f"DirectoryShardList({path!r}): give a folder that is there, with a / behind it")
        if mode not in ("unlink", "keep", "resample") or select not in ("random", "oldest"):
            raise ValueError(
                f"mode={mode!r}, select={select!r}: give 'unlink', 'keep' or 'resample', and 'random' or"
                " 'oldest'"
            )
        if fate is not None:
            raise ValueError("fate has no meaning; `mode` says what becomes of a shard")
        self.path, self.pattern, self.poll, self.timeout, self.mode, self.select = (
            path,
            pattern,
            poll,
            timeout,
            mode,
            select,
        )

    def recycle(self, active: str) -> None:
        """Treat a shard that was read as `mode` says."""
        if self.mode == "unlink":
            os.unlink(active)
        else:
            os.rename(active, active.rpartition(".")[0] + ("._done_" if self.mode == "keep" else ""))

    def cleanup_files_without_processes(self) -> None:
        """Treat the shards of processes that have ended as recycle() does."""
        for name in glob.glob(os.path.join(glob.escape(self.path), "*._*_")):
            pid = name.rpartition("._")[2][:-1]
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                with contextlib.suppress(FileNotFoundError):  # another process was quicker
                    self.recycle(name)

    def __iter__(self) -> Iterator[dict[str, str]]:
        last = time.monotonic()
        while time.monotonic() - last < self.timeout:
            taken = self._take()
            if taken is None:
                if self.poll is None:
                    return
                time.sleep(self.poll)
                continue
            yield {"url": taken}
            last = time.monotonic()
            self.recycle(taken)
            self.cleanup_files_without_processes()

    def _take(self) -> str | None:
        while True:
            found = sorted(
                {
                    name
                    for pattern in expand_braces(self.pattern)
                    for name in glob.glob(glob.escape(self.path) + pattern)
                }
            )
            if not found:
                return None
            with contextlib.suppress(FileNotFoundError):  # another process was quicker
                name = (
                    random.choice(found)
                    if self.select == "random"
                    else min(found, key=lambda name: os.stat(name).st_mtime)
                )
                os.rename(name, f"{name}._{os.getpid()}_")
                return f"{name}._{os.getpid()}_"


# ---------------------------------------------------------------- from shards to samples


@dataclass(frozen=True)
class TarfileToSamples(Stage):
    """The step of a DataPipeline that goes from shards to samples."""

    handler: Handler = reraise_exception
    select_files: Callable[[str], bool] | None = None
    rename_files: Callable[[str], str] | None = None
    has_position = counts = True
    label = "tarfile_to_samples()"

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        """The flow after steps that WebDataset does not know: their state is not known, so resuming starts
        from the beginning.
        """
        return Opaque(source, self.generate, own)

    def generate(self, samples: Iterator[Any]) -> Iterator[Any]:
        shards = Shards(
            (),
            False,
            False,
            None,
            None,
            self.select_files,
            self.rename_files,
            self.handler,
            empty_check=False,
        )
        return iter(_UrlFlow(shards, samples))


class _UrlFlow(ShardFlow):
    """The samples of shards {"url": ...} as they come: each shard is opened at its turn, so a list may wait
    for shards.
    """

    def __init__(self, shards: Shards, entries: Iterator[dict[str, str]]) -> None:
        super().__init__(shards, Context(0, 0, 0, Reader.here()), None)
        self._entries = entries

    def _part(self) -> tuple[Iterator[str], int, int, str]:
        return (entry["url"] for entry in self._entries), 1, 0, "as they come"

    def _opened(self, urls: Iterator[str]) -> Iterator[tuple[str, Any]]:
        for url in urls:
            yield from opened_shards([url], None, self._shards.stores, commands=True)


def tarfile_to_samples(
    handler: Handler = reraise_exception,
    select_files: Callable[[str], bool] | None = None,
    rename_files: Callable[[str], str] | None = None,
) -> TarfileToSamples:
    """The step of a DataPipeline that reads shards; the arguments are WebDataset's."""
    return TarfileToSamples(handler, select_files, rename_files)
