"""wds.mix: several streams as one, by the package's names for Mixture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .mixture import Mixture

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
