"""What a stack is taken for: the stage, and the line of the user's code."""

from __future__ import annotations

import functools
import io
import pickle
import sys
import zlib

import numpy as np
import pytest
import torch
from millrace._profiling import hotspots
from millrace._profiling.hotspots import instructions
from millrace._profiling.known_code import codes_of_transforms
from torch.utils.data import ConcatDataset, Dataset, Subset

pytestmark = pytest.mark.slow


def hotspot_of_call(function, dataset=None):
    """What the last call in `function`, without arguments, is taken for."""
    code = function.__code__
    offset = [i.offset for i in instructions(code) if i.opname.startswith("CALL")][-1]
    return hotspots.Hotspots(dataset, frozenset()).of(((code, offset),))


def reads(file):
    file.read(10)


def opens(path):
    open(path)


def inflates(data):
    return zlib.decompress(data)


def unpickles(data):
    return pickle.loads(data)


def loads_array(data):
    return np.load(io.BytesIO(data))


def flips(self, image):
    return self.transform(image)


def resizes(cv2, image):
    return cv2.resize(image, (3, 3))


def reads_image(cv2, path):
    return cv2.imread(path)


def asks_store(client):
    return client.get_object(Bucket="b", Key="k")


def sorts(values):
    return sorted(values)


@pytest.mark.parametrize(
    "function, stage",
    [
        (reads, "fetch"),
        (opens, "fetch"),
        (inflates, "decode"),
        (unpickles, "decode"),
        (loads_array, "decode"),
        (flips, "transform"),
        (resizes, "transform"),
        (reads_image, "decode"),
        (asks_store, "fetch"),
        (sorts, "sample"),
    ],
)
def test_stage_of_a_call_in_c(function, stage):
    hotspot = hotspot_of_call(function)
    assert hotspot.stage == stage
    assert hotspot.where.startswith(f"test_hotspots.{function.__name__} (test_hotspots.py:")


def test_a_call_over_several_lines_has_its_name():
    def function(store):
        return (
            store
            .bucket("a")
            .get_object(
                "b",
            )
        )  # fmt: skip

    assert hotspot_of_call(function).stage == "fetch"


class Doubled:
    def __call__(self, value):
        return self.twice(value)

    def twice(self, value):
        return 2 * value


class Module(torch.nn.Module):
    def forward(self, value):
        return value


class Holder(Dataset):
    def __init__(self, transform=None, inner=None):
        self.transform = transform
        if inner is not None:
            self.dataset = inner

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index


def plain(value):
    return value


@pytest.mark.parametrize("transform, code", [
    (plain, plain.__code__),
    (functools.partial(plain), plain.__code__),
    (Doubled(), Doubled.twice.__code__),
    (Doubled().twice, Doubled.twice.__code__),
    (Module(), Module.forward.__code__),
    (torch.nn.Sequential(Module()), Module.forward.__code__),
    ([plain], plain.__code__),
    ({"a": plain}, plain.__code__),
], ids=lambda value: value.co_name if hasattr(value, "co_name") else type(value).__name__)  # fmt: skip
@pytest.mark.parametrize(
    "wrap",
    [
        lambda d: d,
        lambda d: Subset(d, [0]),
        lambda d: ConcatDataset([d]),
        lambda d: Holder(inner=Subset(d, [0])),
    ],
)
def test_transforms_are_found(transform, code, wrap):
    assert code in set(codes_of_transforms(wrap(Holder(transform))))


def closing_over(function):
    if function is None:
        empty = function
        del empty

    def transform(value):
        return function(value), empty

    return transform


def test_functions_in_closures_are_found_and_empty_cells_are_none():
    wrapped = closing_over(plain)
    assert set(codes_of_transforms(Holder(wrapped))) == {wrapped.__code__, plain.__code__}
    assert set(codes_of_transforms(Holder(closing_over(None)))) == {wrapped.__code__}


def test_looking_for_transforms_asks_the_dataset_nothing():
    class Odd(Dataset):
        def __getattr__(self, name):
            raise RuntimeError(f"{name} was asked for")

    odd = Odd()
    odd.transform = plain
    odd.dataset = odd  # a circle
    assert set(codes_of_transforms(odd)) == {plain.__code__}


def test_the_time_before_a_functions_first_instruction_is_its_callers():
    code = plain.__code__
    entry = (
        next(i.offset for i in instructions(code) if i.opname == "RESUME")
        if sys.version_info >= (3, 11)
        else 0
    )
    known = hotspots.Hotspots(Holder(), frozenset())
    stack = ((code, entry), (flips.__code__, 0))
    assert known.of(stack).stage == "sample"
    assert known.of(stack, blocked=True).stage == "fetch"


def test_a_line_is_named_by_its_module_also_inside_a_package():
    assert hotspots.module_of(hotspots.__file__) == "millrace._profiling.hotspots"
    package = hotspots.__file__.replace("hotspots.py", "__init__.py")
    assert hotspots.module_of(package) == "millrace._profiling"
    assert hotspots.module_of("/nowhere/mine.py") == "mine"
