"""Augmentation policies of torchvision and our own classes, and single operations of theirs, as the engine's
op "augment_policy".

A policy's table of magnitudes comes from the object itself, so a table that a subclass replaced counts.
Translations that depend on the picture's size become shares of its sides.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...transforms import operations
from ...transforms.policies import CHANGES, SHARES_OF_LARGEST
from .chain import Chain, map_interpolation, picture_fill
from .recognising import V1, NotLowered

_OTHER_NAMES = {"Color": "saturation", "AutoContrast": "autocontrast"}
# torchvision's names of operations, and the engine's.
KINDS = {name: _OTHER_NAMES.get(name) or re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in CHANGES}
MAPS = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")  # these have a fill
_ENHANCEMENTS = ("brightness", "contrast", "saturation", "sharpness")
_AUTO_AUGMENT_BINS = 10  # of the papers' tables, which both libraries have in their code
# Sizes (height, width) at which a table is asked. The first two differ in both sides; with the others a share
# is checked.
_SIZES = ((300, 500), (700, 400))
_MORE_SIZES = ((1, 1), (3, 2), (5, 7), (31, 33), (224, 225), (1023, 1024), (4000, 6000))
_LARGEST_DENOMINATOR = 4096  # shares are told apart from their float32 products up to here

Magnitudes = tuple["list[float] | None", bool]  # None: the operation has none; whether they have a sign


def operation(kind: str, values: Sequence[float] = (0.0,), **fields: Any) -> dict[str, Any]:
    """One operation of a branch; `fields`: those that are not as here."""
    op: dict[str, Any] = {
        "kind": kind,
        "p": 1.0,
        "signed": False,
        "whole": False,
        "share": 0.0,
        "bins": 0,
        "base": 0.0,
    }
    if "level" not in fields:
        op["values"] = [float(v) for v in values]
    if kind == "posterize":
        op["least_bits"] = least_bits()
    return op | fields


def branch(ops: list[dict[str, Any]], weight: float = 1.0) -> dict[str, Any]:
    return {"weight": float(weight), "ops": ops}


def policy(name: str, branches: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """The op; `fields`: those that are not as here."""
    return {
        "op": "augment_policy",
        "name": name,
        "count": 1,
        "replace": True,
        "branches": branches,
        "interpolations": ["nearest"],
        "fill": (0, 0, 0),
        "geometry": "torchvision",
        **fields,
    }


def drawn_between(low: float, high: float, **bounds: float) -> dict[str, Any]:
    """An operation's "level": a value drawn evenly; `bounds`: "least" and "most_value" that it may have."""
    return {
        "mean": 1.0,
        "std": 0.0,
        "uniform": True,
        "most": 1.0,
        "offset": low,
        "scale": high - low,
        "truncated": False,
        **bounds,
    }


def _rand_augment(chain: Chain, t: Any, family: str) -> None:
    table = _Table(t, family, _bins(t))
    branches = [branch([table.operation(name, [t.magnitude])]) for name in table.magnitudes]
    if not isinstance(t.num_ops, int):
        raise NotLowered(f"{type(t).__name__}(num_ops={t.num_ops!r}) is no whole number")
    if t.num_ops > 0:
        _add(chain, t, branches, count=int(t.num_ops))


def _trivial_augment(chain: Chain, t: Any, family: str) -> None:
    table = _Table(t, family, _bins(t), sized=family != V1)
    _add(chain, t, [branch([table.operation(name)]) for name in table.magnitudes])


def _auto_augment(chain: Chain, t: Any, family: str) -> None:
    table = _Table(t, family, _AUTO_AUGMENT_BINS)
    policies = t.policies if family == V1 else t._policies
    branches = []
    for parts in policies:
        if family == V1 and len(parts) > 2:
            raise NotLowered(f"{type(t).__name__} of v1 draws for two operations, and has {len(parts)}")
        branches.append(branch([table.numbered(name, which, float(p)) for name, p, which in parts]))
    if not branches:
        raise NotLowered(f"{type(t).__name__} has no policies to draw from")
    _add(chain, t, branches)


def _bins(t: Any) -> int:
    bins = t.num_magnitude_bins
    if not isinstance(bins, int) or bins < 1:
        raise NotLowered(f"{type(t).__name__}(num_magnitude_bins={bins!r}) is no whole number above 0")
    return bins


def _add(chain: Chain, t: Any, branches: list[dict[str, Any]], **fields: Any) -> None:
    name = type(t).__name__
    maps = {"interpolations": [map_interpolation(name, t.interpolation)], "fill": picture_fill(name, t.fill)}
    chain.change_picture(policy(name, branches, **maps, **fields), name)


class _Table:
    """The magnitudes of a policy's operations, asked of the policy at several sizes of pictures."""

    def __init__(self, t: Any, family: str, bins: int, sized: bool = True) -> None:
        """`sized`: whether the table may depend on the picture's size."""
        self.owner, self.family, self.bins, self.sized = t, family, bins, sized
        self.name = type(t).__name__
        self.magnitudes = self._at(*_SIZES[0])
        other = self._at(*_SIZES[1])
        if other.keys() != self.magnitudes.keys():
            raise NotLowered(f"{self.name}'s operations depend on the picture's size")
        if unknown := self.magnitudes.keys() - KINDS:
            raise NotLowered(
                f"{self.name}'s operation {sorted(unknown)[0]!r} is none of torchvision's: {', '.join(KINDS)}"
            )
        depend = {name for name, magnitudes in self.magnitudes.items() if other[name] != magnitudes}
        self.shares = self._shares(depend) if depend else {}

    def operation(self, name: str, which: Sequence[Any] | None = None, p: float = 1.0) -> dict[str, Any]:
        """`which`: the indices of magnitudes that are drawn, each as often; None: all."""
        if name not in self.magnitudes:
            raise NotLowered(f"{self.name}'s table has no operation {name!r}")
        magnitudes, signed = self.magnitudes[name]
        if magnitudes is None:
            return self._made(name, [0.0], p)
        indices = [self._index(name, i, magnitudes) for i in which or range(len(magnitudes))]
        if name in self.shares:
            fields = {"share": self.shares[name], "bins": len(magnitudes), "whole": True}
            return operation(KINDS[name], indices, p=p, signed=signed, **fields)
        return self._made(name, [magnitudes[i] for i in indices], p, signed)

    def numbered(self, name: str, which: int | None, p: float) -> dict[str, Any]:
        """The operation as AutoAugment's policies give it: `which` is None where it has no magnitude."""
        has_none = self.magnitudes.get(name, (None, False))[0] is None
        # v1 looks at the policy and v2 at the table for whether there is a magnitude.
        if which is not None and has_none and self.family == V1:
            raise NotLowered(f"{self.name} gives {name} the magnitude {which!r}, and its table has none")
        if which is None and not has_none and self.family == V1:
            return self._made(name, [0.0], p)
        return self.operation(name, [which], p)

    def _made(self, name: str, magnitudes: Sequence[float], p: float, signed: bool = False) -> dict[str, Any]:
        kind = KINDS[name]
        fields: dict[str, Any] = {"p": p, "signed": signed, "whole": kind.startswith("translate")}
        if kind in _ENHANCEMENTS:
            fields["base"] = 1.0
        if kind == "posterize":
            magnitudes = [kept_bits(self.name, int(v)) for v in magnitudes]
        if name in SHARES_OF_LARGEST and self.family != V1:
            magnitudes = [255.0 * v for v in magnitudes]
        return operation(kind, magnitudes, **fields)

    def _index(self, name: str, which: Any, magnitudes: list[float]) -> int:
        if not isinstance(which, int) or not -len(magnitudes) <= which < len(magnitudes):
            raise NotLowered(
                f"{self.name}'s magnitude {which!r} of {name} is no index into its {len(magnitudes)}"
            )
        return which % len(magnitudes)

    def _at(self, height: int, width: int) -> dict[str, Magnitudes]:
        try:
            with torch.random.fork_rng(devices=[]):  # a table that draws must not move the user's generator
                before = torch.get_rng_state()
                asked = self._asked(height, width)
                if not torch.equal(before, torch.get_rng_state()):
                    raise NotLowered(f"{self.name}'s table draws its magnitudes, which the engine would keep")
                return asked
        except NotLowered:
            raise
        except Exception as error:  # torchvision's own words then come from the call of the transform
            raise NotLowered(f"{self.name}'s table of magnitudes raised {error!r}") from None

    def _asked(self, height: int, width: int) -> dict[str, Magnitudes]:
        t, bins = self.owner, self.bins
        if self.family == V1:
            size = [(height, width)] if self.sized else []
            asked = t._augmentation_space(bins, *size)
            return {
                name: (magnitudes.tolist() if magnitudes.ndim > 0 else None, bool(signed))
                for name, (magnitudes, signed) in asked.items()
            }
        table: dict[str, Magnitudes] = {}
        for name, (make, signed) in t._AUGMENTATION_SPACE.items():
            made = make(bins, height, width)
            if made is not None and len(made) < bins:
                raise NotLowered(f"{self.name}'s {name} has {len(made)} magnitudes, and is to have {bins}")
            table[name] = (None if made is None else [float(v) for v in made[:bins]], bool(signed))
        return table

    def _shares(self, depend: set[str]) -> dict[str, float]:
        """By operation, its last magnitude as a share of the side."""
        from fractions import Fraction  # brings the module of decimals, which few loaders need

        side = 4096  # a power of two, so the measured share is exact to float32
        large = self._at(side, side)
        shares = {}
        for name in depend:
            magnitudes = large[name][0]
            if not KINDS[name].startswith("translate") or not magnitudes:
                raise NotLowered(
                    f"{self.name}'s {name} depends on the picture's size; the engine knows that of"
                    " translations"
                )
            shares[name] = float(Fraction(magnitudes[-1] / side).limit_denominator(_LARGEST_DENOMINATOR))
        for height, width in (*_SIZES, *_MORE_SIZES):
            asked = self._at(height, width)
            for name, share in shares.items():
                end = share * (width if name == "TranslateX" else height)
                magnitudes = asked[name][0] or []
                even = torch.linspace(0.0, end, len(magnitudes), dtype=torch.float32)
                if share <= 0 or even.tolist() != magnitudes:
                    raise NotLowered(
                        f"{self.name}'s {name} is no even share of the picture's side; give it as"
                        " torch.linspace(0, share * side, num_bins)"
                    )
        return shares


@functools.cache
def least_bits() -> int:
    """The fewest bits that this Pillow's posterize() keeps: 0 is an error from Pillow 13 on."""
    from PIL import Image, ImageOps  # not at the top: loaders of tensors do without Pillow

    try:
        ImageOps.posterize(Image.new("L", (1, 1)), 0)
    except ValueError:
        return 1
    return 0


def kept_bits(name: str, bits: Any) -> int:
    if not isinstance(bits, int) or not 0 <= bits <= 8:
        raise NotLowered(f"{name} keeps {bits!r} bits; a byte has 0 to 8")
    return bits


def _single(made: type[operations.PictureOperation]) -> Callable[[Chain, Any, str], None]:
    """The rule of `made`, and of torchvision's class of this name."""

    def lower(chain: Chain, t: Any, family: str) -> None:
        name = type(t).__name__
        value = 0.0 if made.value_name is None else getattr(t, made.value_name)
        if made.kind == "posterize":
            value = kept_bits(made.__name__, value)
        chain.change_picture(policy(name, [branch([operation(made.kind, [value], p=float(t.p))])]), name)

    return lower


POLICIES: dict[str, Callable[[Chain, Any, str], None]] = {
    "RandAugment": _rand_augment,
    "TrivialAugmentWide": _trivial_augment,
    "AutoAugment": _auto_augment,
    **{name: _single(getattr(operations, name)) for name in operations.__all__},
}
