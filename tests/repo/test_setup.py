"""What scripts/setup.sh does without a network: the command it leaves, and which torchvision it asks pip for.
And the versions of packages, which tests/requirements.lock has.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from repo_tree import ROOT

SETUP = (ROOT / "scripts/setup.sh").read_text()

#: Around the function of setup.sh: a pip that says what it is asked for, and has what HAS names.
STAGE = """set -euo pipefail
cpu_wheels=https://wheels.example/cpu
say() { :; }
stop() { echo "stopped: $*"; exit 1; }
not_installed() { [ "${INSTALLED:-}" = yes ] || echo "$1 "; }
pip_install() { echo "$@"; case "$*" in *+cpu*) [ "${HAS:-cpu}" = cpu ];; esac; }
venv=fake_python
fake_python() { echo "torchvision==0.28 0 ${BUILD-cpu}"; }
%s
install_torchvision
"""


def asked_of_pip(**environment: str) -> list[str]:
    function = re.search(r"^install_torchvision\(\) \{\n.*?^\}", SETUP, re.DOTALL | re.MULTILINE)
    assert function
    script = STAGE % function[0].replace('"$venv" -c', "fake_python -c")
    # Without what this very run was set up with: .ci/run asks for TORCHVISION=any.
    inherited = {name: value for name, value in os.environ.items() if name not in ("TORCH", "TORCHVISION")}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env={**inherited, **environment}
    )
    return done.stdout.splitlines()


def test_the_cpu_build_of_torch_gets_that_of_torchvision() -> None:
    assert asked_of_pip() == ["-q --no-deps torchvision==0.28.0+cpu"]


def test_pypis_torchvision_does_not_come_beside_it() -> None:
    *asked, said = asked_of_pip(HAS="nothing")
    assert asked == [
        "-q --no-deps torchvision==0.28.0+cpu",
        "-q --no-deps torchvision==0.28.0+cpu --extra-index-url https://wheels.example/cpu",
    ]
    assert "left out" in said


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({"BUILD": "cu130"}, ["-q --no-deps torchvision==0.28.*"]),
        ({"BUILD": ""}, ["-q --no-deps torchvision==0.28.*"]),
        ({"TORCHVISION": "none"}, []),
        ({"INSTALLED": "yes"}, []),
        ({"TORCHVISION": "torchvision==0.28.1 --pre"}, ["-q --no-deps torchvision==0.28.1 --pre"]),
    ],
)
def test_other_builds_and_wishes(environment: dict[str, str], asked: list[str]) -> None:
    assert asked_of_pip(**environment) == asked


def test_any_torchvision_will_do_where_it_is_said() -> None:
    assert asked_of_pip(TORCHVISION="any", HAS="nothing")[-1] == "-q --no-deps torchvision==0.28.*"


def test_setup_leaves_a_command(tmp_path: Path) -> None:
    found = re.search(
        r"^cat > \.venv/bin/millrace <<LAUNCHER\n(.*?)^LAUNCHER\nchmod \+x", SETUP, re.DOTALL | re.MULTILINE
    )
    assert found
    command = tmp_path / "millrace"
    command.write_text(found[1].replace("$venv", sys.executable))
    command.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [command, "--version"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0 and "millrace" in done.stdout, done.stderr
    wrong = subprocess.run([command, "nothing"], capture_output=True, text=True, env=environment, check=False)
    assert wrong.returncode == 2


def locked() -> dict[str, str]:
    """The version of each package of the lock file that this Python would get."""
    lines = (ROOT / "tests/requirements.lock").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if not line.startswith("#")]
    return {r.name: str(r.specifier)[2:] for r in wanted if r.marker is None or r.marker.evaluate()}


def test_what_is_installed_has_the_locks_versions() -> None:
    found = {name: version_of(name) for name in locked()}
    everything = (ROOT / ".venv/millrace-setup").is_file() and "CLIENTS=1" in (
        ROOT / ".venv/millrace-setup"
    ).read_text()
    differ = {
        name: (version, locked()[name])
        for name, version in found.items()
        if version != locked()[name] and (version or (everything and name != "timm"))
    }
    assert not differ, (
        f"(installed, locked); set-up installs the lock's, scripts/lock.sh changes it: {differ}"
    )


def version_of(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def test_the_lock_has_what_is_asked_for() -> None:
    asked = [
        Requirement(line)
        for line in (ROOT / "tests/requirements.in").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    versions = locked()
    assert len(asked) > 40
    for requirement in asked:
        if requirement.marker is None or requirement.marker.evaluate():
            assert versions[requirement.name] in requirement.specifier
    assert not {"torch", "torchvision"} & set(versions), "set-up chooses them"


def test_the_change_log_has_the_version() -> None:
    version = re.search(r'^version = "([\d.]+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    package = (ROOT / "python/millrace/__init__.py").read_text()
    assert f'__version__ = "{version[1]}"' in package
    assert f"## [{version[1]}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_library_has_the_version() -> None:
    version = re.search(r"^project\(millrace VERSION ([\d.]+) ", (ROOT / "CMakeLists.txt").read_text(), re.M)
    assert version and f'version = "{version[1]}"' in (ROOT / "pyproject.toml").read_text()
    header = (ROOT / "include/millrace/version.h").read_text()
    numbers = re.findall(r"^#define MILLRACE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.M)
    assert numbers == version[1].split(".")


def test_presets_are_what_the_makefile_configures() -> None:
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    assert {"dev", "release", "asan", "tsan", "no-cuda"} == {
        preset["name"] for preset in presets["configurePresets"] if not preset.get("hidden")
    }
    by_name = {preset["name"]: preset for preset in presets["configurePresets"]}
    options = (ROOT / "src/cmake/MillraceOptions.cmake").read_text()
    for preset in by_name.values():
        ours = [name for name in preset.get("cacheVariables", {}) if name.startswith("MILLRACE_")]
        assert all(re.search(rf"(option|set)\({name} ", options) for name in ours)

    makefile = (ROOT / "Makefile").read_text()
    sanitized = by_name["asan"]["cacheVariables"]
    for folder, preset in (("address", "asan"), ("thread", "tsan")):
        asked = re.search(
            rf"configure\.sh build/{folder} \$\(SANITIZED\) -DMILLRACE_SANITIZE=(\S+)", makefile
        )
        assert asked and by_name[preset]["binaryDir"].endswith(f"build/{folder}")
        assert asked[1] == by_name[preset]["cacheVariables"]["MILLRACE_SANITIZE"]
    asked = re.search(r"^SANITIZED = ((?:.*\\\n)*.*)", makefile, re.M)
    assert asked and all(
        f"-D{name}={value}" in asked[1] for name, value in sanitized.items() if name != "MILLRACE_SANITIZE"
    )
    asked = re.search(r"^configure: setup\n((?:.*\\\n)*.*)", makefile, re.M)
    developed = {k: v for k, v in by_name["dev"]["cacheVariables"].items() if k.startswith("MILLRACE_")}
    assert asked and all(f"-D{name}={value}" in asked[1] for name, value in developed.items())
