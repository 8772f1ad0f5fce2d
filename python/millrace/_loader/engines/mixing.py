"""MixUp and CutMix of a collate_fn, done by the engine's threads: the function is traced before the pictures
of its batch are made.

When the batch is submitted, the function is called with a tensor without memory, and with the generators that
it would have later (python_collate.py). It may do nothing to the pictures but mix each with another one of
the batch, as MixUp (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV 2019) do. Then the threads mix
while they make the rows, by the same operations, and the batch takes the rest of the function's result. If
the function does anything else, the batch is made unmixed, and next() calls the function with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..._common.torch_private import tree_flatten, tree_unflatten

Box = tuple[int, int, int, int]  # left, top, right, bottom


class NotTraced(Exception):
    """The function does something else to the pictures than mixing them."""


@dataclass(frozen=True)
class _Rows:
    """Pictures of the batch: row i is picture `order[i]` times `factor`; only their `box`, if given."""

    order: tuple[int, ...]
    factor: float = 1.0
    box: Box | None = None


@dataclass(frozen=True)
class _Mix:
    """The sum of two; or, with a box, the second's pixels there and the first's elsewhere."""

    first: _Rows
    second: _Rows
    box: Box | None = None


@dataclass(frozen=True)
class Mixed:
    """A batch with pictures that the core mixes. `arguments`: of the core's submit_mixed(); None if the
    pictures stay as they are.
    """

    arguments: tuple[Any, ...] | None
    leaves: list[Any]
    structure: Any
    hole: int

    def batch(self, pictures: torch.Tensor) -> Any:
        """What the function returned, with the pictures that the core made."""
        leaves = list(self.leaves)
        leaves[self.hole] = pictures
        return self.structure(leaves) if self.structure in _PAIRS else tree_unflatten(leaves, self.structure)


class _Pictures(torch.Tensor):
    """A float32 tensor (n, 3, h, w) without memory that knows which pictures of the batch it has."""

    is_what: _Rows | _Mix
    part_of: _Pictures | None
    seen: _Rows | _Mix | None  # what the whole was when this part of it was taken
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # dispatch is enough

    @staticmethod
    def __new__(
        cls, shape: Sequence[int], is_what: _Rows | _Mix, part_of: _Pictures | None = None
    ) -> _Pictures:
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32)  # type: ignore[attr-defined]
        made.is_what, made.part_of = is_what, part_of
        made.seen = None if part_of is None else part_of.is_what
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"<{tuple(self.shape)} pictures that are not made yet>"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        handler = _HANDLERS.get(func)
        if handler is None or kwargs:
            raise NotTraced(f"{func} of pictures")
        return handler(*args)


def traced(function: Callable[[Any], Any], labels: torch.Tensor, shape: Sequence[int]) -> Mixed:
    """Trace `function` on a batch [pictures, labels]. `shape`: of the pictures, (n, 3, h, w). Raises the
    function's errors, and NotTraced.
    """
    everyone = tuple(range(shape[0]))
    leaves, structure = _flat(function([_Pictures(shape, _Rows(everyone)), labels]))
    holes = [at for at, leaf in enumerate(leaves) if isinstance(leaf, _Pictures)]
    if len(holes) != 1 or leaves[holes[0]].part_of is not None:
        raise NotTraced("the batch has not the pictures once, whole")
    arguments = _arguments(leaves[holes[0]].is_what, everyone)
    leaves[holes[0]] = None
    return Mixed(arguments, leaves, structure, holes[0])


_PAIRS = list, tuple


def _flat(made: Any) -> tuple[list[Any], Any]:
    """(leaves, structure) of `made`, by torch's pytrees; these are slow, so a pair of tensors skips them."""
    if type(made) in _PAIRS and len(made) == 2 and all(isinstance(part, torch.Tensor) for part in made):
        return list(made), type(made)
    return tree_flatten(made)


def _arguments(mix: _Rows | _Mix, everyone: tuple[int, ...]) -> tuple[Any, ...] | None:
    """(partners, own factor, other factor, box), or None: nothing is mixed."""
    if isinstance(mix, _Rows):
        if mix != _Rows(everyone):
            raise NotTraced("pictures in another order, or times a number")
        return None
    own, other = mix.first, mix.second
    if mix.box is None and own.order != everyone:
        own, other = other, own
    if own.order != everyone or sorted(other.order) != list(everyone):
        raise NotTraced("a row that is not its own picture and another one, each once")
    if mix.box is None:
        return other.order, own.factor, other.factor, None
    left, top, right, bottom = mix.box
    return other.order, 1.0, 0.0, (left, top, right - left, bottom - top)


def _whole_rows(pictures: Any) -> _Rows:
    if not isinstance(pictures, _Pictures) or not isinstance(pictures.is_what, _Rows):
        raise NotTraced("more than two pictures in a row")
    if pictures.part_of is not None and pictures.part_of.is_what is not pictures.seen:
        raise NotTraced("a part of pictures that changed meanwhile")
    return pictures.is_what


def _plain(pictures: Any) -> _Rows:
    rows = _whole_rows(pictures)
    if rows.factor != 1:
        raise NotTraced("a mixture of pictures that have a factor")
    return rows


def _number(value: Any) -> float:
    if isinstance(value, torch.Tensor) and type(value) is torch.Tensor and value.dim() == 0:
        value = value.item()
    if type(value) not in (float, int):
        raise NotTraced("a factor that is not one number")
    return float(value)


def _changed(target: _Pictures, is_what: _Rows | _Mix) -> _Pictures:
    if target.part_of is not None:
        raise NotTraced("arithmetic inside a part of the pictures")
    target.is_what = is_what
    return target


def _product(first: Any, second: Any) -> tuple[_Pictures, _Rows]:
    pictures, factor = (first, second) if isinstance(first, _Pictures) else (second, first)
    rows = _plain(pictures)
    if rows.box is not None:
        raise NotTraced("arithmetic inside a part of the pictures")
    return pictures, _Rows(rows.order, _number(factor))


def _mul(first: Any, second: Any) -> _Pictures:
    pictures, product = _product(first, second)
    return _Pictures(pictures.shape, product)


def _mul_(target: Any, factor: Any) -> _Pictures:
    if not isinstance(target, _Pictures):
        raise NotTraced("something else times pictures, in place")
    return _changed(target, _product(target, factor)[1])


def _sum(first: Any, second: Any) -> _Mix:
    mix = _Mix(_whole_rows(first), _whole_rows(second))
    if mix.first.box is not None or mix.second.box is not None or first.shape != second.shape:
        raise NotTraced("arithmetic inside a part of the pictures")
    return mix


def _add(first: Any, second: Any) -> _Pictures:
    return _Pictures(first.shape, _sum(first, second))


def _add_(target: Any, other: Any) -> _Pictures:
    return _changed(target, _sum(target, other))


def _reordered(pictures: Any, order: Any) -> _Pictures:
    rows = _plain(pictures)
    picked = _Rows(tuple(rows.order[i] for i in order), box=rows.box)
    return _Pictures((len(picked.order), *pictures.shape[1:]), picked)


def _roll(pictures: Any, shifts: Any, dims: Any = ()) -> _Pictures:
    if list(dims) != [0] or len(shifts) != 1:
        raise NotTraced("pictures that are rolled along their sides")
    everyone = range(len(pictures))
    first = -shifts[0] % max(1, len(pictures))
    return _reordered(pictures, [*everyone[first:], *everyone[:first]])


def _flip(pictures: Any, dims: Any) -> _Pictures:
    if list(dims) != [0]:
        raise NotTraced("pictures that are flipped")
    return _reordered(pictures, range(len(pictures) - 1, -1, -1))


def _index(pictures: Any, indices: Any) -> _Pictures:
    if not isinstance(pictures, _Pictures) or any(index is not None for index in indices[1:]):
        raise NotTraced("indices of pixels")
    order = indices[0]
    if order.dim() != 1 or order.dtype not in (torch.int64, torch.int32):
        raise NotTraced("indices that are no list of rows")
    return _reordered(pictures, order.tolist())


def _clone(pictures: Any) -> _Pictures:
    if pictures.part_of is not None:
        raise NotTraced("a copy of a part of the pictures")
    return _Pictures(pictures.shape, pictures.is_what)


def _slice(pictures: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """A view: its writes go to the whole."""
    if dim not in (2, 3) or step != 1:
        raise NotTraced("a part of the batch")
    rows, size = _plain(pictures), pictures.shape[dim]
    begin, stop, _ = slice(start, end).indices(size)
    stop = max(begin, stop)
    left, top, right, bottom = rows.box or (0, 0, pictures.shape[3], pictures.shape[2])
    if dim == 2:
        top, bottom = top + begin, top + stop
    else:
        left, right = left + begin, left + stop
    shape = (*pictures.shape[:2], bottom - top, right - left)
    whole = pictures if pictures.part_of is None else pictures.part_of
    return _Pictures(shape, _Rows(rows.order, box=(left, top, right, bottom)), whole)


def _copy_(target: Any, source: Any, *_: Any) -> Any:
    box = _plain(target).box
    whole = target.part_of
    if whole is None or box is None or _plain(source).box != box or target.shape != source.shape:
        raise NotTraced("pixels that are written somewhere else than where they were")
    before = _plain(whole)
    whole.is_what = _Mix(before, _Rows(_plain(source).order), box)
    return target


_aten = torch.ops.aten
_HANDLERS: dict[Any, Callable[..., Any]] = {
    _aten.mul.Tensor: _mul,
    _aten.mul.Scalar: _mul,
    _aten.mul_.Tensor: _mul_,
    _aten.mul_.Scalar: _mul_,
    _aten.add.Tensor: _add,
    _aten.add_.Tensor: _add_,
    _aten.roll.default: _roll,
    _aten.flip.default: _flip,
    _aten.index.Tensor: _index,
    _aten.index_select.default: lambda pictures, dim, order: _index(pictures, [*[None] * dim, order]),
    _aten.clone.default: _clone,
    _aten.detach.default: lambda pictures: pictures,
    _aten.slice.Tensor: _slice,
    _aten.copy_.default: _copy_,
}
