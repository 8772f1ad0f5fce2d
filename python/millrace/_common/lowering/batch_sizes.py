"""Sizes in chains: (height, width), or RandomBatchSize, of which each batch has another. A chain with one of
these comes to a chain for each of its sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...transforms.batch_size import RandomBatchSize
from .chain import Chain
from .recognising import NotLowered


class BatchSizes:
    """What a chain has met of them. `first`: the others draw as it does."""

    first: RandomBatchSize | None = None

    def meet(self, name: str, size: RandomBatchSize) -> None:
        self.first = self.first or size
        if not size.draws_as(self.first):
            raise NotLowered(
                f"{name} has a size per batch that is drawn apart from that of the transform before it; give"
                " both as many sizes, the same every= and the same seed="
            )


def sides_per_batch(
    chain: Chain, name: str, size: RandomBatchSize, of_one: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """The sides of an op for the first of the sizes, and "per_batch", for of_each_size(), of each."""
    if chain.batch_sizes is None:
        raise NotLowered(
            f"{name} has a size per batch, which is native where samples have an index and are one view, and"
            " all of the transform is native"
        )
    chain.batch_sizes.meet(name, size)
    sides = [of_one(one) for one in size.sizes]
    return {**sides[0], "per_batch": [tuple(one.values()) for one in sides]}


def of_each_size(ops: list[dict[str, Any]], size: RandomBatchSize) -> list[list[dict[str, Any]]]:
    """`ops` for each of the sizes."""
    return [_of_size(number, ops) for number in range(len(size.sizes))]


def _of_size(number: int, op: Any) -> Any:
    """A chain, or anything in it."""
    if isinstance(op, list):
        return [_of_size(number, part) for part in op]
    if not isinstance(op, dict):
        return op
    made = {name: _of_size(number, value) for name, value in op.items()}
    if (pairs := made.pop("per_batch", None)) is not None:
        made["height"], made["width"] = pairs[number]
    return made
