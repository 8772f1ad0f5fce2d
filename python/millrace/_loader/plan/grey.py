"""Transforms of grey pictures: the chain of one channel that the engine makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..._common.lowering.refusal import NotLowered

if TYPE_CHECKING:
    from ..._common.lowering.transforms import Lowered


def grey_chains(made: Lowered) -> list[list[dict[str, Any]]]:
    """`made.chains` for pictures in mode L. The engine's pictures have three equal channels, which all it
    does keeps equal; the tensor has the first, or all where the transforms make the picture RGB.
    """
    if made.makes_rgb is None:
        raise NotLowered("RandomApply of Grayscale makes three channels of some grey pictures only")
    if made.makes_rgb:
        return made.chains
    for op in _all_ops(itertools.chain.from_iterable(made.chains)):
        if len(set(op.get("policy", op).get("fill", ()))) > 1:
            raise NotLowered(f"the fill of {op['op']} has colours, and the pictures are grey")
    return [
        [{**op, "channels": 1} if op["op"] == "to_tensor" else op for op in chain] for chain in made.chains
    ]


def _all_ops(ops: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """`ops`, and those inside of choices among them."""
    for op in ops:
        yield op
        for branch in op["branches"] if op["op"] == "random_choice" else ():
            yield from _all_ops(branch)
