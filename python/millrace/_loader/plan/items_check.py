"""Compares a few samples of a dataset with a __getitem__ that was read (items.py) with the engine's samples,
once per dataset, so that a mistake of the reader does not spoil an epoch.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from ..._common.lowering.recognising import is_a
from ..._common.regular_files import open_regular
from ..._common.states import generator_states, generators_at
from ..._pictures.asking import asks, stops_asking
from ..._pictures.counts import PictureCounts
from ..engines.item_prefix import PrefixedItems
from ..engines.items import ItemSpec
from .item_prefix import KnownItems, known_items

_SAMPLES = 3
_NOISE = 0.05  # of a picture's deviation: the engine's resize rounds in another way than a tensor's
_FACTOR = 16  # between drawn pictures of one scale; 0..1 and 0..255 are further apart
_RAISES = object()
UNKNOWN = "the engine decodes no picture of its kind"
_agreeing: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def difference(spec: ItemSpec, root: Any, count: int, drawn: bool) -> str:
    """Compare a few of the `count` samples of `spec` with the dataset's own. Returns the first difference;
    "": there is none; UNKNOWN: no mistake, but the engine cannot make such pictures. Values are compared
    exactly, pictures up to rounding, or, if `drawn`, by type and scale. Restores the global generators.
    """
    if _agrees(root):
        return ""
    core = spec.core(0, 1, "raise", False, "system")
    kinds, values = spec.kinds, spec.values
    try:
        indices = partial(spec.rows, _chosen(count))
        return _compared(
            root, kinds, values, indices, lambda index: _of_sample(spec, core, root, index, drawn)
        )
    finally:
        core.close()


def part_difference(known: KnownItems, root: Any, count: int) -> str:
    """As difference(), for samples that the engine makes only in part. They are compared exactly, up to
    rounding, if the dataset gives equal samples from equally seeded generators and the known steps draw
    nothing.
    """
    if _agrees(root):
        return ""
    twin = _twin(root)
    stand_in = known_items(twin).stand_in(twin, (0, 0), True)
    drawn = any(prefix.lowered.is_random for prefix in known.prefixes)
    kinds = tuple(file.kind for file in known.item.files)

    def indices() -> list[Any]:
        found = _chosen(count)
        for places in known.index_maps:
            found = [places[index] for index in found]
        return found

    def of_sample(index: Any) -> str:
        return _of_part(stand_in, known.item.form, twin, index, drawn)

    return _compared(root, kinds, known.item.values, indices, of_sample)


def _agrees(root: Any) -> bool:
    """Whether samples of `root` were compared before, without a difference."""
    return _agreeing.get(id(root)) is root


def _chosen(count: int) -> list[int]:
    return random.Random(count).sample(range(count), min(_SAMPLES, count))


def _compared(
    root: Any,
    kinds: tuple[str, ...],
    values: Callable[[Any], tuple[Any, ...]],
    indices: Callable[[], Any],
    of_sample: Callable[[Any], str],
) -> str:
    """The first difference that of_sample() finds; "": none; UNKNOWN: the engine cannot make a sample."""
    with generators_at(generator_states({}, pythons=True)):
        for index in indices():
            if _others_decode(kinds, values, index):
                return UNKNOWN
            if where := of_sample(index):
                return where if where == UNKNOWN else f"sample {index}: {where}"
    try:
        _agreeing[id(root)] = root
    except TypeError:  # no weak reference to a class with slots: such a dataset is compared each time
        pass
    return ""


def _others_decode(kinds: tuple[str, ...], values: Callable[[Any], tuple[Any, ...]], index: Any) -> bool:
    """Whether the engine has no codec for a picture's format: its threads would take turns in Pillow."""
    with contextlib.suppress(Exception):  # the dataset will raise its own error
        for place, kind in zip(values(index), kinds):
            if kind == "pixels":
                continue
            with io.BytesIO(place) if kind == "bytes" else open_regular(place, "rb") as file:
                begin = file.read(12)
            if not begin.startswith((b"\xff\xd8", b"\x89PNG")) and begin[8:] != b"WEBP":
                return True
    return False


def _of_sample(spec: ItemSpec, core: Any, root: Any, index: Any, drawn: bool) -> str:
    theirs = _own_sample(root, index)
    core.start_epoch(0, 0)
    core.submit([index])
    try:
        batch = spec.collated(core.next())
    except Exception:  # the dataset's own
        return "" if theirs is _RAISES else UNKNOWN
    if batch[0] is None or theirs is _RAISES:
        return UNKNOWN
    try:
        (ours,) = spec.python_collate.samples_of(batch)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return _differ(spec.python_collate.form.form, ours, theirs, drawn)


def _of_part(stand_in: PrefixedItems, form: Any, root: Any, index: Any, drawn: bool) -> str:
    def own() -> Any:
        stand_in.seed(index, 0)  # so that the rest draws the same numbers
        return _own_sample(root, index)

    theirs = own()
    try:
        ours = stand_in.sample(index)
    except Exception:  # the dataset's own
        return "" if theirs is _RAISES else UNKNOWN
    if theirs is _RAISES:
        return UNKNOWN
    drawn = drawn or bool(_differ(form, own(), theirs, False))
    return _differ(form, ours, theirs, drawn)


def _twin(root: Any) -> Any:
    """A dataset with the attributes of `root`, but with copies of its callables. So a comparison of samples
    does not change the callables: transforms may count their calls, or have generators of their own.
    """
    if hasattr(type(root), "__del__"):  # the twin's would close what both share
        return root
    twin = object.__new__(type(root))
    memo = {id(root): twin}
    for name, value in vars(root).items():
        if callable(value):
            with contextlib.suppress(Exception):
                value = copy.deepcopy(value, memo)
        vars(twin)[name] = value
    return twin


def _own_sample(root: Any, index: Any) -> Any:
    for counts in (None, PictureCounts()):  # millrace may decode pictures that a library cannot
        before = asks(counts)
        try:
            return root[index]
        except Exception:
            pass
        finally:
            stops_asking(before)
    return _RAISES


def _differ(form: Any, ours: Any, theirs: Any, drawn: bool) -> str:
    if type(ours) is not type(theirs):
        return f"{type(ours).__name__} for {type(theirs).__name__}"
    if type(form) is int and form < 0:
        return _made_differ(ours, theirs, drawn)
    if type(form) is int:
        return "" if _equal(ours, theirs) else f"{ours!r} for {theirs!r}"
    if len(ours) != len(theirs) or type(form) is dict and list(ours) != list(theirs):
        return f"{len(ours)} values for {len(theirs)}"
    parts = form.items() if type(form) is dict else enumerate(form)
    return next(filter(None, (_differ(part, ours[key], theirs[key], drawn) for key, part in parts)), "")


def _made_differ(ours: Any, theirs: Any, drawn: bool) -> str:
    """The difference of two pictures, or of Python's results from them, which may be of any type."""
    if type(ours) is not type(theirs):
        return f"{type(ours).__name__} for {type(theirs).__name__}"
    if isinstance(theirs, dict):
        ours, theirs = list(ours.items()), list(theirs.items())
    if isinstance(theirs, (list, tuple)):
        if len(ours) != len(theirs):
            return f"{len(ours)} values for {len(theirs)}"
        return next(filter(None, (_made_differ(*pair, drawn) for pair in zip(ours, theirs))), "")
    one, other = _as_tensor(ours), _as_tensor(theirs)
    return "" if one is None or other is None else _pictures_differ(one, other, drawn)


def _as_tensor(made: Any) -> torch.Tensor | None:
    if isinstance(made, torch.Tensor):
        return made
    is_array = isinstance(made, (np.ndarray, int, float)) or is_a(made, "PIL.Image", "Image")
    try:
        return torch.from_numpy(np.array(made)) if is_array else None
    except TypeError:  # for texts and the like
        return None


def _pictures_differ(ours: Any, theirs: Any, drawn: bool) -> str:
    if ours.dtype != theirs.dtype or len(ours.shape) != len(theirs.shape):
        return f"a picture {ours.dtype} {tuple(ours.shape)} for {theirs.dtype} {tuple(theirs.shape)}"
    one, other = (torch.nan_to_num(made.double()).numpy() for made in (ours, theirs))
    if drawn:
        if not one.any() or not other.any():
            return ""
        low, high = sorted((np.abs(one).max(), np.abs(other).max()))
        return "" if high <= _FACTOR * low else f"a picture up to {high} for one up to {low}, or the reverse"
    if one.shape != other.shape:
        return f"a picture {tuple(one.shape)} for {tuple(other.shape)}"
    levels = 1.0 if theirs.dtype is torch.uint8 else 1 / 50
    far = np.abs(one - other).mean() if one.size else 0.0
    return "" if far <= levels + _NOISE * other.std() else f"a picture {far} from {other.mean()}"


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))
    try:
        return bool(np.all(one == other)) or bool(one != one)
    except Exception:  # such values cannot be compared
        return True
