"""The steps of a transform that the engine knows, up to the first that it does not: a prefix, and the rest.

What only holds others (Compose, nn.Sequential, presets, callables that provably do no more) is looked
through. The rest is called in Python with what the prefix gives: a PIL image, or the tensor that the
library's own conversion would have made, in the same memory layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .as_shipped import check_class, check_object, check_transforms, container_parts, family_of
from .chain import MOST_NESTED, Chain
from .read_source import read
from .read_values import Op, Picture
from .recognising import NotLowered, held_directly, holder_name, loaded
from .transforms import Lowered, new_chain

NO_CHANGE = "no change of the picture stands before the first step that is not known"
_Picture = dict[str, Any]
_BYTES: _Picture = {"op": "to_tensor", "dtype": "uint8"}


@dataclass(frozen=True)
class Prefix:
    """`lowered`: the known steps; of a picture that the rest gets, up to its bytes. `rest`: the steps behind
    them. `refusal`: why the first of these is not known.
    """

    lowered: Lowered
    makes_picture: bool
    makes_array: bool
    """Of such a picture: whether the rest gets it as an array of numpy."""
    side_by_side: bool
    """Whether the values of a pixel lie side by side, seen as planes, as torchvision's conversions leave
    them.
    """
    changes: bool
    """Whether the known steps change the picture. Turned as its file says, it still has all its pixels:
    pictures that wait are decoded so, too.
    """
    rest: tuple[Any, ...]
    refusal: str

    def words_of_the_rest(self) -> str:
        """Why it is Python, and what else is; "": there is none."""
        if not self.rest:
            return ""
        behind = ", ".join(map(holder_name, self.rest[1:]))
        return self.refusal + (f". Behind it, in Python, too: {behind}" if behind else "")

    def rest_as_one(self) -> Callable[[Any], Any] | None:
        """The rest as one callable; None: there is none. A Compose, since several of torchvision's steps
        behind each other are one pass over a picture there (millrace._pictures.torchvision_chains).
        """
        if len(self.rest) < 2:
            return self.rest[0] if self.rest else None
        compose = loaded("torchvision.transforms.transforms", "Compose")
        if compose is None:
            from ...transforms.base import Compose as compose  # not at the top: it brings Pillow
        return compose(list(self.rest))


def prefix_of(transform: Any) -> Prefix:
    """NotLowered where no change of the picture is among the known steps, so that there is nothing to win."""
    prefix = prefix_of_steps(flattened(transform))
    if not prefix.changes:
        raise NotLowered(NO_CHANGE)
    return prefix


def prefix_of_steps(steps: Sequence[Any]) -> Prefix:
    """The same of steps that hold no others, also where no change is known."""
    chain, refusal = new_chain(), ""
    known = chain  # the last one whose result is certain
    count = 0
    for number, step in enumerate(steps):
        trial = chain.copied()
        try:
            trial.add(step)
        except NotLowered as reason:
            refusal = str(reason)
            break
        except Exception as error:  # odd arguments: torch knows what to do, or says what is wrong
            refusal = f"could not be understood ({error!r})"
            break
        chain = trial
        # What the rest may get: an RGB picture, or a tensor.
        if chain.grey_from is None if chain.dtype is None else chain.row_type not in (None, np.ndarray):
            known, count = chain, number + 1
    if not refusal and count == len(steps):
        refusal = _why_no_batch(known)
    elif not refusal:
        refusal = "v1 transforms behind v2's ToImage() make samples of no certain type; use v2's for all"
    rest = (step.python or step if isinstance(step, Op) else step for step in steps[count:])
    return _prefix(known, tuple(rest), refusal)


def _why_no_batch(chain: Chain) -> str:
    try:
        chain.finish()
    except NotLowered as reason:
        return str(reason)
    return ""


def _prefix(chain: Chain, rest: tuple[Any, ...], refusal: str) -> Prefix:
    makes_picture = chain.dtype is None
    row_type: type | None
    if makes_picture:
        check_transforms(chain.families)
        ops, row_type = [*chain.picture, dict(_BYTES)], torch.Tensor
    else:
        ops, row_type = chain.finish(), chain.row_type
    made = Lowered([ops], chain.names, row_type, chain.begins_with_rgb, chain.makes_rgb)
    side_by_side = chain.conversion != "ToTensor"
    changes = any(op["op"] != "exif_transpose" for op in chain.picture)
    return Prefix(made, makes_picture, chain.is_array, side_by_side, changes, rest, refusal)


def flattened(transform: Any, depth: int = 0) -> list[Any]:
    """The steps that `transform` takes one after the other; itself, if it may be more than that."""
    parts = _parts(transform)
    if parts is None:
        return [transform]
    if depth == MOST_NESTED:
        raise NotLowered(f"transforms are nested {MOST_NESTED} deep")
    return [step for part in parts for step in flattened(part, depth + 1)]


def _parts(transform: Any) -> Sequence[Any] | None:
    try:
        check_class(type(transform))
        check_object(transform)
    except NotLowered:
        return None
    if (inner := container_parts(transform)) is not None:
        return inner
    if family_of(type(transform)) is not None:
        return None  # a step of a library; what it may hold is its own affair
    if (parts := held_directly(transform)) is not None:
        return parts
    made = read(transform)
    steps = made.steps() if isinstance(made, Picture) else None
    return steps if steps is not None and all(map(callable, steps)) else None
