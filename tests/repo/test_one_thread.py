"""What the thread sanitizer leaves out (ONE_THREAD in tests/cpp) has no thread to look for."""

from __future__ import annotations

import re

from repo_tree import ROOT

STARTS = re.compile(r"std::(j?thread|async)\b|\bpthread_create\b|\bfork\(|reference_threads\.h")


def test_sources_called_one_threaded_start_none() -> None:
    programs = 0
    for listed in ROOT.glob("tests/cpp/*/CMakeLists.txt"):
        for call in re.findall(r"millrace_test\(([^)]*)\)", listed.read_text()):
            found = re.search(r"ONE_THREAD((?:\s+\w+\.cpp)+)", call)
            if not found:
                continue
            programs += 1
            modules = re.search(r"USES((?:\s+\w+)+?)(?:\s+LINKS|$)", call.strip())
            assert modules, f"{listed}: a program without USES"
            sources = [listed.parent / source for source in found[1].split()]
            for module in modules[1].split():
                folder = ROOT / "src" / module
                sources += [path for path in folder.rglob("*") if path.suffix in (".h", ".cpp")]
            for source in sources:
                assert not STARTS.search(source.read_text()), f"{source} starts threads: it is in SOURCES"
    assert programs >= 4
