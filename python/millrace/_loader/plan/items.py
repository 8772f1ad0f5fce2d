"""Python datasets with a __getitem__ that tells the files of the pictures and the steps applied to them
(_common/lowering/read_items.py): the engine makes the pictures, Python the other values.
"""

from __future__ import annotations

import warnings
from dataclasses import fields
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np
import torch

from ..._common.lowering.item_parts import Item
from ..._common.lowering.recognising import NotLowered
from ..._common.lowering.transforms import Lowered, lowered_lines
from ..._common.states import is_stateful
from ..._common.torch_private import _DatasetKind
from ..engines.item_form import ItemCollate, ItemForm
from ..engines.items import Group, ItemSpec
from ..engines.python_collate import PythonCollate
from .collates import recognise_any_collate, takes_samples
from .item_prefix import KnownItems, item_of, known_items
from .items_check import UNKNOWN, difference, part_difference
from .pictures import unwrapped
from .plan import Recogniser, root_of
from .stages import Stages


def recogniser_of_items(loader: Any) -> Items | None:
    """Return ITEMS if the code of the loader's dataset could be read; else None."""
    root = root_of(loader.dataset)
    if loader.on_error != "raise" or loader.remote is not None or not loader._auto_collation:
        return None
    if loader._dataset_kind != _DatasetKind.Map:
        return None
    is_function = isinstance(getattr(type(root), "__getitem__", None), FunctionType)
    return ITEMS if is_function and hasattr(type(root), "__len__") and not is_stateful(root) else None


class Items(Recogniser):
    def spec(self, loader: Any, stages: Stages) -> ItemSpec | None:
        index_maps, root = unwrapped(loader.dataset)
        item: Item | None = stages.ask("dataset", lambda: (_counted(root), item_of(root)))
        if item is None:
            stages.ask_the_others(loader)
            return None
        found: tuple[list[Lowered], list[Group]] | None = stages.ask(
            "transform", lambda: _transforms(loader, item)
        )
        stages.ask_sampler(loader)
        collate = stages.ask_collate(lambda: _collate(loader, item.form))
        stages.ask_worker_init(loader)
        if stages.refusing() or found is None:
            return None
        made, groups = found
        at = {file: number for number, group in enumerate(groups) for file in group.files}
        rows = [made[picture.parts[0][0]].row_type or torch.Tensor for picture in item.pictures]
        given = collate or PythonCollate(None, True, False, False, torch.Tensor)
        parts = {field.name: getattr(given, field.name) for field in fields(PythonCollate)}
        spec = ItemSpec(
            groups=tuple(groups),
            pictures=tuple((at[picture.parts[0][0]], picture.parts) for picture in item.pictures),
            kinds=tuple(file.kind for file in item.files),
            index_maps=index_maps,
            python_collate=ItemCollate(**{**parts, "form": ItemForm(item.form, tuple(rows))}),
            values=item.values,
            item_count=len(root),
            fetch=partial(_fetched, root),
            told=item.told({}),
        )
        where = difference(spec, root, len(loader.dataset), any(part.is_random for part in made))
        return None if _differs(root, where, stages) else spec

    def part_of(self, loader: Any, stages: Stages) -> KnownItems | None:
        if "dataset" in stages.refusing():
            return None
        root, known = root_of(loader.dataset), known_items(loader.dataset)
        return None if _differs(root, part_difference(known, root, len(loader.dataset)), stages) else known


def _differs(root: Any, where: str, stages: Stages) -> bool:
    """Whether samples differ from the dataset's (`where`: at which sample); explain() gives the reason."""
    if where:
        said = f"{type(root).__name__} runs in Python: {where}"
        if where != UNKNOWN:
            said = f"{type(root).__name__} runs in Python: its __getitem__ was not read rightly ({where})"
            warnings.warn(f'{said}. Please report it; pictures="lazy" leaves it unread', stacklevel=2)
        stages.answers["dataset"] = False, said
    return bool(where)


def _counted(root: Any) -> str:
    name = f"{type(root).__name__} of {len(root)} samples, whose __getitem__ is read"
    return f"{name}: pictures natively, other values in Python"


def _transforms(loader: Any, item: Item) -> tuple[str, tuple[list[Lowered], list[Group]]]:
    """Return (words for explain(), (steps of each file's picture, groups of files that are made alike))."""
    function: Any = type(root_of(loader.dataset)).__getitem__
    made = [lowered_lines(function, file.views, file.stacked) for file in item.files]
    if any(len(picture.parts) > 1 and picture.parts[0][1] for picture in item.pictures):
        raise NotLowered("views of several files are stacked")
    names = dict.fromkeys(", ".join(part.names) for part in made)
    files = f"{len(made)} pictures of a sample: " if len(made) > 1 else ""
    return files + "; ".join(names), (made, _groups(loader, item, made))


def _collate(loader: Any, form: Any) -> tuple[str, PythonCollate | None]:
    container: type = dict if type(form) is dict else tuple
    said, collate = recognise_any_collate(loader.collate_fn, torch.Tensor, None, container)
    return said, collate


def _groups(loader: Any, item: Item, made: list[Lowered]) -> list[Group]:
    any_sizes = partial(takes_samples, loader.collate_fn)
    stacks = {picture.parts[0][0]: picture for picture in item.pictures if picture.stacked}
    in_stack = {file for picture in stacks.values() for file, _ in picture.parts}
    kinds: dict[Any, list[int]] = {}
    for number, (file, part) in enumerate(zip(item.files, made)):
        if part.row_type is None or part.row_type is np.ndarray:
            raise NotLowered("samples have pictures of no certain type")
        if number not in in_stack:
            kinds.setdefault(repr((part.chains, file.modes, part.views)), []).append(number)
    groups = [(numbers, False) for numbers in kinds.values()]
    for picture in stacks.values():
        numbers = [file for file, _ in picture.parts]
        if any(made[number].chains != made[numbers[0]].chains for number in numbers):
            raise NotLowered("pictures that are stacked have different transforms")
        groups.append((numbers, True))
    return [
        Group(
            tuple(numbers),
            tuple(made[numbers[0]].pipelines(made[numbers[0]].chains, any_sizes)),
            _modes(item, made, numbers),
            stacked,
            item.files[numbers[0]].stacked,
        )
        for numbers, stacked in groups
    ]


def _modes(item: Item, made: list[Lowered], numbers: list[int]) -> str:
    modes = {item.files[number].modes for number in numbers}
    if len(modes) > 1:
        raise NotLowered("pictures that are stacked are opened in different ways")
    return "any" if modes == {"rgb"} and made[numbers[0]].begins_with_rgb else modes.pop()


def _fetched(dataset: Any, indices: Any) -> list[Any]:
    return [dataset[index] for index in indices]


ITEMS = Items()
