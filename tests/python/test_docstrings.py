"""Every public name of millrace says what its arguments are: in its docstring, in that of a class it derives
from, or in one that its docstring names.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import api_pages
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


#: webdataset's own names, which its package describes; the arithmetic of transforms, as torchvision's.
ELSEWHERE = {"millrace.datasets.webdataset", "millrace.transforms.functional"}
OF_TORCH = set(inspect.signature(torch.utils.data.DataLoader.__init__).parameters)
NAMES = [
    (package, name)
    for package in api_pages.PACKAGES.values()
    if package not in ELSEWHERE
    for name in api_pages.public_names(package)
]


def docs_of(value: Any, package: str) -> str:
    """What describes `value`: its docstring, its bases', those of public names in backticks in these."""
    owners = value.__mro__ if inspect.isclass(value) else [value]
    own = [each for each in owners if (each.__module__ or "").startswith("millrace")]
    texts = [each.__doc__ or "" for each in own]
    texts += [each.__init__.__doc__ or "" for each in own if inspect.isclass(each)]
    for named in re.findall(r"`(\w+)", " ".join(texts)):
        for other in (package, "millrace", "millrace.datasets"):
            texts.append(getattr(getattr(importlib.import_module(other), named, None), "__doc__", None) or "")
    return "\n".join(texts)


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[f"{package}.{name}" for package, name in NAMES])
def test_arguments_are_described(package: str, name: str) -> None:
    value = getattr(importlib.import_module(package), name)
    module = getattr(value, "__module__", None) or ""
    if not callable(value) or not module.startswith("millrace") or type(value).__name__ == "EnumType":
        return  # torch's own, constants, and what the compiled module's stub describes
    assert inspect.getdoc(value), "no docstring"
    text = docs_of(value, package)
    missing = [
        each for each in api_pages.parameters_of(value) if not re.search(rf"\b{re.escape(each)}\b", text)
    ]
    if name == "DataLoader":
        missing = [each for each in missing if each not in OF_TORCH]  # they mean what they mean there
    if isinstance(value, type) and value.__init__ is torch.nn.Module.__init__:
        missing = [each for each in missing if each not in ("args", "kwargs")]  # it takes none
    assert not missing


def test_the_compiled_functions_are_described() -> None:
    pages = api_pages.pages()["api/millrace.md"]
    for name in ("cpu_budget", "empty_cache", "nvtx"):
        section = pages.partition(f"{{ #millrace.{name} }}")[2].partition("\n## ")[0]
        assert "```python" in section and len(section) > 80
