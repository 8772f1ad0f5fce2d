"""Pipelines that are written as lists of steps, as webdataset's: DataPipeline(SimpleShardList(urls), ..., tarfile_to_samples(), ...).

They become the same WebDataset as the fluent methods make: what stands before tarfile_to_samples() is its arguments, the rest its stages.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .chain import Chain
from .dataset import WebDataset
from .fluent import Fluent
from .handlers import Handler, reraise_exception
from .holding import Shuffle
from .mixture import Mixture
from .urls import expand_urls

# ---------------------------------------------------------------- sources


class SimpleShardList:
    """The shards of a DataPipeline, in order; with a `seed` in a random one, another one in each epoch."""

    resampled = False

    def __init__(self, urls: Any, seed: Any = None) -> None:
        self.urls = expand_urls(urls)
        self.shuffled = seed is not None
        self.seed = None if isinstance(seed, bool) else seed

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[dict[str, str]]:
        order = list(self.urls)
        if self.shuffled:
            random.Random(self.seed).shuffle(order)
        return ({"url": url} for url in order)


class ResampledShards:
    """The shards of a DataPipeline, drawn with replacement, without end. Draws depend on (seed, epoch, reader), `deterministic` or not."""

    resampled, shuffled = True, False

    def __init__(
        self,
        urls: Any,
        nshards: int = sys.maxsize,
        seed: int = 0,
        worker_seed: Optional[Callable[[], int]] = None,
        deterministic: bool = False,
        max_urls: int = 10**6,
        empty_check: bool = True,
    ) -> None:
        if nshards != sys.maxsize:
            raise ValueError(f"ResampledShards(nshards={nshards}) counts shards; declare the epoch in samples or batches: .with_epoch(n)")
        if worker_seed is not None:
            raise ValueError("ResampledShards(worker_seed=...) has no meaning here: every reader draws differently; leave it out")
        self.urls, self.seed = expand_urls(urls)[:max_urls], seed


@dataclass(frozen=True)
class TarfileToSamples:
    """Where a DataPipeline goes from shards to samples."""

    handler: Handler = reraise_exception
    select_files: Optional[Callable[[str], bool]] = None
    rename_files: Optional[Callable[[str], str]] = None


def tarfile_to_samples(
    handler: Handler = reraise_exception,
    select_files: Optional[Callable[[str], bool]] = None,
    rename_files: Optional[Callable[[str], str]] = None,
) -> TarfileToSamples:
    """The step of a DataPipeline that reads shards; the arguments are WebDataset's."""
    return TarfileToSamples(handler, select_files, rename_files)


# ---------------------------------------------------------------- steps


class _Step(Fluent):
    """Fluent methods that return their stage."""

    def compose(self, *stages: Any) -> Any:
        return stages[0]


def _step(name: str) -> Callable[..., Any]:
    method = getattr(Fluent, name)

    @functools.wraps(method)
    def step(*args: Any, **kw: Any) -> Any:
        stage = method(_Step(), *args, **kw)
        return None if isinstance(stage, _Step) else stage  # shuffle(0) and the like change nothing

    return step


_NAMED = (
    "associate batched decode extract_keys listed log_keys map map_dict map_tuple rename rename_keys rsample select slice to_dict to_tuple "
    "unbatched unlisted xdecode"
).split()


def shuffle(bufsize: int = 1000, initial: int = 100, rng: Any = None, seed: Optional[int] = None, handler: Any = None) -> Any:
    """The step that WebDataset.shuffle() appends; in front of tarfile_to_samples() it shuffles the shards."""
    return STEPS["_shuffle"](bufsize, initial, rng, seed, handler)


def detshuffle(bufsize: int = 1000, initial: int = 100, seed: int = 0, epoch: int = -1) -> Any:
    """shuffle(), whose order depends on (seed, epoch) always. `epoch` has no effect: the data set counts."""
    return shuffle(bufsize, initial, seed=seed)


#: What stands in lists, by webdataset's names, some of which are Python's own.
STEPS: dict[str, Callable[..., Any]] = {name: _step(name) for name in _NAMED}
STEPS |= {"_shuffle": _step("shuffle")}
STEPS |= {"shuffle": shuffle, "detshuffle": detshuffle, "tarfile_to_samples": tarfile_to_samples}


def pipelinefilter(function: Callable[..., Iterable[Any]]) -> Callable[..., Callable[[Iterator[Any]], Iterable[Any]]]:
    """A step of one's own: `pipelinefilter(f)(2, k=3)` is a function from samples to f(samples, 2, k=3)."""

    @functools.wraps(function)
    def step(*args: Any, **kw: Any) -> Callable[[Iterator[Any]], Iterable[Any]]:
        return functools.wraps(function)(lambda samples: function(samples, *args, **kw))

    return step


# ---------------------------------------------------------------- pipelines


def DataPipeline(*steps: Any) -> Chain:  # noqa: N802  (webdataset's name)
    """The pipeline of these steps; lists of them are taken apart, and None is left out. It has the fluent methods, too.

    SimpleShardList or ResampledShards first, then steps for shards, tarfile_to_samples(), and steps for samples: a WebDataset.
    Shards are divided as the steps for shards say: by ranks if split_by_node is there, by workers if split_by_worker is; shuffle() and
    detshuffle() put them in another order in each epoch, the same on all ranks. Functions of one's own are called with
    {"url": ...} dicts, and those they give are read. Any other iterable first: its items go through the steps.

    ValueError when there is no step, no tarfile_to_samples() behind the shards, or one without shards.
    """
    flat = [step for entry in steps for step in (entry if isinstance(entry, (list, tuple)) else [entry]) if step is not None]
    if not flat:
        raise ValueError("DataPipeline() has no steps: begin with SimpleShardList(urls), or another iterable")
    source, rest = flat[0], flat[1:]
    reading = next((number for number, step in enumerate(rest) if isinstance(step, TarfileToSamples)), None)
    if isinstance(source, (SimpleShardList, ResampledShards)):
        if reading is None:
            raise ValueError(
                f"DataPipeline({type(source).__name__}(...), {', '.join(map(_name, rest))}) has no tarfile_to_samples(handler=...), which "
                "reads the shards; put it in the place of a function of your own that does"
            )
        return _of_shards(source, rest[:reading], rest[reading]).compose(*rest[reading + 1 :])
    if reading is not None:
        raise ValueError(
            f"tarfile_to_samples() reads shards of a SimpleShardList(urls) or ResampledShards(urls), not of {_name(source)}; for shards "
            "with weights mix pipelines: RandomMix([...], probs=[...])"
        )
    return (source if isinstance(source, Chain) else Mixture([source])).compose(*rest)


def _name(step: Any) -> str:
    return getattr(step, "__name__", type(step).__name__)


_SPLITTERS = {"split_by_node": "nodesplitter", "split_by_worker": "workersplitter", "single_node_only": "", "non_empty": ""}


def _is_known(step: Any) -> bool:
    """Whether it is one of split.py, or the package's of that name; a script may have a function so called."""
    return _name(step) in _SPLITTERS and step.__module__.partition(".")[0] in ("millrace", "webdataset")


def _of_shards(source: Any, steps: Sequence[Any], reading: TarfileToSamples) -> WebDataset:
    own = [step for step in steps if not isinstance(step, Shuffle) and not _is_known(step)]
    known = {_SPLITTERS[_name(step)] for step in steps if _is_known(step)}
    if own and source.resampled:
        raise ValueError(f"{_name(own[0])} stands behind ResampledShards, of which each reader draws; use SimpleShardList, or no step")
    splitters: dict[str, Any] = {name: "auto" if name in known else None for name in ("nodesplitter", "workersplitter")}
    if own:
        chosen = [step for step in steps if not isinstance(step, Shuffle)]
        splitters = {"nodesplitter": _Chosen(tuple(chosen)), "workersplitter": None}
    return WebDataset(
        source.urls,
        handler=reading.handler,
        resampled=source.resampled,
        shardshuffle=(source.shuffled or any(isinstance(step, Shuffle) for step in steps)) and not source.resampled,
        select_files=reading.select_files,
        rename_files=reading.rename_files,
        empty_check=False,
        seed=source.seed,
        **splitters,
    )


@dataclass(frozen=True)
class _Chosen:
    """Steps for shards, one after the other."""

    steps: tuple[Any, ...]

    def __call__(self, urls: Iterator[dict[str, str]]) -> Iterable[dict[str, str]]:
        for step in self.steps:
            urls = iter(getattr(step, "run", step)(urls))
        return urls


def RandomMix(  # noqa: N802  (webdataset's name)
    datasets: Sequence[Iterable[Any]], probs: Optional[Sequence[float]] = None, longest: bool = False
) -> Mixture:
    """Mixture(datasets, probs, longest), with equal weights if there are no `probs`."""
    return Mixture(datasets, [1.0] * len(datasets) if probs is None else probs, longest)


def RoundRobin(datasets: Sequence[Iterable[Any]], longest: bool = False) -> Mixture:  # noqa: N802  (webdataset's name)
    """Mixture(datasets), which takes one sample of each in turn."""
    return Mixture(datasets, None, longest)
