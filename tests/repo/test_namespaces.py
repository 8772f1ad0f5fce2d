"""Each module of src/ has a namespace of its own, and no name stands for two classes.

Two classes of one name in one library are undefined behaviour: the linker keeps one of their inline
functions, and the wrong destructor runs.
`make sanitize-python` links everything once with -flto -Wodr, which finds what this test cannot see.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from layers import LAYERS
from repo_tree import files, name

CODE = (".h", ".cpp", ".cu", ".cuh", ".inl")
# What only CUDA can do is declared in the module that needs it, and defined in src/cuda and src/nocuda.
SEAMS = {"src/trace/nvtx.h", "src/device/host_pages.h", "src/device/kernel_launch.h"}
# In this order: what may hide a brace or a keyword, then what counts.
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^['
    r" \t]*\#(?:[^\n\\]|\\.|\\\n)*"
    r"|(?P<namespace>\bnamespace\b(?P<path>[\w:\s]*)\{)"
    r"|(?P<type>\b(?:class|struct|union|enum(?:\s+class)?)\s+(?:alignas\([^)]*\)\s*|MILLRACE_\w+\s+)?(?P<typename>\w+(?:::\w+)*)"
    r"(?P<arguments><[^;{}]*>)?(?:\s+final)?\s*(?::[^:;{()][^;{()]*)?\{)"
    r"|(?P<open>\{)|(?P<close>\})|(?P<end>;)",
    re.DOTALL | re.MULTILINE,
)


def scopes_of(path: Path) -> tuple[set[str], list[str]]:
    """The named namespaces that a file opens, and the qualified classes it defines outside unnamed ones."""
    namespaces, classes, stack = set(), [], []
    for found in TOKEN.finditer(path.read_text(encoding="utf-8")):
        if found["namespace"]:
            stack.append(re.sub(r"\s", "", found["path"]) or "(unnamed)")
            if "(unnamed)" not in stack and "{" not in stack:
                namespaces.add("::".join(stack))
        elif found["type"]:
            if "(unnamed)" not in stack and "{" not in stack:
                classes.append("::".join([*stack, found["typename"]]) + (found["arguments"] or ""))
            stack.append("{")
        elif found["open"]:
            stack.append("{")
        elif found["close"]:
            stack.pop()
    assert not stack, f"{name(path)}: braces that this test cannot follow"
    return namespaces, classes


@pytest.mark.parametrize("module", sorted(LAYERS))
def test_a_module_keeps_to_its_namespace(module: str) -> None:
    wrong = []
    for path in files(*CODE, under=(f"src/{module}",)):
        allowed = {"cuda", "device"} if module in ("cuda", "nocuda") else {module}
        allowed |= {"cuda"} if name(path) in SEAMS else set()
        for namespace in scopes_of(path)[0]:
            parts = namespace.split("::")
            # What include/ declares lies in millrace itself, and src/api defines it.
            if module == "api" and parts == ["millrace"]:
                continue
            if parts[0] == "millrace" and (len(parts) < 2 or parts[1] not in allowed):
                wrong.append(f"{name(path)}: namespace {namespace}")
    assert not wrong, f"names of src/{module} belong in namespace millrace::{module}"


def test_no_name_stands_for_two_classes() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in files(*CODE, under=("src", "include", "python/bindings")):
        for defined in scopes_of(path)[1]:
            places[defined].append(name(path))
    twice = {defined: where for defined, where in places.items() if len(where) > 1}
    assert not twice, "rename one, or put what one file needs into an unnamed namespace"


def test_what_this_test_sees(tmp_path: Path) -> None:
    path = tmp_path / "x.h"
    path.write_text(
        "// namespace no {\nnamespace millrace::a {\nnamespace { struct Own { int x; }; }\nenum class E : int"
        ' { one };\nclass B final : public C<int> {\n  struct D {};\n  void f() { auto s = "}"; }\n};\nclass'
        " F;\nclass MILLRACE_API G {};\ntemplate <>\nstruct H<int> {};\n}\n"
    )
    assert scopes_of(path) == (
        {"millrace::a"},
        ["millrace::a::E", "millrace::a::B", "millrace::a::G", "millrace::a::H<int>"],
    )
