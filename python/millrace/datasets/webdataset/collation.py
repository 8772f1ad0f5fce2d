"""How batched() makes a batch of samples: webdataset's rule, which is not torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def default_collation_fn(
    samples: list[Any], combine_tensors: bool = True, combine_scalars: bool = True
) -> Any:
    """A batch of samples: a tuple of columns for tuples and lists, a dict of them for dicts.

    Numbers become a numpy array, arrays of one shape one array, tensors of one shape one tensor; anything
    else a list.

    Raises:
        ValueError: if a sample has other fields than the first one, or if arrays have different shapes.
    """
    first = samples[0]
    if isinstance(first, dict):
        for sample in samples[1:]:
            if sample.keys() != first.keys():
                raise ValueError(
                    f"the samples of a batch have different fields, {sorted(map(str, first))} and"
                    f" {sorted(map(str, sample))}: choose some with to_tuple(), or use listed()"
                )
        return {
            name: _column(name, [sample[name] for sample in samples], combine_tensors, combine_scalars)
            for name in first
        }
    for sample in samples[1:]:
        if len(sample) != len(first):
            raise ValueError(
                f"the samples of a batch have {len(first)} and {len(sample)} fields; use listed(), or make"
                " them alike"
            )
    return tuple(
        _column(number, [sample[number] for sample in samples], combine_tensors, combine_scalars)
        for number in range(len(first))
    )


def _column(name: object, values: list[Any], combine_tensors: bool, combine_scalars: bool) -> Any:
    first = values[0]
    if isinstance(first, (int, float)):
        return np.array(values) if combine_scalars else values
    if isinstance(first, (torch.Tensor, np.ndarray)) and combine_tensors:
        shapes = sorted({tuple(value.shape) for value in values})
        if len(shapes) > 1:
            raise ValueError(
                f"field {name!r} has different shapes in one batch, {shapes[:4]}: make them alike, or use"
                " listed()"
            )
        return torch.stack(values) if isinstance(first, torch.Tensor) else np.array(values)
    return values
