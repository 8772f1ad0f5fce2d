"""The distribution is millrace-loader: `millrace` on PyPI is another product, so nothing here tells anybody
to install that.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from repo_tree import ROOT

COMMAND = r"\b(?:pip3?|pipx|uv|poetry|conda|mamba)[ \w-]*? (?:install|add|run|download|wheel|inject)\b"
# The bare name as an argument, in quotes or not, with extras and a version or without, behind options and
# other packages. A path or a file's name is none, nor is a word of the sentence around it.
OTHERS = r"(?:[ \t]+[^\s`;|&#()]*[^\s`;|&#().,:])*?[ \t]+"
NAME = r"[\"']*millrace(?:\[[\w, -]*\]|[=<>~!]=?[\w.*]*|@)*[\"']*(?=[\s`.,;:)&|]|$)(?!\.[\w])"
INSTALL = re.compile(COMMAND + OTHERS + NAME, re.IGNORECASE)
REQUIRED = re.compile(r"[\"']millrace(?:\[\w|[=<>~!]=)")  # in a list of requirements, or a message


def stranger(text: str) -> list[str]:
    lines = [line for line in re.sub(r"\\\n", " ", text).splitlines() if "millrace" in line]
    return [
        found.group() for line in lines for pattern in (INSTALL, REQUIRED) for found in pattern.finditer(line)
    ]


def told() -> list[Path]:
    """What git has, but for history and stored results: those say what was."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("no git repository")
    return [
        ROOT / name
        for name in listed.stdout.splitlines()
        if not name.startswith(("benchmarks/results/", "tests/data/"))
        and name not in ("CHANGELOG.md", "tests/repo/test_distribution.py")
    ]


def test_the_project_is_called_so() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert re.findall(r'^name = "(.*?)"', project, re.MULTILINE) == ["millrace-loader"]
    assert 'wheel.packages = ["python/millrace", "python/millrace_tools"]' in project
    assert "millrace-loader" in (ROOT / "SECURITY.md").read_text()


def test_nothing_installs_the_other_product() -> None:
    found = {}
    for path in told():
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        if strangers := stranger(text):
            found[str(path.relative_to(ROOT))] = strangers
    assert not found


def test_extras_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    extras = set(
        re.findall(r"^(\w+) = \[", project.split("[project.optional-dependencies]")[1].split("\n[")[0], re.M)
    )
    page = (ROOT / "docs/quickstart.md").read_text().split("### Extras")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)\|", page, re.M))))
    typed = {name for group in re.findall(r"\[([\w,]+)\]'", page) for name in group.split(",")}
    assert typed <= named <= extras and named


@pytest.mark.parametrize(
    "text",
    [
        "pip install millrace",
        "`pip install 'millrace[stores]'`",
        'pip install "millrace[ray]" pandas pyarrow',
        "python -m pip install -U millrace",
        "pip install torch millrace==0.1",
        "uv pip install millrace>=0.1",
        "uv add millrace",
        "pip install \\\n  millrace",
        "pipx run millrace bench",
        'dependencies = ["millrace[zarr]"]',
    ],
)
def test_it_would_be_seen(text: str) -> None:
    assert stranger(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install .",
        "pip install '.[stores]'",
        "pip install dist/millrace_loader-*.whl",
        "pip install millrace-loader",
        "pip install 'millrace-loader[stores]'",
        "pip install torch. millrace itself does not need torchvision",
        "from millrace import DataLoader",
        "python -m millrace run train.py",
    ],
)
def test_what_is_right_may_be_said(text: str) -> None:
    assert not stranger(text)
