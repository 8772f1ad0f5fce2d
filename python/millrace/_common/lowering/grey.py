"""Pictures that are grey: the engine has them with three equal channels, which all it does keeps equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .recognising import NotLowered


def check_grey(ops: Iterable[dict[str, Any]]) -> None:
    """NotLowered where one of `ops`, of pictures that are grey, brings in colours."""
    for op in _all_ops(ops):
        if len(set(op.get("policy", op).get("fill", ()))) > 1:
            raise NotLowered(f"the fill of {op['op']} has colours, and the pictures are grey")


def _all_ops(ops: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """`ops`, and those inside of choices among them."""
    for op in ops:
        yield op
        for branch in op["branches"] if op["op"] == "random_choice" else ():
            yield from _all_ops(branch)
