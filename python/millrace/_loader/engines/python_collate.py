"""Runs a user's collate_fn, and targets that are functions, in next(), on batches that the engine makes.

A collate_fn gets a list of samples as `dataset[i]` returns them, as in torch's loader; their pictures are
rows of the native batch, so nothing is copied. If it provably is `f(*default_collate(samples))`, f is called
with the native batch itself.

With num_workers=0 it draws from the global generators of torch, numpy and random, as in torch's loader. With
workers, torch's loader would run it in a worker with generators of its own. Here the generators are seeded
for each batch, from the loader's seed, the epoch, the step and the rank, and then restored for the training
loop. So a batch depends on no other batch, and resumed or replayed batches are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..._common.lowering.recognising import loaded
from ..._common.torch_private import default_collate
from ..._profiling.stages import COLLATE, during
from .mixing import Mixed, traced
from .seeding import generators_seeded
from .targets import LooksUp

if TYPE_CHECKING:
    from ..._common.lowering.views import Views


@dataclass(frozen=True)
class PythonCollate:
    """`function`: takes the samples, or, if `of_batch`, the batch, field by field if `spread`; None:
    default_collate. `row_type`: of pictures; `views`: of each picture. `targets`: makes the samples' targets
    of the engine's labels. `form`: makes a sample of a picture and its target, and a batch of pictures and
    their targets; None: samples are pairs."""

    function: Any
    of_batch: bool
    spread: bool
    as_tuple: bool
    row_type: type
    targets: LooksUp | None = None
    views: Views | None = None
    form: Callable[[Any, Any], Any] | None = None

    @functools.cached_property
    def _torch_alone(self) -> bool:
        return draws_from_torch_alone(self.function)

    def __call__(self, batch: list[Any]) -> Any:
        """Apply `function`. `batch`: the fields that default_collate would return."""
        with during(COLLATE):
            if not self.of_batch:
                return self.function(self._samples(*batch))
            batch = self._batch(*batch)
            if self.function is None:
                return batch
            made = self.function(*batch) if self.spread else self.function(batch)
            return _pair(made) if self.as_tuple else made

    def _batch(self, pictures: Any, labels: Any) -> Any:
        if self.targets is not None:
            # default_collate passes a field on as a tuple, too: texts come back as they are.
            labels = default_collate(tuple(self._targets(labels)))  # type: ignore[arg-type]
        return [pictures, labels] if self.form is None else self.form(pictures, labels)

    def seeded(self, batch: list[Any], *place: int) -> Any:
        """Call self(batch) with generators seeded from `place`: the loader's seed, epoch, step and rank."""
        with generators_seeded(place, self._torch_alone):
            return self(batch)

    def traced(self, labels: torch.Tensor, shape: tuple[int, ...], *place: int) -> Mixed:
        """Trace what seeded() will do to a batch of `labels` and pictures of `shape` (engines/mixing.py)."""
        with generators_seeded(place, self._torch_alone):
            return traced(self, labels, shape)

    def _samples(self, pictures: Any, labels: Any) -> list[Any]:
        views = [pictures] if self.views is None else self.views.in_order(pictures)
        by_view = [view if isinstance(view, tuple) else view.unbind(0) for view in views]  # tuple: ragged
        if self.row_type is np.ndarray:
            by_view = [[row.numpy() for row in rows] for rows in by_view]
        elif self.row_type is not torch.Tensor:
            by_view = [[row.as_subclass(self.row_type) for row in rows] for rows in by_view]
        rows = by_view[0] if self.views is None else map(self.views.sample, zip(*by_view))
        targets = self._targets(labels)
        return list(zip(rows, targets) if self.form is None else map(self.form, rows, targets))

    def _targets(self, labels: Any) -> list[Any]:
        numbers = labels.tolist()
        return numbers if self.targets is None else self.targets(numbers)


def with_targets(
    collate: PythonCollate | None, targets: LooksUp, form: Callable[[Any, Any], Any] | None = None
) -> PythonCollate:
    """`collate` (None: default_collate) for pictures with these targets, in samples of this form."""
    collate = collate or PythonCollate(None, True, False, False, torch.Tensor)
    return replace(collate, targets=targets, form=form)


def _pair(values: Any) -> tuple[Any, Any]:
    first, second = values
    return first, second


_V2 = "torchvision.transforms.v2"
_PARTS = "forward", "make_params", "transform", "_mixup_label"


def draws_from_torch_alone(function: Any) -> bool:
    """Whether `function` is torchvision's MixUp or CutMix as shipped, or a RandomChoice of them, without
    hooks or a user's labels_getter. Then random's and numpy's generators need not be restored; that takes as
    long as the function itself.
    """
    if isinstance(function, torch.nn.Module) and (function._forward_hooks or function._forward_pre_hooks):
        return False
    if type(function) is loaded(_V2, "RandomChoice"):
        return all(map(draws_from_torch_alone, function.transforms))
    if function is None or type(function) not in (loaded(_V2, "MixUp"), loaded(_V2, "CutMix")):
        return False
    if type(getattr(function, "_dist", None)) is not torch.distributions.Beta:
        return False
    parts = [getattr(function, name, None) for name in (*_PARTS, "_labels_getter")]
    homes = {str(getattr(part, "__module__", "")).partition(".")[0] for part in parts}
    return homes == {"torchvision"} and not torch.nn.modules.module._has_any_global_hook()
