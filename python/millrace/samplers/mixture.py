"""MixtureSampler: several datasets in exact proportions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._common.states import signing
from ..errors import StateError
from .global_order import GlobalOrderSampler, checked_lengths, checked_number, digest
from .readers import SEED_BITS, Indices
from .resumable import SamplerIterator, known

ENDLESS = 2**62
REMEMBERED = (
    1000  # changes of weights: more than come between what workers prepare and what the training loop has
)


class MixtureIterator(SamplerIterator):
    """An iterator of a mixture: what weights there were at a position is told by the course, later changes
    included.
    """

    course: _Course

    def state_after(self, given: int) -> dict[str, Any]:
        state = super().state_after(given)
        return {**state, **self.course.state(state["position"])}


@known()
class MixtureSampler(GlobalOrderSampler):
    """Indices into the concatenation of several datasets (torch's ConcatDataset), in exact proportions.

    At every moment each source has had its share of the indices drawn so far, to less than one. Which source
    is next depends on (seed, epoch); a source is gone through in a new permutation at each of its passes, so
    a small source with a large weight repeats, evenly. The indices that make the ranks' counts equal
    (drop_last=False) are drawn on, not repeated.

    Args:
        lengths: samples of each source; ints [sources].
        weights: a share of each source, 0 or more; numbers [sources], of any sum.
        num_samples: draws of all ranks together in an epoch; the sum of `lengths` when not given.
        seed: the same on all ranks.
        shuffle: False takes each source in its own order.
        num_replicas, rank: those of the process group or the environment when not given.
        drop_last: drop what does not divide by num_replicas.
    """

    _iterator = MixtureIterator
    seekable = False  # a state's counts belong to its position
    differs_by_epoch = True  # with shuffle=False, too: by which source is next

    def __init__(
        self,
        lengths: Sequence[int],
        weights: Sequence[float],
        num_samples: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
    ) -> None:
        self.lengths = checked_lengths("lengths", lengths)
        total = (
            int(self.lengths.sum())
            if num_samples is None
            else checked_number("num_samples", num_samples, least=1)
        )
        super().__init__(total, seed, num_replicas, rank, drop_last)
        self.shuffle = shuffle
        self.weights = self._checked_weights(weights)

    def set_weights(self, weights: Sequence[float]) -> None:
        """Set new weights, from the next drawn index on, in this epoch and in later ones.

        Ranks must do it at the same index. From there on the proportions are exact for the new weights. A
        loader with workers has already drawn the batches that they prepare (num_workers * prefetch_factor of
        them); its state holds the change, too.
        """
        self.weights = self._checked_weights(weights)
        if self._pending is not None:
            course = _Course(self, self._pending["epoch"], self._pending)
            course.change(self._pending["position"], self.weights)
            self._pending = {**self._pending, **course.state(self._pending["position"])}
        elif self._latest is not None:
            self._latest.rewind()
            self._latest.course.change(self._latest.state_dict()["position"], self.weights)

    def __iter__(self) -> SamplerIterator:
        start, state = self._resume()
        course = _Course(self, self.epoch, state)
        self.weights = list(course.weights)
        iterator = self._over(start, lambda _: course.at, ENDLESS)
        iterator.course = course  # what set_weights() changes
        return iterator

    @signing
    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict.unsigned(self)  # type: ignore[attr-defined]
        return state if "weights" in state else {**state, **_Course(self, self.epoch, {}).state(0)}

    def _checked(self, state: Any) -> dict[str, Any]:
        state = super()._checked(state)
        if state["position"] and (
            missing := [key for key in ("weights", "since", "counts") if key not in state]
        ):
            raise StateError(
                f"the state of a {type(self).__name__} lacks {', '.join(missing)}: it is damaged; load"
                " another one"
            )
        try:
            _Course(self, state["epoch"], state)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise StateError(
                f"the state of a {type(self).__name__} has no weights that it can have had: {error}"
            ) from error
        return state

    def _checked_weights(self, weights: Sequence[float]) -> list[float]:
        array = np.asarray(weights, dtype=np.float64)
        if array.shape != self.lengths.shape:
            raise ValueError(
                f"weights should be one for each of the {len(self.lengths)} lengths, but have shape"
                f" {array.shape}"
            )
        if not np.isfinite(array).all() or (array < 0).any() or not array.sum() > 0:
            raise ValueError(
                f"weights should be finite, not negative and not all 0, but are {array.tolist()}"
            )
        if ((array > 0) & (self.lengths == 0)).any():
            raise ValueError(
                f"source {int(np.argmax((array > 0) & (self.lengths == 0)))} has a weight but no samples;"
                " give it weight 0"
            )
        return array.tolist()

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "lengths": digest(self.lengths), "shuffle": self.shuffle}


class _Stretch(NamedTuple):
    """Of a mixture with the same weights all along: from position `since` on, at which each source has had
    `counts` draws.
    """

    since: int
    weights: list[float]
    counts: list[int]
    mixture: Any


class _Course:
    """A mixture through an epoch. Weights may have changed further on than somebody asks: workers are ahead
    of the training loop.
    """

    def __init__(self, sampler: MixtureSampler, epoch: int, state: dict[str, Any]) -> None:
        self._lengths, self._seed, self._epoch = sampler.lengths, sampler.seed & SEED_BITS, epoch
        self._shuffle = sampler.shuffle
        weights = state.get("weights", sampler.weights)
        self._stretches: list[_Stretch] = []
        self._begin(state.get("since", 0), weights, state.get("counts", [0] * len(weights)))
        for since, weights in state.get("then", ()):
            self.change(since, weights)

    def _begin(self, since: int, weights: list[float], counts: list[int]) -> None:
        mixture = _core.Mixture(
            self._lengths, shares(weights), self._seed, self._epoch, self._shuffle, since, counts
        )
        self._stretches.append(_Stretch(since, weights, counts, mixture))
        del self._stretches[:-REMEMBERED]

    def at(self, positions: Indices) -> Indices:
        """`positions` rise."""
        if not len(positions):
            return positions
        stretches = self._stretches[self._number(int(positions[0])) : self._number(int(positions[-1])) + 1]
        if len(stretches) == 1:
            return stretches[0].mixture.at(positions)
        parts = np.split(positions, np.searchsorted(positions, [stretch.since for stretch in stretches[1:]]))
        return np.concatenate([stretch.mixture.at(part) for stretch, part in zip(stretches, parts)])

    def change(self, position: int, weights: list[float]) -> None:
        """New weights from `position` on, whatever there was to come there."""
        while len(self._stretches) > 1 and self._stretches[-1].since > position:
            self._stretches.pop()
        self._begin(position, weights, self._stretches[-1].mixture.counts_at(position))

    def _number(self, position: int) -> int:
        """Of the stretch that `position` is in."""
        return max(bisect_right(self._stretches, position, key=lambda stretch: stretch.since) - 1, 0)

    @property
    def weights(self) -> list[float]:
        """The last ones."""
        return self._stretches[-1].weights

    def state(self, position: int) -> dict[str, Any]:
        """Part of the sampler's state at `position`; "then": [since, weights] of each later change."""
        here = self._number(position)
        now, later = self._stretches[here], self._stretches[here + 1 :]
        then = [[stretch.since, stretch.weights] for stretch in later]
        return {"weights": now.weights, "since": now.since, "counts": now.counts, "then": then}


def shares(weights: Sequence[float]) -> list[int]:
    """Whole numbers in the same proportion: exactly where the weights are decimal or simple fractions, else
    to 2^-50 of the largest.
    """
    fractions = [Fraction(weight).limit_denominator(10**6) for weight in weights]
    if all(float(fraction) == weight for fraction, weight in zip(fractions, weights)):
        common = lcm(*[fraction.denominator for fraction in fractions])
        numbers = [int(fraction * common) for fraction in fractions]
        if sum(numbers) < 2**50:
            return numbers
    largest = max(weights)
    return [round(weight / largest * 2**50) for weight in weights]
