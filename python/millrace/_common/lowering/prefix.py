"""The steps of a transform that the engine knows, up to the first that it does not: a prefix, and the rest.

Objects that only hold other steps (Compose, nn.Sequential, presets, callables that provably do no more) are
replaced by the steps that they hold. The rest is called in Python with the prefix's result: a PIL image, or
the tensor that the library's own conversion would have made, in the same memory layout.
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
    """A transform in two parts. `lowered`: the known steps; if the rest gets a picture, they end with the
    picture's bytes. `rest`: the steps after the known ones. `refusal`: why the first step of the rest is not
    known.
    """

    lowered: Lowered
    makes_picture: bool
    makes_array: bool
    """Whether the rest gets the picture as a numpy array."""
    side_by_side: bool
    """Whether the values of a pixel lie side by side in memory while the shape is that of planes, as
    torchvision's conversions leave them.
    """
    changes: bool
    """Whether the known steps change the picture. Turning it as its file's EXIF says does not count: all
    pixels are kept, and pictures that wait are decoded so, too.
    """
    rest: tuple[Any, ...]
    refusal: str

    def words_of_the_rest(self) -> str:
        """Say why the rest runs in Python, and name its further steps; "" without a rest."""
        if not self.rest:
            return ""
        behind = ", ".join(map(holder_name, self.rest[1:]))
        return self.refusal + (f". Behind it, in Python, too: {behind}" if behind else "")

    def rest_as_one(self) -> Callable[[Any], Any] | None:
        """The rest as one callable; None without a rest. Several steps become a Compose, because a Compose
        runs consecutive steps of torchvision in one pass over a picture
        (millrace._pictures.torchvision_chains).
        """
        if len(self.rest) < 2:
            return self.rest[0] if self.rest else None
        compose = loaded("torchvision.transforms.transforms", "Compose")
        if compose is None:
            from ...transforms.base import Compose as compose  # not at the top: it brings Pillow
        return compose(list(self.rest))


def prefix_of(transform: Any) -> Prefix:
    """Split `transform` into known steps and the rest. NotLowered if no known step changes the picture, so
    that there is nothing to gain.
    """
    prefix = prefix_of_steps(flattened(transform))
    if not prefix.changes:
        raise NotLowered(NO_CHANGE)
    return prefix


def prefix_of_steps(steps: Sequence[Any]) -> Prefix:
    """As prefix_of(), for steps that hold no others, and without the error."""
    chain, refusal = new_chain(), ""
    known = chain  # the last chain with a result of a certain kind
    count = 0
    for number, step in enumerate(steps):
        trial = chain.copied()
        try:
            trial.add(step)
        except NotLowered as reason:
            refusal = str(reason)
            break
        except Exception as error:  # odd arguments: torch handles them, or reports the fault
            refusal = f"could not be understood ({error!r})"
            break
        chain = trial
        # The rest may only get an RGB picture or a tensor.
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
    """The steps that `transform` takes one after the other; `transform` itself, if it may do more."""
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
        return None  # a step of a library; transforms that it holds are not looked at
    if (parts := held_directly(transform)) is not None:
        return parts
    made = read(transform)
    steps = made.steps() if isinstance(made, Picture) else None
    return steps if steps is not None and all(map(callable, steps)) else None
