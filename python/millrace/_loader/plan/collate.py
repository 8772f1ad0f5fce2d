"""collate_fn, and targets that are functions, over batches that the engine makes.

torch's default_collate, in the state torch ships it, needs no Python. Of pictures that the engine makes, any
other function and a target_transform are called in next(): decoding stays native.

Such a function gets what torch's loader would give it, a list of samples as `dataset[i]` returns them; their
pictures are rows of the native batch, so nothing is copied. One that provably is
`f(*default_collate(samples))` has its f called with the native batch itself.

With num_workers=0 it draws from the global generators of torch, numpy and random, as torch's loader has it.
With more, torch's would run it in a worker, whose generators are its own: here they are seeded for each
batch, from the loader's seed, the epoch, the step and the rank, and put back where the training loop had
them. So a batch depends on no other, and resumed or replayed ones are the same.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils import collate

from ..._common.lowering.recognising import NotLowered, holder_name
from ..._common.lowering.same_code import called
from ..._profiling.stages import COLLATE, during
from ..engines.images import Targets
from ..engines.mixing import Mixed, traced

if TYPE_CHECKING:
    from ..._common.lowering.views import Views


IMAGE_AND_LABEL = (tuple, torch.Tensor, int)

# What torch ships, in the order in which default_collate looks types up. None: containers, which it walks
# through itself.
_SHIPPED = {
    torch.Tensor: collate.collate_tensor_fn,
    np.ndarray: collate.collate_numpy_array_fn,
    np.generic: collate.collate_numpy_scalar_fn,
    float: collate.collate_float_fn,
    int: collate.collate_int_fn,
    tuple: None,
    dict: None,
}


def recognise_collate(collate_fn: Any, sample_types: Iterable[type] = IMAGE_AND_LABEL) -> str:
    """What replaces `collate_fn` natively; NotLowered for anything but default_collate, unchanged for these
    types.
    """
    if collate_fn is not collate.default_collate:
        name = getattr(collate_fn, "__qualname__", type(collate_fn).__name__)
        raise NotLowered(
            f"{name} is not torch's default_collate; leave collate_fn out, or apply it to the finished batch"
        )
    # default_collate asks this public table at call time, for the sample itself and for its parts.
    for part in sorted(sample_types, key=lambda part: list(_SHIPPED).index(_known_base(part)), reverse=True):
        if _collate_function(part) is not _SHIPPED[_known_base(part)]:
            raise NotLowered(
                f"default_collate_fn_map was changed for {part.__name__}; restore it to collate natively"
            )
    return "default_collate; rows are written straight into the batch"


def _known_base(part: type) -> type:
    return next(known for known in _SHIPPED if issubclass(part, known))


def _collate_function(part: type) -> Any:
    table = collate.default_collate_fn_map
    if part in table:
        return table[part]
    return next((function for key, function in table.items() if issubclass(part, key)), None)


# What docs/native.md says of it (scripts/native_table.py).
WORDS = (
    "`default_collate`, those of millrace's data sets, timm's `fast_collate`, and [yours, in Python,"
    " after native decoding](#a-collate_fn-of-your-own)"
)
_OF_BATCH = {  # template: (whether f gets the batch's fields one by one, whether the result becomes a tuple)
    "return T(*D(B))": (True, False),
    "return T(D(B))": (False, False),
    "B = D(B); return T(*B)": (True, False),
    "B = D(B); return T(B)": (False, False),
    "L = D(B); return T(*L)": (True, False),
    "L = D(B); return T(L)": (False, False),
    "B = D(B); B = T(*B); return B": (True, False),
    "B = D(B); B = T(B); return B": (False, False),
    "L, M = D(B); return T(L, M)": (True, False),
    "L, M = D(B); L, M = T(L, M); return L, M": (True, True),
    "L, M = D(B); L, M = T(L, M); return (L, M)": (True, True),
}


@dataclass(frozen=True)
class PythonCollate:
    """`function`: of the samples, or, `of_batch`, of the batch, whose fields it gets one by one if `spread`;
    None: it is default_collate. `row_type`: of pictures; `views`: of each. `targets`: makes the samples'
    targets of the engine's labels."""

    function: Any
    of_batch: bool
    spread: bool
    as_tuple: bool
    row_type: type
    targets: Targets | None = None
    views: Views | None = None

    def __call__(self, batch: list[Any]) -> Any:
        """Of what default_collate would return."""
        with during(COLLATE):
            if self.of_batch:
                if self.targets is not None:
                    # A tuple, as default_collate has a field of its samples: texts are returned as they are.
                    targets = tuple(self.targets(batch[1].tolist()))
                    batch = [batch[0], default_collate(targets)]  # type: ignore[arg-type]
                if self.function is None:
                    return batch
                made = self.function(*batch) if self.spread else self.function(batch)
                return _pair(made) if self.as_tuple else made
            return self.function(self._samples(*batch))

    def seeded(self, batch: list[Any], *place: int) -> Any:
        """With generators of its own, seeded from `place`: the loader's seed, the epoch, the step, the
        rank.
        """
        with _generators_seeded(place):
            return self(batch)

    def traced(self, labels: torch.Tensor, shape: tuple[int, ...], *place: int) -> Mixed:
        """What seeded() will do to a batch of `labels` whose pictures have `shape`: see engines/mixing.py."""
        with _generators_seeded(place):
            return traced(self, labels, shape)

    def _samples(self, pictures: Any, labels: torch.Tensor) -> list[tuple[Any, Any]]:
        views = [pictures] if self.views is None else self.views.in_order(pictures)
        by_view = [view.unbind(0) for view in views]
        if self.row_type is np.ndarray:
            by_view = [[row.numpy() for row in rows] for rows in by_view]
        elif self.row_type is not torch.Tensor:
            by_view = [[row.as_subclass(self.row_type) for row in rows] for rows in by_view]
        rows = by_view[0] if self.views is None else map(self.views.sample, zip(*by_view))
        numbers = labels.tolist()
        return list(zip(rows, numbers if self.targets is None else self.targets(numbers)))


def with_targets(collate: PythonCollate | None, targets: Targets) -> PythonCollate:
    """`collate`, None for default_collate, of pictures with these targets."""
    if collate is None:
        return PythonCollate(None, True, False, False, torch.Tensor, targets)
    return replace(collate, targets=targets)


def recognise_any_collate(
    collate_fn: Any, row_type: type | None, views: Views | None = None
) -> tuple[str, PythonCollate | None]:
    """(what explain() says, what is called with the native batch, None for default_collate), or
    NotLowered.
    """
    sample_types = (tuple, np.ndarray, int) if row_type is np.ndarray else IMAGE_AND_LABEL
    reason, collate = recognise_batch_function(collate_fn, sample_types)
    if reason:
        return reason, collate
    if not callable(collate_fn):
        return recognise_collate(collate_fn), None  # which refuses it
    name = holder_name(collate_fn)
    if row_type is None:
        raise NotLowered(
            f"{name} is Python code, and v1 transforms behind v2's ToImage() make samples of no certain type;"
            " use v2's for all"
        )
    reason = (
        f"native decode, collate_fn in Python: {name} gets samples, rows of the native batch, inside next()"
    )
    return reason, PythonCollate(collate_fn, False, False, False, row_type, views=views)


def recognise_batch_function(
    collate_fn: Any, sample_types: Iterable[type] = IMAGE_AND_LABEL
) -> tuple[str, PythonCollate | None]:
    """The same, of what is default_collate, or that and then a function of its batch; ("", None): it is not
    that.
    """
    while type(collate_fn) is functools.partial and not collate_fn.args and not collate_fn.keywords:
        collate_fn = collate_fn.func
    if collate_fn is default_collate:
        return recognise_collate(collate_fn, sample_types), None
    name = holder_name(collate_fn)
    if (found := called(collate_fn, "return D(B)")) is not None and found[0] is default_collate:
        return f"{name} is {recognise_collate(default_collate, sample_types)}", None
    for template, (spread, as_tuple) in _OF_BATCH.items():
        if (found := called(collate_fn, template)) is None:
            continue
        function, default = found if template.index("T") < template.index("D") else reversed(found)
        if default is default_collate and function is not default_collate and callable(function):
            recognise_collate(default_collate, sample_types)
            reason = (
                f"native default_collate; {holder_name(function)} of {name} in Python, inside next(), but"
                " mixing of pictures (MixUp, CutMix) in the threads"
            )
            return reason, PythonCollate(function, True, spread, as_tuple, torch.Tensor)
    return "", None


def _pair(values: Any) -> tuple[Any, Any]:
    first, second = values
    return first, second


@contextlib.contextmanager
def _generators_seeded(place: tuple[int, ...]) -> Iterator[None]:
    """torch's CPU generator, random's and numpy's: seeded from `place` inside, and where they were
    afterwards.
    """
    digest = hashlib.blake2b(repr(place).encode(), digest_size=16).digest()
    words = np.frombuffer(digest, np.uint32)
    seed = int.from_bytes(digest[:8], "little") >> 1
    torchs, pythons, numpys = torch.get_rng_state(), random.getstate(), np.random.get_state(legacy=False)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach for the devices' as well
    random.seed(seed)
    if numpys["bit_generator"] == "MT19937":
        np.random.seed(words)
    try:
        yield
    finally:
        torch.set_rng_state(torchs)
        random.setstate(pythons)
        np.random.set_state(numpys)
