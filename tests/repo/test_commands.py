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
        "scripts/lock.sh",
        ".ci/run",
    ],
)
def test_scripts_run_and_parse(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", ROOT / script], check=True)


@pytest.mark.parametrize(
    ("red", "landing", "run", "code"),
    [
        ("", "", ["setup", "lint", "sanitize", "test", "test-slow TENTH=7"], 0),
        ("", "1", ["setup", "lint", "sanitize", "test"], 0),
        ("test-slow", "", ["setup", "lint", "sanitize", "test", "test-slow TENTH=7"], 0),
        ("test", "", ["setup", "lint", "sanitize", "test"], 1),
        ("sanitize", "1", ["setup", "lint", "sanitize"], 1),
    ],
)
def test_ci_runs_everything_and_says_what_was_red(
    red: str, landing: str, run: list[str], code: int, tmp_path: Path
) -> None:
    """With a make that notes what it is asked for, and fails for `red`."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/run").write_text((ROOT / ".ci/run").read_text())
    programs = {
        "make": f'echo "$@" >> asked; [ "$1" = "{red}" ] || exit 0; echo "FAILED x.py::test_$1"; exit 2',
        "git": "echo 00006b",  # 107
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LANDING": landing}
    done = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    assert (tmp_path / "asked").read_text().splitlines() == run
    told, table = done.stdout.splitlines()[: -len(run)], done.stdout.splitlines()[-len(run) :]
    assert all(" min " in line for line in table)
    assert [line for line in table if line.endswith("red")] == (table[-1:] if red else [])
    assert not red or told[-1] == f"FAILED x.py::test_{red}"


def test_the_tenths_of_the_slow_tests_are_all_of_them_once() -> None:
    """And none runs pytest without naming files, which would be all tests."""

    def files(*words: str) -> list[str]:
        told = subprocess.run(["make", "-n", "test-slow", *words], cwd=ROOT, capture_output=True, text=True)
        runs = re.findall(r"python -m pytest ([^|]*) \|\|", told.stdout)
        named = [re.findall(r"tests/\w+/test_\w+\.py", run) for run in runs]
        assert all(named), runs
        return sum(named, [])

    whole = files()
    assert len(whole) > 100
    assert sorted(sum((files(f"TENTH={number}") for number in range(10)), [])) == sorted(whole)
