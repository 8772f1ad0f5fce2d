"""Datasets of Python whose __getitem__ says which file a picture is in, and what is done to it
(_common/lowering/read_items.py): the engine makes the pictures, Python the other values.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from ... import _core
from ..._common.lowering.read_items import read_item
from ..._common.lowering.read_values import NotRead, Steps
from ..._common.lowering.recognising import NotLowered
from ..._common.states import is_stateful
from ..engines.items import ItemCollate, ItemSpec, SampleForm
from ..engines.native import Files, ImageSpec
from .pictures import Pictures, recognise_source
from .plan import root_of
from .source import Source
from .stages import Stages


def recogniser_of_items(loader: Any) -> Items | None:
    """None where the loader's dataset is none whose code could be read."""
    root = root_of(loader.dataset)
    if loader.on_error != "raise" or loader.remote is not None or not loader._auto_collation:
        return None
    is_function = isinstance(getattr(type(root), "__getitem__", None), FunctionType)
    return ITEMS if is_function and hasattr(type(root), "__len__") and not is_stateful(root) else None


def _source(root: Any) -> Source:
    cls, own = type(root), ("__getitems__", "__getattr__")  # with these, samples are another affair
    try:
        if any(hasattr(cls, name) for name in own):
            raise NotRead
        item = read_item(root)
    except NotRead as reason:
        part = reason.place or "its __getitem__, whose source is not there, or which is no plain function"
        raise NotLowered(f"{cls.__name__} is Python code, and not read is {part}") from None
    getitem: FunctionType = cls.__getitem__
    return Source(
        cls.__name__,
        Steps(getitem, item.steps),
        partial(Files, _core.StreamSamples(), np.empty(0, np.int64), targets=list),
        any_mode=True,
        form=SampleForm(item.form),
    )


class Items(Pictures):
    def source_of(self, dataset: Any) -> Source:
        return recognise_source(dataset, _source)

    def spec(self, loader: Any, stages: Stages) -> ImageSpec | None:
        made = super().spec(loader, stages)
        if made is None:
            return None
        root = root_of(loader.dataset)
        told = (
            f"{type(root).__name__} of {len(root)} samples, whose __getitem__ is read: files natively, other"
        )
        stages.answers["dataset"] = True, f"{told} values in Python"
        parts = {field.name: getattr(made, field.name) for field in fields(ImageSpec)}
        collate = {field.name: getattr(made.python_collate, field.name) for field in fields(ItemCollate)}
        return ItemSpec(
            **{**parts, "python_collate": ItemCollate(**collate)},
            values=read_item(root).values,
            item_count=len(root),
            fetch=partial(_fetched, root),
        )

    def part(self, dataset: Any, refusing: list[str]) -> None:
        return None


def _fetched(dataset: Any, indices: Any) -> list[Any]:
    return [dataset[index] for index in indices]


ITEMS = Items(_source, joined=False)
