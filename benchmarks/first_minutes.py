"""What a newcomer waits for, on a clean clone and with a wheel: wall and CPU seconds of each step.

    python -m benchmarks.first_minutes [--wheel dist/millrace_loader-....whl] [--out FILE.jsonl] [step ...]

clone: `git clone` of the last commit, which all that follows is done in. setup: what `make setup` does when
pip has its packages at hand (it runs twice; downloads are in `setup_with_downloads`). build: `make build`,
without a compiler cache. build_again: the same when nothing changed. demo: `make demo` behind it. wheel:
`pip install` of the wheel into an environment that has torch and numpy. first_example: the README's, with
the wheel, over 300 photos, from the start of the interpreter on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "examples")]

import wheel_install  # noqa: E402
from make_photos import make_photos  # noqa: E402

from benchmarks.harness import run_facts  # noqa: E402

# A newcomer has set none of these.
FOREIGN = re.compile("MILLRACE_.*|CLIENTS|DEVELOPER|TORCH(VISION)?|PYTHON(PATH)?|VIRTUAL_ENV|MAKE.*|ARGS")


class Failed(Exception):
    """A step ended with an error; its text is the end of what the step printed."""


def environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not FOREIGN.fullmatch(key)}
    own = str(Path(sys.prefix) / "bin")
    path = os.pathsep.join(part for part in kept.get("PATH", "").split(os.pathsep) if part != own)
    return {**kept, "PATH": path, "CCACHE_DISABLE": "1"}


def timed(step: str, *command: str | Path, cwd: Path) -> dict[str, Any]:
    """Runs the command. CPU seconds are those of all its processes that have ended."""
    print(f"{step} ...", file=sys.stderr, flush=True)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    try:
        done = subprocess.run(
            [str(word) for word in command], cwd=cwd, env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise Failed(f"{step} needs what another step makes: {error}") from None
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise Failed(f"{step} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"scenario": step, "seconds": seconds, "cpu_seconds": cpu}


class Newcomer:
    """`folder`: an empty one, where everything is done."""

    def __init__(self, folder: Path, wheel: Path | None) -> None:
        self.folder, self.tree, self.made = folder, folder / "millrace", wheel
        self._python = folder / "environment" / "bin" / "python"

    def clone(self) -> dict[str, Any]:
        return timed("clone", "git", "clone", "-q", ROOT, self.tree, cwd=self.folder)

    def setup_with_downloads(self) -> dict[str, Any]:
        return timed("setup_with_downloads", "make", "setup", cwd=self.tree)

    def setup(self) -> dict[str, Any]:
        shutil.rmtree(self.tree / ".venv", ignore_errors=True)
        return timed("setup", "make", "setup", cwd=self.tree)

    def build(self) -> dict[str, Any]:
        return timed("build", "make", "build", cwd=self.tree)

    def build_again(self) -> dict[str, Any]:
        return timed("build_again", "make", "build", cwd=self.tree)

    def demo(self) -> dict[str, Any]:
        return timed("demo", "make", "demo", cwd=self.tree)

    def wheel(self) -> dict[str, Any]:
        if self.made is None:
            raise Failed(
                "dist/ has no wheel of these sources: run `make wheel` first, or name one with --wheel"
            )
        wheel_install.fresh_environment(self.folder / "environment")
        return timed("wheel", self._python, "-m", "pip", "install", "-q", self.made, cwd=self.folder)

    def first_example(self) -> dict[str, Any]:
        make_photos(self.folder / "photos", 300, quiet=True)
        example = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.M)[0]
        (self.folder / "first.py").write_text(f"{example}\nprint(loader.stats()['engine'])\n")
        return timed("first_example", self._python, "first.py", cwd=self.folder)


STEPS: dict[str, Callable[[Newcomer], dict[str, Any]]] = {
    name: step for name, step in vars(Newcomer).items() if not name.startswith("_")
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", metavar="step", help=", ".join(STEPS) + " (all)")
    parser.add_argument(
        "--wheel", type=lambda path: Path(path).resolve(), help="instead of the newest in dist/"
    )
    parser.add_argument(
        "--out",
        default="benchmarks/results/first_minutes/local.jsonl",
        help="results are appended to this file",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.steps) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    common = {"cpus": len(os.sched_getaffinity(0)), **run_facts(("torch", "pip"))}
    print("| step | seconds | CPU seconds |\n|---|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory(prefix="millrace-newcomer-") as folder, open(arguments.out, "a") as out:
        newcomer = Newcomer(Path(folder), arguments.wheel or wheel_install.newest_wheel())
        for name in arguments.steps or STEPS:
            try:
                record = STEPS[name](newcomer)
            except Failed as failure:
                raise SystemExit(str(failure)) from None
            print(json.dumps({**common, **record}), file=out, flush=True)
            print(f"| {name} | {record['seconds']:.1f} | {record['cpu_seconds']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
