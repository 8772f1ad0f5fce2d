"""What the tests of augmentation policies share: the ops expected, and subclasses with their own tables."""

import pytest
import torch
from millrace import _core
from millrace._common.lowering.policies import least_bits
from test_lowering_transforms import compose, family

SHARE = 150 / 331  # of a side: torchvision's largest translation


def step(kind, *values, **fields):
    op = {"kind": kind, "p": 1.0, "signed": False, "whole": False, "share": 0.0, "bins": 0, "base": 0.0}
    op["values"] = [pytest.approx(v, abs=1e-5) for v in values or [0.0]]
    return op | ({"least_bits": least_bits()} if kind == "posterize" else {}) | fields


def drawn(kind, low, high, **fields):
    """A value between two bounds."""
    level = {"mean": 1.0, "std": 0.0, "uniform": True, "most": 1.0, "offset": low}
    level |= {"scale": pytest.approx(high - low), "truncated": False, "least": low, "most_value": high}
    op = step(kind) | {"level": level} | fields
    return {name: value for name, value in op.items() if name != "values"}


def branches(*groups, weights=None):
    weights = weights or [1.0] * len(groups)
    return [{"weight": pytest.approx(w), "ops": list(ops)} for w, ops in zip(weights, groups)]


def policy_of(t, *transforms):
    """The only op before the conversion. The engine takes the chain."""
    chain = compose(t, *transforms, t.PILToTensor())
    _core.ImagePipeline(chain)
    op, _ = chain
    assert op["op"] == "augment_policy"
    return op


def subclass(t, base, table, **methods):
    """`table`: magnitudes of (bins, height, width) by name."""
    if t is family("v1"):
        sized = base != "TrivialAugmentWide"

        def space(self, bins, size=(1, 1)):
            made = {name: make(bins, *size) for name, make in table.items()}
            return {name: (torch.tensor(0.0) if m is None else m, True) for name, m in made.items()}

        methods["_augmentation_space"] = space if sized else lambda self, bins: space(self, bins)
    else:
        methods["_AUGMENTATION_SPACE"] = {name: (make, True) for name, make in table.items()}
    return type("Mine", (getattr(t, base),), methods)
