"""`millrace doctor`: what this machine gives a loader, and what to fix first; see millrace.examine."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing

from ..texts import StatusLine, refuse
from .frame import command, number, option

_WHAT = (
    "Times disk, page cache, store, decoding, memory and GPU link in about 12 s, says how many samples a"
    " second each allows, and what to fix first. Fails when something is broken, or the model needs more."
)

_OPTIONS = [
    option(
        "places",
        nargs="*",
        metavar="PATH | URL",
        help="the dataset's folder or a file, which is only read; an object of a store (http, s3, gs, az)."
        " Without a path, a temporary file is timed",
    ),
    option(
        "--kind",
        default="jpeg224",
        choices=("jpeg224", "tokens", "rows"),
        help="the data: photos to RandomResizedCrop(224) (default), windows of uint16 tokens, rows of"
        " float32",
    ),
    option(
        "--sample-bytes",
        type=number,
        metavar="N",
        help="of a sample as it is stored (default: of the files in PATH, or 110000, 2 a token, 4096)",
    ),
    option("--length", type=int, metavar="N", help="tokens of a row (default: 1024)"),
    option("--model-needs", type=number, metavar="RATE", help="samples a second of one rank's model"),
    option("--step-ms", type=number, metavar="MS", help="the same as a step's time, with --batch-size"),
    option("--batch-size", type=number, metavar="N", help="samples of one rank's step"),
    option(
        "--ranks",
        type=int,
        metavar="N",
        help="training processes that share this machine (default: LOCAL_WORLD_SIZE, or 1)",
    ),
    option("--quick", action="store_true", help="in about 5 s, less exactly"),
    option(
        "--tmp",
        metavar="FOLDER",
        help="where the temporary file goes (default: the system's folder for such files)",
    ),
    option(
        "--root",
        default="/",
        metavar="DIR",
        help="read /proc, /sys and /dev/shm below this folder: a copy of another machine's",
    ),
]


@command("doctor", _WHAT, _OPTIONS, wrong=(ValueError, FileNotFoundError))
def main(given: argparse.Namespace) -> int:
    """The exit status is 1, too, when something is broken or the need is not met."""
    if given.ranks is not None and given.ranks > 0:
        os.environ["LOCAL_WORLD_SIZE"] = str(given.ranks)
    from ..doctor.attainable import need_of
    from ..doctor.examination import examine
    from ..doctor.page import show

    path, url = _path_and_url(given.places)
    refuse(
        {
            f"--ranks={given.ranks} should be 1 or more": given.ranks is not None and given.ranks < 1,
            f"--tmp={given.tmp} is no folder": given.tmp is not None and not os.path.isdir(given.tmp),
        }
    )
    need = need_of(
        given.kind, given.sample_bytes, given.model_needs, given.step_ms, given.batch_size, given.length
    )
    with closing(StatusLine(quiet=given.json)) as line:
        found = examine(
            need,
            path=path,
            url=url,
            quick=given.quick,
            tmp=given.tmp,
            root=given.root,
            say=lambda what: line.show(f"timing {what} ..."),
        )
    if given.json:
        print(json.dumps(found))
    else:
        show(found, sys.stdout)
    return 0 if found["ok"] else 1


def _path_and_url(places: list[str]) -> tuple[str | None, str | None]:
    from millrace.stores.settings import locate

    urls = [place for place in places if locate(place).local is None]
    paths = [place for place in places if place not in urls]
    if len(urls) > 1 or len(paths) > 1:
        raise ValueError("give one path, one URL of an object, or one of each")
    return next(iter(paths), None), next(iter(urls), None)
