"""A wheel of this tree, and a virtual environment that has it and no compiler; skipped if none was made."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What building needs and running must not.
HIDDEN = ("/usr/include", "/usr/local/include", "/usr/lib/gcc", "/usr/local/cuda", "/usr/lib/cmake")
BUNDLED = ("jpeg", "turbojpeg", "hwy", "deflate", "webp", "zstd", "simdjson")
TOOLS = ("c++", "cc", "g++", "gcc", "clang", "cmake", "ninja", "nvcc", "pkg-config", "make")

# Runs its arguments where the folders are empty and the libraries unreadable, for this process tree alone.
HIDE = """
set -e
own=$PATH
PATH=/usr/sbin:/usr/bin:/sbin:/bin
for folder in $1; do [ ! -d "$folder" ] || mount -t tmpfs none "$folder"; done
for name in $2; do
  for file in /usr/lib/*/lib$name*.so* /usr/lib/lib$name*.so* /usr/local/lib/lib$name*.so*; do
    [ ! -f "$file" ] || mount --bind /dev/null "$file"
  done
done
shift 2
PATH=$own
exec "$@"
"""


def sources_changed() -> float:
    """When a file that a wheel is made of was last written."""
    listed = subprocess.run(
        ["git", "ls-files", "src", "include", "python", "CMakeLists.txt", "pyproject.toml", "README.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    return max((ROOT / name).stat().st_mtime for name in listed if name and (ROOT / name).exists())


def newest_wheel() -> Path | None:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    made = sorted(
        (ROOT / "dist").glob(f"millrace_loader-*-{tag}-*.whl"), key=lambda path: path.stat().st_mtime
    )
    return made[-1] if made and made[-1].stat().st_mtime > sources_changed() else None


def wheel() -> Path:
    """dist/'s, if it is younger than the sources. MILLRACE_TEST_WHEEL=file.whl: that one."""
    if chosen := os.environ.get("MILLRACE_TEST_WHEEL"):
        return Path(chosen)
    if (found := newest_wheel()) is None:
        pytest.skip("dist/ has no wheel of these sources: run `make wheel` first")
    return found


@dataclass
class Installed:
    """The environment; `bare` is a command's beginning that hides what HIDDEN and BUNDLED name, or empty."""

    python: Path
    wheel: Path
    install_s: float  # CPU seconds of `pip install`, so that a busy machine takes no longer
    bare: list[str]

    def run(
        self, *command: str | Path, hidden: bool = True, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """A command of the environment. Its PATH has nothing else."""
        environment = {
            "PATH": str(self.python.parent),
            "HOME": os.environ.get("HOME", "/"),
            "LANG": "C.UTF-8",
            **options.pop("env", {}),
        }
        words = [*(self.bare if hidden else []), *map(str, command)]
        options = {"timeout": 500, "check": False, **options}
        return subprocess.run(words, capture_output=True, text=True, env=environment, **options)


def hiding() -> list[str]:
    """[] where the system lets nobody have mounts of one's own."""
    unshare, shell = shutil.which("unshare"), shutil.which("sh")
    command = [unshare or "", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    command += [shell or "", "-c", HIDE, "sh", " ".join(HIDDEN), " ".join(BUNDLED)]
    allowed = unshare and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    return command if allowed else []


def fresh_environment(folder: Path) -> Path:
    """The interpreter of a new environment. torch and the tests' packages are those of this interpreter,
    behind the environment's own; the source tree is not among them.
    """
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    site = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    # Not one folder: a .pth in a folder that a .pth names is not read (scripts/torch_versions.sh has one).
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (Path(site) / "further-packages.pth").write_text("".join(f"{path}\n" for path in packages))
    return python


def install(folder: Path) -> Installed:
    """A fresh environment in which pip has installed the wheel."""
    made = wheel()
    python = fresh_environment(folder)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q", str(made)],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": str(python.parent), "PYTHONPATH": ""},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == 0, done.stderr
    return Installed(python, made, seconds, hiding())
