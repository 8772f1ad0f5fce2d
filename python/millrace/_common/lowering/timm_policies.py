"""timm's RandAugment, AutoAugment and AugmentOp as the engine's op "augment_policy".

An AugmentOp has a function of a picture, and a function that turns a level into the first one's argument.
Both are recognised by identity with timm.data.auto_augment's functions; that module is never imported here.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .chain import Chain, Rule, map_interpolation, picture_fill
from .fields import OPERATIONS
from .policies import MAPS, branch, drawn_between, operation, policy
from .recognising import TIMM, NotLowered, loaded

_MODULE = f"{TIMM}.auto_augment"
_LEVELS = 10.0  # timm's levels are tenths of what an operation may do
_ANY = 1e9  # no bound: more than any argument

# timm's names of functions of pictures that differ from the engine's names by more than an ending.
_OTHER_NAMES = {"auto_contrast": "autocontrast", "color": "saturation", "desaturate": "saturation"}
_ENDINGS = re.compile("_(abs|rel|rand)$")
_WITHOUT_VALUE = ("autocontrast", "invert", "equalize")


@dataclass(frozen=True)
class _Argument:
    """An operation's argument: offset +- level / 10 * scale, between two bounds."""

    scale: float
    offset: float = 0.0
    signed: bool = False
    truncated: bool = False  # level / 10 * scale becomes a whole number
    least: float = -_ANY
    most: float = _ANY

    def at(self, level: float) -> list[float]:
        """The argument's possible values at `level`, all equally likely, computed as timm computes them."""
        part = level / _LEVELS * self.scale
        part = float(int(part)) if self.truncated else part
        both = [self.offset + part, self.offset - part] if self.signed else [self.offset + part]
        return list(dict.fromkeys(min(self.most, max(self.least, value)) for value in both))

    def drawn(self, mean: float, std: float, most: float) -> dict[str, Any]:
        """The engine's "level" entry for levels that are drawn around `mean`."""
        return {
            "mean": mean,
            "std": 0.0 if math.isinf(std) else std,
            "uniform": math.isinf(std),
            "most": most,
            "offset": self.offset,
            "scale": self.scale / _LEVELS,
            "truncated": self.truncated,
            "least": self.least,
            "most_value": self.most,
        }


# By the name of timm's level function, for functions that depend on the level alone.
_ARGUMENTS = {
    "_rotate_level_to_arg": _Argument(30.0, signed=True),
    "_shear_level_to_arg": _Argument(0.3, signed=True),
    "_enhance_level_to_arg": _Argument(1.8, 0.1),
    "_enhance_increasing_level_to_arg": _Argument(0.9, 1.0, signed=True, least=0.1),
    # Pillow treats negative bit counts as 0: a black picture, or an error from Pillow 13 on.
    "_posterize_level_to_arg": _Argument(4.0, truncated=True, most=8.0),
    "_posterize_increasing_level_to_arg": _Argument(-4.0, 4.0, truncated=True, least=0.0),
    "_posterize_original_level_to_arg": _Argument(4.0, 4.0, truncated=True, most=8.0),
    "_solarize_level_to_arg": _Argument(256.0, truncated=True, most=256.0),
    "_solarize_increasing_level_to_arg": _Argument(-256.0, 256.0, truncated=True, least=0.0),
    "_solarize_add_level_to_arg": _Argument(110.0, truncated=True, most=128.0),
}


def _named(function: Any, names: Sequence[str]) -> str | None:
    """The name among `names` by which timm's module has `function`."""
    return next((name for name in names if function is not None and loaded(_MODULE, name) is function), None)


def _argument(t: Any, level_fn: Any) -> _Argument:
    if (name := _named(level_fn, tuple(_ARGUMENTS))) is not None:
        return _ARGUMENTS[name]
    if level_fn is loaded(_MODULE, "_translate_abs_level_to_arg") and "translate_const" in t.hparams:
        return _Argument(float(t.hparams["translate_const"]), signed=True)
    if level_fn is loaded(_MODULE, "_translate_rel_level_to_arg"):
        return _Argument(float(t.hparams.get("translate_pct", 0.45)), signed=True)
    bounds = {"min_val": 0.0, "max_val": 1.0, "clamp": True}
    if (
        type(level_fn) is functools.partial
        and not level_fn.args
        and level_fn.keywords.keys() <= bounds.keys()
    ):
        bounds |= level_fn.keywords
        level_fn = level_fn.func
    if level_fn is not None and level_fn is loaded(_MODULE, "_minmax_level_to_arg"):
        low, high = float(bounds["min_val"]), float(bounds["max_val"])
        least, most = (low, high) if bounds["clamp"] else (-_ANY, _ANY)
        return _Argument(high - low, low, least=least, most=most)
    raise NotLowered(f"AugmentOp({t.name}) has a function of levels that is not timm's own: {level_fn!r}")


def _operation(t: Any) -> dict[str, Any]:
    """An AugmentOp as an operation of a branch."""
    if type(t) is not loaded(_MODULE, "AugmentOp"):
        raise NotLowered(f"timm's policies are native of AugmentOps, and this one holds {t!r}")
    function = getattr(t.aug_fn, "__name__", "")
    kind = _OTHER_NAMES.get(function) or _ENDINGS.sub("", function)
    if kind not in OPERATIONS["policies"] or loaded(_MODULE, function) is not t.aug_fn:
        raise NotLowered(
            f"AugmentOp({t.name}) has a function of pictures that is not timm's own: {t.aug_fn!r}"
        )
    if unknown := t.kwargs.keys() - {"fillcolor", "resample"}:
        raise NotLowered(f"AugmentOp({t.name}) passes {sorted(unknown)[0]!r} to its function")
    p = min(1.0, max(0.0, float(t.prob)))
    if kind in _WITHOUT_VALUE and t.level_fn is None:
        return operation(kind, p=p)
    argument = _argument(t, t.level_fn)
    fields: dict[str, Any] = {"p": p, "share": 1.0 if function.endswith("_rel") else 0.0}
    mean, std, most = float(t.magnitude), float(t.magnitude_std), float(t.magnitude_max or _LEVELS)
    fixed = argument.at(max(0.0, min(mean, most)))
    if function == "gaussian_blur_rand":
        if std > 0:
            raise NotLowered(f"AugmentOp({t.name}) draws the bounds between which it draws; leave mstd out")
        level = drawn_between(0.1, 2.0 * fixed[0], least=-_ANY, most_value=_ANY)  # pixels
        return operation(kind, level=level, **fields)
    if function == "desaturate":
        fixed, argument = [min(1.0, max(0.0, 1.0 - v)) for v in fixed], _mirrored(argument)
    if std > 0:
        return operation(kind, level=argument.drawn(mean, std, most), signed=argument.signed, **fields)
    return operation(kind, fixed, **fields)


def _mirrored(argument: _Argument) -> _Argument:
    """1 - argument, between 0 and 1."""
    least, most = max(0.0, 1.0 - argument.most), min(1.0, 1.0 - argument.least)
    return replace(argument, scale=-argument.scale, offset=1.0 - argument.offset, least=least, most=most)


def _policy(
    name: str, groups: Sequence[Sequence[Any]], weights: Sequence[float], **fields: Any
) -> dict[str, Any]:
    """`groups`: AugmentOps that follow each other, by `weights`."""
    branches = [branch([_operation(t) for t in group], w) for group, w in zip(groups, weights)]
    every = [(t, op) for group, made in zip(groups, branches) for t, op in zip(group, made["ops"])]
    maps: dict[str, Any] = {}
    for t in (t for t, op in every if op["kind"] in MAPS):
        modes = t.kwargs.get("resample", "bicubic")
        modes = modes if isinstance(modes, (list, tuple)) else [modes]
        own = {
            "interpolations": [map_interpolation(f"AugmentOp({t.name})", mode) for mode in modes],
            "fill": picture_fill(f"AugmentOp({t.name})", t.kwargs.get("fillcolor")),
        }
        if maps and maps != own:
            raise NotLowered(f"{name}'s operations have different interpolations or fills; give all the same")
        maps = own
    return policy(name, branches, geometry="pillow", **maps, **fields)


def _rand_augment(chain: Chain, t: Any, family: str) -> None:
    groups, count, weights = [[op] for op in t.ops], t.num_layers, t.choice_weights
    if not isinstance(count, int) or count < 0 or not groups:
        raise NotLowered(f"RandAugment(num_layers={count!r}) of {len(groups)} operations draws none")
    by_weight = weights is not None
    weights = [float(w) for w in weights] if by_weight else [1.0] * len(groups)
    if by_weight and (
        len(weights) != len(groups)
        or min(weights) < 0
        or not math.isclose(sum(weights), 1.0, abs_tol=1e-8)
        or sum(w > 0 for w in weights) < count
    ):
        raise NotLowered(f"RandAugment's choice_weights are no chances by which numpy can draw {count}")
    if count:
        op = _policy("RandAugment", groups, weights, count=count, replace=not by_weight)
        chain.change_picture(op, "RandAugment")


def _auto_augment(chain: Chain, t: Any, family: str) -> None:
    if not t.policy:
        raise NotLowered("AutoAugment has no policies to draw from")
    op = _policy("AutoAugment", t.policy, [1.0] * len(t.policy))
    chain.change_picture(op, "AutoAugment")


def _augment_op(chain: Chain, t: Any, family: str) -> None:
    chain.change_picture(_policy("AugmentOp", [[t]], [1.0]), "AugmentOp")


def _augmix(chain: Chain, t: Any, family: str) -> None:
    groups, width, depth = [[op] for op in t.ops], t.width, t.depth
    if not groups or type(width) is not int or type(depth) is not int or not 1 <= width <= 64 or depth > 64:
        raise NotLowered(
            f"AugMixAugment(width={width!r}, depth={depth!r}) of {len(groups)} operations has no native form"
        )
    if not 0 < float(t.alpha) < _ANY:
        raise NotLowered(f"AugMixAugment(alpha={t.alpha!r}) is no parameter of a distribution")
    op = {
        "op": "augmix",
        "width": width,
        "depth": depth if depth > 0 else -1,
        "alpha": float(t.alpha),
        "blended": bool(t.blended),
        "policy": _policy("AugMixAugment", groups, [1.0] * len(groups)),
    }
    chain.change_picture(op, "AugMixAugment")


TIMM_POLICIES: dict[str, Rule] = {
    "AugMixAugment": _augmix,
    "RandAugment": _rand_augment,
    "AutoAugment": _auto_augment,
    "AugmentOp": _augment_op,
}
