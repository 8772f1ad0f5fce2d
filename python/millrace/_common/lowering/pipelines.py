"""Chains as the engine has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from .refusal import NotLowered


def pipelines_of(chains: Sequence[list[dict[str, Any]]]) -> list[_core.ImagePipeline]:
    """One for each view. NotLowered where an op has arguments that the engine refuses, which torchvision
    then refuses in its own words, and where one of several views has no fixed size.
    """
    try:
        pipelines = [_core.ImagePipeline(chain) for chain in chains]
    except ValueError as error:
        raise NotLowered(str(error)) from None
    if len(pipelines) > 1 and any(pipeline.fixed_shape is None for pipeline in pipelines):
        raise NotLowered(
            "one of several views has the size of its picture; end it with a crop or a resize to a fixed size"
        )
    return pipelines
