"""The walks of src/README.md: the files entered between DataLoader(...) and the first batch, traced."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pictures import make_jpeg_folder
from shard_data import make_picture_shards

ROOT = Path(__file__).resolve().parents[2]
WALKS = (ROOT / "src/README.md").read_text().partition("\n## Three walks\n")[2].partition("\n## ")[0]
MOST = {"Pictures": 22, "Processes": 21, "Stream": 33}  # a walk may get shorter, and should
# Entered where a worker's stack was sampled before it had finished: now and then, on a busy machine.
NOW_AND_THEN = {f"_profiling/{name}.py" for name in ("hotspots", "known_code")}


def listed(walk: str) -> tuple[int, list[list[str]]]:
    """The number that the text gives, and the files of each block of the walk."""
    text = re.split(r"^\*\*\w+\*\*: ", WALKS.partition(f"**{walk}**: ")[2], flags=re.MULTILINE)[0]
    blocks = [re.findall(r"\S+\.py\b", block) for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S)]
    return int(re.search(r"(\d+)\s+files", text)[1]), blocks


def traced(walk: str, folder: Path) -> Any:
    if walk == "Stream":
        make_picture_shards(folder / "data", [10, 7, 10, 5])
    else:
        make_jpeg_folder(folder / "data", per_class=6)
    script = Path(__file__).with_name("walk_cases.py")
    # Without what an outer run may have set: coverage's tracer, a millrace that is installed for scripts.
    run = subprocess.run(
        [sys.executable, str(script), walk.lower(), str(folder / "data")],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("walk", MOST)
def test_the_map_has_the_files_that_are_entered(walk: str, tmp_path: Path) -> None:
    number, (loop, *worker) = listed(walk)
    found = traced(walk, tmp_path)
    assert sorted(loop) == sorted(found["loop"])
    assert number == len(loop) <= MOST[walk]
    assert sorted(sum(worker, [])) == sorted(set(found["worker"]) - NOW_AND_THEN)


def test_an_iterator_starts_in_few_calls(tmp_path: Path) -> None:
    """What was found to be as shipped is asked whether it is still the same, and not compared again."""
    for calls, files in traced("Starts", tmp_path):
        assert calls <= 450 and files <= 20


def test_files_of_the_walks_exist() -> None:
    for walk in MOST:
        for name in sum(listed(walk)[1], []):
            assert (ROOT / "python/millrace" / name).is_file(), name
