"""Errors of the C++ library are read by C++ programs, too: no remedy is written as only Python writes it."""

from __future__ import annotations

import re

import pytest
from repo_tree import files, lines, name

PYTHON = re.compile(
    r"\b(num_workers|prefetch_factor|collate_fn)\b|=(True|False)\b|\bnumpy\.|\.reshape\(|\bimport \w|\bpip "
)
#: What programs in C++ do not reach, or what is written of Python's states and files.
OF_PYTHON = {
    "src/core/memory_budget.cpp",
    "src/core/shared_ring.cpp",
    "src/loader/device_loader.cpp",
    "src/loader/engine.cpp",
    "src/api/saved_state.cpp",
}
MODULES = "api base core codecs collate io json loader ordered samplers sequences sources transforms".split()


@pytest.mark.parametrize("module", MODULES)
def test_remedies_are_no_python(module: str) -> None:
    found = [
        f"{name(path)}:{number}: {text}"
        for path in files(".cpp", ".h", under=(f"src/{module}",))
        if name(path) not in OF_PYTHON
        for number, line in enumerate(lines(path), 1)
        if not line.lstrip().startswith(("//", "#include"))
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line)
        if PYTHON.search(text)
    ]
    assert not found
