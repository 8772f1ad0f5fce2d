"""What people are told to type exists: the Makefile's help, the README, and the scripts behind them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from repo_tree import ROOT, TOP_PAGES, files, made_pages, name

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^\.PHONY: ([\w-]+)$", MAKEFILE, re.MULTILINE))
DOCUMENTS = [*TOP_PAGES, *files(".md")]


def commands(text: str, word: str) -> set[str]:
    """Words behind `word` in code: fenced blocks and `inline`."""
    code = "\n".join(re.findall(r"```.*?\n(.*?)```", text, re.DOTALL) + re.findall(r"`([^`\n]+)`", text))
    return set(re.findall(rf"\b{word} ([\w./-]+)", code))


@pytest.mark.parametrize("document", DOCUMENTS, ids=[name(p) for p in DOCUMENTS])
def test_make_commands_exist(document: Path) -> None:
    assert commands(document.read_text(), "make") <= TARGETS


@pytest.mark.parametrize("document", DOCUMENTS, ids=[name(p) for p in DOCUMENTS])
def test_named_files_exist(document: Path) -> None:
    text = document.read_text()
    named = {p for p in commands(text, "python") if p.endswith(".py")}
    links = {link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in link}
    there = made_pages()
    missing = [p for p in named if not (ROOT / p).exists()] + [
        p
        for p in links
        if not (document.parent / p).exists() and (document.parent / p).resolve() not in there
    ]
    assert not missing


def test_help_lists_the_targets() -> None:
    shown = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert (
        {"demo", "test", "sanitize", "bench", "clean"}
        <= set(re.findall(r"^make (\w+)", shown, re.MULTILINE))
        <= TARGETS
    )


@pytest.mark.parametrize(
    "script",
    [
        "scripts/setup.sh",
        "scripts/configure.sh",
        "scripts/pillow_versions.sh",
        "scripts/torch_versions.sh",
        ".ci/run",
    ],
)
def test_scripts_run_and_parse(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_ci_runs_the_tests() -> None:
    text = (ROOT / ".ci/run").read_text()
    assert "set -euo pipefail" in text and "make test" in text and "make sanitize" in text
