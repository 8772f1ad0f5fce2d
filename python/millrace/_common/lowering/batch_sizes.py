"""Sizes in chains: (height, width), or RandomBatchSize, of which each batch has another. A chain with one of
these comes to a chain for each of its sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...transforms.batch_size import RandomBatchSize
from .chain import Chain, pair
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


def sides(
    chain: Chain, name: str, size: Any, of: Callable[[str, Any], tuple[int, int]] = pair
) -> dict[str, Any]:
    """The "height" and "width" of an op. Of a RandomBatchSize also "per_batch": the same of each size, for
    of_each_size().
    """
    if not isinstance(size, RandomBatchSize):
        height, width = of(name, size)
        return {"height": height, "width": width}
    if chain.batch_sizes is None:
        raise NotLowered(
            f"{name} has a size per batch, which is native where samples have an index and are one view, and"
            " all of the transform is native"
        )
    chain.batch_sizes.meet(name, size)
    pairs = [of(name, one) for one in size.sizes]
    return {"height": pairs[0][0], "width": pairs[0][1], "per_batch": pairs}


def resized_sides(name: str, size: Any) -> tuple[int, int]:
    """Of Resize."""
    if size is None:
        return 0, 0  # max_size is the longer side
    height, width = pair(name, size)
    return height, 0 if isinstance(size, int) or len(size) == 1 else width  # 0: the shorter side is meant


def of_each_size(ops: list[dict[str, Any]], size: RandomBatchSize | None) -> list[list[dict[str, Any]]]:
    """`ops` for each of the sizes; None: there is one."""
    if size is None:
        return [ops]
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
