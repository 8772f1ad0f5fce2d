"""wds.pipeline: pipelines that are written as lists of steps: DataPipeline(SimpleShardList(urls), ...,
tarfile_to_samples(), ...).

Such a list becomes the same WebDataset as the fluent methods make: the steps before tarfile_to_samples() give
its arguments, the rest its stages. Any other list is a DataPipeline: its first entry is iterated over, or
called, and every other one is a stage or a function from an iterator to an iterator, in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import tariterators
from .chain import Chain, seed_of
from .dataset import EditableSteps, WebDataset
from .flow import Context, Flow, Stage, as_stage
from .holding import DetShuffle, Shuffle
from .mix import Mixture, MixtureFlow
from .shardlists import ResampledShards, SimpleShardList, TarfileToSamples, _Resampled
from .utils import make_seed


class DataPipeline(Chain):
    """The pipeline of these steps; lists of them are taken apart, and None is left out.

    It has the fluent methods, too.

    SimpleShardList or ResampledShards first, then steps for shards, tarfile_to_samples(), and steps for
    samples make a WebDataset. The steps for shards decide how shards are divided: by ranks with
    split_by_node, by workers with split_by_worker; shuffle() and detshuffle() put them in another order in
    each epoch, the same on all ranks. Your own functions are called with {"url": ...} dicts, and the dicts
    they return are read. With a WebDataset, Mixture or WebLoader first: that one with more stages.

    Anything else is run as it is, in Python: `pipeline` is the list, which may be changed. The state of a
    function or an iterable is not known, so a state is taken up by running them from the start of the epoch;
    if their items differ then, the run goes on with other items. For an iterable with state_dict() and
    load_state_dict() these are used instead, if only known stages follow it. Subclasses may append steps in
    their __init__.

    Raises:
        ValueError: if there is no step.
    """

    weights: tuple[float, ...] | None = None
    longest = False  # both as a Mixture of one stream has them

    def __new__(cls, *steps: Any) -> Any:
        if cls is not DataPipeline:
            return super().__new__(cls)
        flat = _flat(steps)
        if flat and isinstance(flat[0], Chain) and DataPipeline not in type(flat[0]).__mro__:
            return flat[0].compose(*flat[1:])
        reading = next(
            (number for number, step in enumerate(flat) if isinstance(step, TarfileToSamples)), None
        )
        if reading is not None and _is_known_list(flat[0], flat[1:reading]):
            return _of_shards(flat[0], flat[1:reading], flat[reading]).compose(*flat[reading + 1 :])
        return super().__new__(cls)

    def __init__(self, *steps: Any) -> None:
        self._steps = _flat(steps)
        if not self._steps and type(self) is DataPipeline:
            raise ValueError(
                "DataPipeline() has no steps: begin with SimpleShardList(urls), or another iterable"
            )
        super().__init__(seed_of(None))

    @property  # type: ignore[override]
    def pipeline(self) -> list[Any]:
        """The steps.

        A change of this list takes effect at the next iterator.
        """
        return self._steps

    @pipeline.setter
    def pipeline(self, steps: Iterable[Any]) -> None:
        self._steps = list(steps)

    @property
    def _stages(self) -> tuple[Stage, ...]:  # type: ignore[override]
        return tuple(map(as_stage, self._steps[1:]))

    def compose(self, *stages: Any) -> Any:
        other = self._copy()
        for stage in stages:
            other.append(stage)
        return other

    @property
    def datasets(self) -> tuple[Any, ...]:
        """The first step, as an iterable."""
        if not self._steps:
            raise ValueError(
                f"{type(self).__name__} has no steps: append(SimpleShardList(urls)), or another iterable,"
                " first"
            )
        first = self._steps[0]
        if isinstance(first, Iterable):
            return (first,)
        if not callable(getattr(first, "run", first)):
            raise ValueError(
                f"a pipeline begins with an iterable, or a function that gives one, not with {_name(first)}"
            )
        return (_Called(getattr(first, "run", first)),)

    def append(self, stage: Any) -> None:
        steps = _flat([stage])
        if self._steps:
            list(map(as_stage, steps))  # TypeError for one that is no stage
        self._steps += steps
        self._forget()

    def _copy(self) -> Any:
        other = super()._copy()
        other._steps = list(self._steps)
        return other

    def _source(self, context: Context, own: Any) -> Flow:
        return MixtureFlow(self, context, own)

    def _facts(self) -> list[str]:
        return [f"{_name(self._steps[0])}, seed {self.seed}"]

    @property
    def _shuffles(self) -> bool:
        return False  # the steps are called in each epoch, and count themselves

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(_name, self._steps))})"


EditableSteps.becomes = DataPipeline
DataPipeline.register(WebDataset)
DataPipeline.register(Mixture)
FluidWrapper = DataPipeline


@dataclass(frozen=True)
class _Called:
    """The items that a function without arguments gives."""

    function: Any

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function())


def _flat(steps: Iterable[Any]) -> list[Any]:
    """The steps as one list. Replaces tarfile_samples, a function of shards, with the step of that name."""
    flat = [
        step
        for entry in steps
        for step in (entry if isinstance(entry, (list, tuple)) else [entry])
        if step is not None
    ]
    return [TarfileToSamples() if step is tariterators.tarfile_samples else step for step in flat]


def _name(step: Any) -> str:
    return getattr(step, "__name__", type(step).__name__)


_SPLITTERS = {
    "split_by_node": "nodesplitter",
    "split_by_worker": "workersplitter",
    "single_node_only": "",
    "non_empty": "",
}


def _is_known(step: Any) -> bool:
    """Whether `step` is one of split.py's functions, or webdataset's of the same name. A script may have
    another function of that name.
    """
    return _name(step) in _SPLITTERS and step.__module__.partition(".")[0] in ("millrace", "webdataset")


def _is_known_list(source: Any, steps: Sequence[Any]) -> bool:
    """Whether WebDataset's arguments can express this source and these steps for shards."""
    own = [step for step in steps if not isinstance(step, Shuffle) and not _is_known(step)]
    if type(source) is ResampledShards:
        # each reader draws, so there is no list that a function could change
        return source.is_plain and not own
    return type(source) is SimpleShardList and not any(isinstance(step, _Resampled) for step in own)


def _of_shards(source: Any, steps: Sequence[Any], reading: TarfileToSamples) -> WebDataset:
    own = [step for step in steps if not isinstance(step, Shuffle) and not _is_known(step)]
    known = {_SPLITTERS[_name(step)] for step in steps if _is_known(step)}
    shuffles = [step for step in steps if isinstance(step, Shuffle)]
    splitters: dict[str, Any] = {
        name: "auto" if name in known else None for name in ("nodesplitter", "workersplitter")
    }
    if own:
        chosen = [step for step in steps if not isinstance(step, Shuffle)]
        splitters = {"nodesplitter": _Chosen(tuple(chosen)), "workersplitter": None}
    return WebDataset(
        source.urls,
        handler=reading.handler,
        resampled=source.resampled,
        shardshuffle=(source.shuffled or bool(shuffles)) and not source.resampled,
        select_files=reading.select_files,
        rename_files=reading.rename_files,
        empty_check=False,
        seed=_seed([source, *shuffles]),
        **splitters,
    )


def _seed(steps: Sequence[Any]) -> int | None:
    """The seed made of the given seeds; None if there is none. detshuffle()'s default of 0 does not count,
    nor does True.
    """
    given = []
    for step in steps:
        if isinstance(step, DetShuffle):
            given += [step.seed] * (step.seed not in (0, None)) + [("epoch", step.start)] * (step.start != -1)
        elif step.seed is not None and not isinstance(step.seed, bool):
            given.append(step.seed)
    return (
        None
        if not given
        else given[0]
        if len(given) == 1 and isinstance(given[0], int)
        else make_seed(*given)
    )


@dataclass(frozen=True)
class _Chosen:
    """Steps for shards, one after the other."""

    steps: tuple[Any, ...]

    def __call__(self, urls: Iterator[dict[str, str]]) -> Iterable[dict[str, str]]:
        for step in self.steps:
            urls = iter(getattr(step, "run", step)(urls) if not isinstance(step, Stage) else step(urls))
        return urls
