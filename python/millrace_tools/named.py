"""Resolves the words of a command line: objects as `module:name` or `script.py:name`, a dataset or loader of
somebody's code, or files that a dataset can be made of.

A script is loaded as multiprocessing loads it into a spawned process: under the name `__mp_main__`, so that
code under `if __name__ == "__main__":` does not run, and objects defined in it can be pickled.
"""

from __future__ import annotations

import glob
import importlib
import inspect
import os
import re
import runpy
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset

_DOTTED = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_NAMED = re.compile(rf"({_DOTTED}|.*\.py):({_DOTTED})")
_GUARDED = '. Under `if __name__ == "__main__":` nothing runs here: make it at the top, or in a function'


def is_name(text: str) -> bool:
    """Whether `text` has the form module:name or script.py:name, and is no file."""
    return not os.path.exists(text) and _NAMED.fullmatch(text) is not None


def named(text: str, call: bool = True) -> Any:
    """The object named `module:name` or `script.py:name`; or, if it is a function that makes it, its result
    (unless
    `call` is False).
    """
    module, name = divided(text)
    sys.path.insert(0, os.getcwd())
    is_script = module.endswith(".py")
    thing: Any = _script(os.path.abspath(module)) if is_script else importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(thing, part):
            raise ValueError(f"{text}: {module} has no {part!r}{_GUARDED if is_script else ''}")
        thing = getattr(thing, part)
    return called(thing, text) if call else thing


def divided(text: str, what: str = "") -> tuple[str, str]:
    """(module or script, name). ValueError for what has not this form, FileNotFoundError for no script."""
    match = _NAMED.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{what}{text!r}: write module:name or script.py:name, of a dataset, a function that makes one,"
            " or a loader"
        )
    if match[1].endswith(".py") and not os.path.isfile(match[1]):
        raise FileNotFoundError(f"{what}{text}: there is no file {match[1]}")
    return match[1], match[2]


def _script(path: str) -> ModuleType:
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) == path:
        return main
    sys.path.insert(0, os.path.dirname(path))
    module = ModuleType("__mp_main__")
    module.__file__ = path
    # As in multiprocessing.spawn: both names, before anything can be pickled.
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    vars(module).update(runpy.run_path(path, run_name="__mp_main__"))
    return module


def called(thing: Any, text: str) -> Any:
    """`thing`, or what it makes, if it is a class or a function."""
    is_data = not callable(thing) or hasattr(thing, "__getitem__") or hasattr(thing, "__iter__")
    if is_data and not isinstance(thing, type):
        return thing
    try:
        inspect.signature(thing).bind()
    except TypeError as error:
        raise ValueError(
            f"{text} is called without arguments, but: {error}; name a function that needs none"
        ) from None
    except ValueError:  # written in C: it has no signature
        pass
    return thing()


_SHARDS = re.compile(r"\.tar(\.gz|\.zst)?$")


def batches_of(
    text: str, batch_size: int, workers: Any, picture_size: int, ragged: bool
) -> tuple[Iterable[Any], Any, str]:
    """(batches, how many samples there are or None, what it is). ValueError and FileNotFoundError say what
    can be given.
    """
    thing, what = found(text, picture_size)
    indexed = hasattr(thing, "__getitem__") and hasattr(thing, "__len__")
    if not indexed and not isinstance(thing, Dataset):
        return thing, length(getattr(thing, "dataset", None)), what
    from millrace.dataloader import DataLoader

    collate = list if ragged or what == "shards" else None
    if isinstance(thing, IterableDataset):
        return DataLoader(thing, batch_size, collate_fn=collate), None, what
    # In a drawn order, so that the parts of sorted data do not look like drift to each other.
    drawn = torch.Generator().manual_seed(0)
    loader = DataLoader(thing, batch_size, True, num_workers=workers, collate_fn=collate, generator=drawn)
    return loader, length(thing), what


def found(text: str, picture_size: int) -> tuple[Any, str]:
    """A dataset or loader, and "object", "pictures", "shards" or "tables"."""
    if is_name(text):
        thing = named(text)
        if not hasattr(thing, "__getitem__") and not hasattr(thing, "__iter__"):
            raise ValueError(f"{text} is a {type(thing).__name__}, neither a dataset nor a loader")
        return thing, "object"
    from millrace import datasets, transforms
    from millrace.datasets.webdataset.urls import expand_urls

    is_folder = os.path.isdir(text)
    files = sorted(glob.glob(os.path.join(glob.escape(text), "*"))) if is_folder else expand_urls(text)
    if shards := [name for name in files if _SHARDS.search(name)]:
        return datasets.WebDataset(shards).decode("torchrgb8").to_dict(), "shards"
    if tables := [name for name in files if name.endswith(".parquet")]:
        return datasets.Parquet(tables), "tables"
    if is_folder and any(map(os.path.isdir, files)):
        steps = [
            transforms.Resize(picture_size * 8 // 7),
            transforms.CenterCrop(picture_size),
            transforms.PILToTensor(),
        ]
        return datasets.ImageFolder(text, transforms.Compose(steps)), "pictures"
    if not os.path.exists(text) and "://" not in text:
        raise FileNotFoundError(
            f"{text}: there is no such file or folder; a dataset of your code is module:name or"
            " script.py:name"
        )
    raise ValueError(
        f"{text}: neither class folders of pictures, nor tar shards, nor Parquet files; name a dataset as"
        " module:name or script.py:name"
    )


def length(dataset: Any) -> int | None:
    """Samples of a dataset; None: it does not say."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError, AttributeError):
        return None
