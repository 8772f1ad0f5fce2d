"""RandomApply, RandomChoice and RandomOrder: where they hold operations that the engine draws, as branches of
one augmentation policy; all others as a choice among lists of steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from .chain import Chain, Rule, step_name
from .policies import MAPS, branch, drawn_between, operation, policy
from .recognising import NotLowered

_MOST_BRANCHES = 128  # several steps with branches each multiply
_JITTERED = ("brightness", "contrast", "saturation")
_FIELDS = ("interpolations", "fill", "geometry")  # of a policy, for all its maps
_MOST_IN_ANY_ORDER = 4  # which makes 24 lists of steps


class _NoBranches(Exception):
    """An op cannot be a branch of a policy."""


class _Branches:
    """What some transforms come to as branches, and how the maps among them are done."""

    def __init__(self) -> None:
        self.maps: dict[str, Any] = {}

    def of(self, ops: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """`ops`, one after the other. Weights sum to 1."""
        made = [branch([])]
        for op in ops:
            made = [
                branch([*a["ops"], *b["ops"]], a["weight"] * b["weight"])
                for a, b in itertools.product(made, self._of_one(op))
            ]
            if len(made) > _MOST_BRANCHES:
                raise _NoBranches
        return made

    def _of_one(self, op: dict[str, Any]) -> list[dict[str, Any]]:
        match op["op"]:
            case "augment_policy":
                return self._of_policy(op)
            case "color_jitter":
                return _of_jitter(op)
            case "grayscale":
                return [branch([operation("saturation")])]
            case "random_grayscale":
                return [branch([operation("saturation", p=op["p"])])]
            case "random_rotation" if op["center"] is None:
                maps = {"interpolations": [op["interpolation"]], "fill": op["fill"]}
                self._same_maps(maps | {"geometry": "torchvision"})
                return [branch([_between("rotate", *op["degrees"])])]
        raise _NoBranches

    def _of_policy(self, op: dict[str, Any]) -> list[dict[str, Any]]:
        branches = op["branches"]
        if op["count"] > 1 and not (len(branches) == 1 and op["replace"]):
            raise _NoBranches
        if any(step["kind"] in MAPS for made in branches for step in made["ops"]):
            self._same_maps({field: op[field] for field in _FIELDS})
        total = sum(made["weight"] for made in branches)
        all_of_it = [branch(made["ops"] * op["count"], made["weight"] / total) for made in branches]
        return _by_chance(all_of_it, op.get("p", 1.0))

    def _same_maps(self, maps: dict[str, Any]) -> None:
        if self.maps and self.maps != maps:
            raise _NoBranches
        self.maps = maps


def _of_jitter(op: dict[str, Any]) -> list[dict[str, Any]]:
    """Each order of the properties is a branch."""
    if op["hue"] is not None:
        raise _NoBranches
    steps = [_between(name, *op[name]) for name in _JITTERED if op[name] is not None]
    orders = list(itertools.permutations(steps))
    return _by_chance([branch(list(order), 1 / len(orders)) for order in orders], op["p"])


def _between(kind: str, low: float, high: float) -> dict[str, Any]:
    """With a value that is drawn uniformly between two bounds."""
    if low == high:
        return operation(kind, [low])
    if low > high:
        raise _NoBranches
    low, high = float(low), float(high)
    return operation(kind, level=drawn_between(low, high, least=low, most_value=high))


def _by_chance(branches: list[dict[str, Any]], p: float) -> list[dict[str, Any]]:
    """One of `branches` with probability `p`, else nothing."""
    if p == 1.0:
        return branches
    if len(branches) == 1 and len(branches[0]["ops"]) == 1:
        (op,) = branches[0]["ops"]
        return [branch([op | {"p": op["p"] * p}])]
    return [*(branch(made["ops"], made["weight"] * p) for made in branches), branch([], 1.0 - p)]


def _added_as_policy(
    chain: Chain, name: str, branches: Callable[[_Branches], list[dict[str, Any]]], **fields: Any
) -> bool:
    """Whether `branches`, all that happens by chance, are a policy, which `chain` then has."""
    found = _Branches()
    try:
        made = branches(found)
    except _NoBranches:
        return False
    chain.change_picture(policy(name, made, **fields, **found.maps), name)
    return True


def _random_apply(chain: Chain, t: Any, family: str) -> None:
    p = float(t.p)
    parts = chain.parts(list(t.transforms))
    ops = [op for part in parts for op in part]
    if len(ops) == 1:  # the probability is a factor of the step's own
        op = dict(ops[0])
        if op["op"] == "grayscale":
            op |= {"op": "random_grayscale", "p": 1.0}
        if "p" in op or op["op"] == "augment_policy" and op["count"] > 1:
            chain.change(op | {"p": op.get("p", 1.0) * p})
            return
    if ops and not _added_as_policy(chain, "RandomApply", lambda found: _by_chance(found.of(ops), p)):
        chain.change(_choice([p, 1.0 - p], [ops, []]))


def _random_choice(chain: Chain, t: Any, family: str) -> None:
    parts = chain.parts(t.transforms)
    weights = [1.0] * len(parts) if t.p is None else [float(p) for p in t.p]
    if len(weights) != len(parts) or not parts or min(weights) < 0 or not 0 < sum(weights) < float("inf"):
        raise NotLowered(f"RandomChoice(p={t.p!r}) are no chances of its {len(parts)} transforms")

    def weighted(found: _Branches) -> list[dict[str, Any]]:
        each = [(made, weight) for part, weight in zip(parts, weights) for made in found.of(part)]
        return [branch(made["ops"], made["weight"] * weight) for made, weight in each]

    if not _added_as_policy(chain, "RandomChoice", weighted):
        chain.change(_choice(weights, parts))


def _random_order(chain: Chain, t: Any, family: str) -> None:
    """All branches are drawn, none twice, which is an order of them."""
    parts = chain.parts(t.transforms)

    def one_each(found: _Branches) -> list[dict[str, Any]]:
        each = [found.of(part) for part in parts]
        if any(len(made) != 1 for made in each):
            raise _NoBranches
        return [made[0] for made in each]

    if not parts or _added_as_policy(chain, "RandomOrder", one_each, count=len(parts), replace=False):
        return
    if len(parts) > _MOST_IN_ANY_ORDER:
        names = ", ".join(map(step_name, t.transforms))
        raise NotLowered(
            f"RandomOrder of [{names}] has no native form; the engine knows it around"
            f" {_MOST_IN_ANY_ORDER} transforms, and around any number of operations of a policy,"
            " ColorJitter without hue, Grayscale(3) and RandomRotation about the middle"
        )
    orders = [list(itertools.chain(*order)) for order in itertools.permutations(parts)]
    chain.change(_choice([1.0] * len(orders), orders))


def _choice(weights: Sequence[float], lists: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    return {"op": "random_choice", "weights": list(weights), "branches": [list(ops) for ops in lists]}


HOLDERS_BY_CHANCE: dict[str, Rule] = {
    "RandomApply": _random_apply,
    "RandomChoice": _random_choice,
    "RandomOrder": _random_order,
}
