"""Runs the webdataset package's own tests against the package and against millrace's module in its place, and
compares every test.

See README.md beside this file. The tests run in a copy; what they load from the network comes from a server
on this machine.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from PIL import Image

PYTHON = Path(__file__).resolve().parents[2] / "python"
SIDES = ("webdataset", "millrace")
_TRUSTED = {
    "WDS_SECURE": "0"
}  # the package's word for it: its tests read commands and pickles, which millrace refuses by itself
_OUTSIDE = re.compile(r"https?://storage\.googleapis\.com")

# The package `webdataset` of millrace's side: every module of that name is millrace's.
_SHIM = """
import importlib
import pkgutil
import sys

ours = importlib.import_module("millrace.datasets.webdataset")
for module in pkgutil.iter_modules(ours.__path__):
    ours_of_it = importlib.import_module(f"millrace.datasets.webdataset.{module.name}")
    sys.modules[f"webdataset.{module.name}"] = ours_of_it
sys.modules["webdataset"] = ours
"""


# ---------------------------------------------------------------- data that is not in the checkout


def picture(kind: str, width: int, height: int, seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(
        0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8
    )
    made = io.BytesIO()
    Image.fromarray(pixels).resize((width, height)).save(made, kind)
    return made.getvalue()


def write_tar(path: Path, samples: list[tuple[str, dict[str, bytes]]]) -> None:
    """A shard; gzipped where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for key, fields in samples:
            for name, content in fields.items():
                entry = tarfile.TarInfo(f"{key}.{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def class_sample(number: int) -> tuple[str, dict[str, bytes]]:
    side = (600, 793) if number == 0 else (64 + number, 72)
    fields = {
        "cls": b"%d" % number,
        "png": picture("PNG", *side, number),
        "wnid": b"n%08d" % number,
        "xml": b"<a/>",
    }
    return str(10 + number), fields


def web_sample(number: int) -> tuple[str, dict[str, bytes]]:
    return f"{number:08x}", {"jpg": picture("JPEG", 300, 240, number), "json": b'[{"box": %d}]' % number}


def make_data(folder: Path) -> None:
    """What the tests read: `testdata` has a shard many checkouts lack, `served` what the network gives."""
    local = folder / "testdata" / "imagenet-000000.tgz"
    if not local.exists():
        write_tar(local, [class_sample(number) for number in range(47)])
    served = folder / "served" / "webdataset"
    for number in [*range(100), 321]:
        write_tar(
            served / "openimages" / f"openimages-train-{number:06d}.tar",
            [web_sample(4 * number + i) for i in range(4)],
        )
    write_tar(served / "testdata" / "sample.tgz", [("10", {"cls": b"0", "png": picture("PNG", 40, 30, 1)})])
    shutil.copy(local, served / "testdata" / local.name)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *args: object) -> None:
        """Clients that go before the end are part of the tests."""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def serve(folder: Path) -> Server:
    handler = functools.partial(Quiet, directory=str(folder))
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


# ---------------------------------------------------------------- one side


def run_side(side: str, arguments: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Outcome of each test: "passed", "skipped", or "failed" with the first line of its message."""
    here = folder / side
    shutil.copytree(arguments.checkout / "tests", here / "tests")
    shutil.copytree(arguments.checkout / "testdata", here / "testdata")
    make_data(here)
    server = serve(here / "served")
    for path in (here / "tests").glob("*.py"):
        path.write_text(_OUTSIDE.sub(f"http://127.0.0.1:{server.server_port}", path.read_text()))
    if side == "millrace":
        (here / "shim" / "webdataset").mkdir(parents=True)
        (here / "shim" / "webdataset" / "__init__.py").write_text(_SHIM)
    modules = here / "shim" if side == "millrace" else arguments.checkout / "src"
    paths = [str(modules), str(PYTHON), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        **_TRUSTED,
    }
    report = here / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        "tests",
    ]
    with open(here / "log.txt", "w") as log:
        subprocess.run(
            command + (["-k", arguments.select] if arguments.select else []),
            cwd=here, env=environment, stdout=log, stderr=log, timeout=arguments.timeout, check=False,
        )  # fmt: skip
    server.shutdown()
    if not report.exists():
        sys.exit(f"{side}: no test ran:\n{(here / 'log.txt').read_text()}")
    return {
        f"{case.get('classname')}::{case.get('name')}": outcome_of(case)
        for case in ElementTree.parse(report).iter("testcase")
    }


def outcome_of(case: ElementTree.Element) -> str:
    problem = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
    if problem is not None:
        return "failed: " + (problem.get("message") or "").strip().partition("\n")[0][:160]
    return "skipped" if case.find("skipped") is not None else "passed"


def kind(outcome: str | None) -> str:
    return "missing" if outcome is None else outcome.partition(":")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "checkout",
        type=Path,
        help="of github.com/webdataset/webdataset: its src, tests and testdata are read",
    )
    parser.add_argument("-k", dest="select", default="", help="as pytest's -k")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for one side")
    parser.add_argument(
        "--keep", type=Path, help="folder for the copies, their logs and reports (must not exist)"
    )
    parser.add_argument("--only", choices=SIDES, help="one side, whose failures are printed")
    arguments = parser.parse_args()
    arguments.checkout = arguments.checkout.resolve()

    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.keep or Path(scratch) / "suite").resolve()
        outcomes = {
            side: run_side(side, arguments, folder) for side in SIDES if arguments.only in (None, side)
        }
    for side, results in outcomes.items():
        kinds = [kind(result) for result in results.values()]
        print(
            f"{side}: " + ", ".join(f"{kinds.count(name)} {name}" for name in ("passed", "failed", "skipped"))
        )
    names = sorted(set().union(*outcomes.values()))
    if arguments.only:
        for name in names:
            if kind(outcomes[arguments.only][name]) == "failed":
                print(f"{name}\n  {outcomes[arguments.only][name]}")
        return 0
    different = [name for name in names if len({kind(outcomes[side].get(name)) for side in SIDES}) > 1]
    for name in different:
        print(f"DIFFERENT {name}")
        for side in SIDES:
            print(f"  {side}: {outcomes[side].get(name)}")
    print("same outcome for every test" if not different else f"{len(different)} tests differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
