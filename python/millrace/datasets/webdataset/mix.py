"""wds.mix: Mixture, several streams as one, by weights or in turn; and the package's names for it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..._common.states import is_stateful, unsigned_state
from .chain import Chain, seed_of
from .flow import Context, Flow, Position

if TYPE_CHECKING:
    from .pipeline import DataPipeline


class Mixture(Chain):
    """Streams mixed sample by sample, as webdataset's RandomMix (by weights) and RoundRobin (weights=None: in
    turn).

    An IterableDataset with the fluent methods of WebDataset; with_epoch(n) declares how long an epoch is.
    Which stream is next depends on (seed, epoch, reader, how many came before). Streams that are WebDatasets
    or Mixtures go on with the mixture's epoch and are resumed where they were, and so is any Stateful
    iterable; others are read again from their beginning.

    Args:
        datasets: iterable datasets; each divides itself among ranks and workers.
        weights: a number above 0 for each, of any sum. None: one sample of each in turn.
        longest: True ends with the last of the streams, mixing the remaining ones by the same weights; False
            with the first that ends.
        seed: of the draws. None: WDS_SEED of the environment, or 0.
    """

    def __init__(
        self,
        datasets: Sequence[Iterable[Any]],
        weights: Sequence[float] | None = None,
        longest: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__(seed_of(seed))
        self.datasets = tuple(datasets)
        self.weights = None if weights is None else tuple(float(weight) for weight in weights)
        self.longest = longest
        if not self.datasets:
            raise ValueError("a Mixture needs one dataset at least")
        if self.weights is not None and len(self.weights) != len(self.datasets):
            raise ValueError(
                f"there are {len(self.datasets)} datasets and {len(self.weights)} weights; give one for each"
            )
        if self.weights is not None and not all(0 < weight < float("inf") for weight in self.weights):
            raise ValueError(
                f"weights should be above 0, but are {list(self.weights)}; leave datasets out that are not"
                " wanted"
            )

    def _source(self, context: Context, own: Any) -> Flow:
        return MixtureFlow(self, context, own)

    def _head(self) -> tuple[Any, ...]:
        return self.datasets if len(self.datasets) == 1 else super()._head()

    def _facts(self) -> list[str]:
        inner = (
            "; ".join(dataset._described()) if isinstance(dataset, Chain) else type(dataset).__name__
            for dataset in self.datasets
        )
        return [
            f"mixture of [{' + '.join(inner)}], weights {self.weights}, longest {self.longest}, seed"
            f" {self.seed}"
        ]

    def __repr__(self) -> str:
        return (
            f"Mixture({', '.join(map(repr, self.datasets))},"
            f" weights={self.weights}){''.join(f'.{stage}' for stage in self.stages)}"
        )


class MixtureFlow:
    """The flow of a Mixture. Its position: [[draws so far, the stream of the next turn, [for each stream:
    [its state or None, samples it gave, whether it has ended]]]].
    """

    def __init__(
        self, mixture: Mixture | DataPipeline, context: Context, own: tuple[int, int, list[Any]] | None
    ) -> None:
        self._weights, self._longest = mixture.weights, mixture.longest
        self._draws = context.draws("mixture")
        self._drawn, self._turn, states = own or (0, 0, [None] * len(mixture.datasets))
        self._streams = [_Stream(dataset, context, state) for dataset, state in zip(mixture.datasets, states)]

    def __iter__(self) -> Iterator[Any]:
        streams = self._streams
        alive = [number for number, stream in enumerate(streams) if not stream.ended]
        while alive:
            number = self._next(alive)
            sample = streams[number].take()
            if sample is _END:
                if not self._longest:
                    return
                alive.remove(number)
            elif self._weights is None:
                self._turn = (number + 1) % len(streams)
                yield sample
            else:
                yield sample

    def position(self) -> Position:
        return [[self._drawn, self._turn, [stream.position() for stream in self._streams]]]

    def _next(self, alive: list[int]) -> int:
        if self._weights is None:
            return next((number for number in alive if number >= self._turn), alive[0])
        total = sum(self._weights[number] for number in alive)
        rest = self._draws.uniform(self._drawn) * total
        self._drawn += 1
        for number in alive[:-1]:
            rest -= self._weights[number]
            if rest < 0:
                return number
        return alive[-1]


_END = object()


class _Stream:
    """One dataset of a mixture, and where it is."""

    def __init__(self, dataset: Any, context: Context, own: tuple[Any, int, bool] | None) -> None:
        state, self._given, self.ended = own or (None, 0, False)
        self._stateful = is_stateful(dataset)
        if isinstance(dataset, Chain):
            dataset = dataset._copy()  # one dataset may be several streams, and is not moved by them
            dataset.set_epoch(context.shared_key)  # each repetition of the mixture has an order of its own
        if state is not None:
            dataset.load_state_dict(state)
        self._dataset = dataset
        self._items = iter(dataset)
        self._to_skip = 0 if self._stateful else self._given
        self._own, self._ahead = own, []
        # begun now: a loader begins at a loaded position until something was taken
        if state is not None and not isinstance(dataset, Chain):
            self._ahead.append(next(self._items, _END))

    def take(self) -> Any:
        for _ in range(self._to_skip):
            next(self._items, None)
        self._to_skip = 0
        sample = self._ahead.pop() if self._ahead else next(self._items, _END)
        if sample is _END:
            self.ended = True
        else:
            self._given += 1
        return sample

    def position(self) -> list[Any]:
        if self._ahead and self._own is not None:
            return copy.deepcopy(list(self._own))
        untouched = self._given == 0 or self.ended or not self._stateful
        return [None if untouched else copy.deepcopy(unsigned_state(self._dataset)), self._given, self.ended]


__all__ = ["RandomMix", "RoundRobin", "random_samples", "round_robin_longest", "round_robin_shortest"]


def RandomMix(  # noqa: N802  (webdataset's name)
    datasets: Sequence[Iterable[Any]], probs: Sequence[float] | None = None, longest: bool = False
) -> Mixture:
    """Mixture(datasets, probs, longest), with equal weights if there are no `probs`. Those with a probability
    of 0 are left out.
    """
    if probs is None:
        return Mixture(datasets, [1.0] * len(datasets), longest)
    if len(probs) == len(datasets) and any(weight > 0 for weight in probs):
        wanted = [number for number, weight in enumerate(probs) if weight != 0]
        datasets, probs = [datasets[number] for number in wanted], [probs[number] for number in wanted]
    return Mixture(datasets, probs, longest)


def RoundRobin(datasets: Sequence[Iterable[Any]], longest: bool = False) -> Mixture:  # noqa: N802  (webdataset's name)
    """Mixture(datasets), which takes one sample of each in turn."""
    return Mixture(datasets, None, longest)


def round_robin_shortest(*sources: Iterable[Any]) -> Iterator[Any]:
    """One item of each in turn, until the first ends."""
    return iter(RoundRobin(sources))


def round_robin_longest(*sources: Iterable[Any]) -> Iterator[Any]:
    """One item of each in turn, until all have ended."""
    return iter(RoundRobin(sources, longest=True))


def random_samples(
    sources: Sequence[Iterable[Any]], probs: Sequence[float] | None = None, longest: bool = False
) -> Iterator[Any]:
    """RandomMix's items."""
    return iter(RandomMix(sources, probs, longest))
