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
from pathlib import Path

import numpy as np
from PIL import Image
from suites import kind, outcomes_of, print_counts, print_differences, pytest_command

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
    with open(here / "log.txt", "w") as log:
        subprocess.run(
            pytest_command(report, "tests", select=arguments.select),
            cwd=here, env=environment, stdout=log, stderr=log, timeout=arguments.timeout, check=False,
        )  # fmt: skip
    server.shutdown()
    if not report.exists():
        sys.exit(f"{side}: no test ran:\n{(here / 'log.txt').read_text()}")
    return outcomes_of(report)


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
    print_counts(outcomes)
    if arguments.only:
        for name, outcome in sorted(outcomes[arguments.only].items()):
            if kind(outcome) == "failed":
                print(f"{name}\n  {outcome}")
        return 0
    return print_differences(outcomes)


if __name__ == "__main__":
    sys.exit(main())
