"""scripts/torch_results.py: what came of a wheel under one torch, an entry of torch_versions.json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/torch_results.py"
RUN = """<testsuites><testsuite time="61.2"><testcase classname="a" name="one"/>
<testcase classname="a" name="two"><failure message="no"/></testcase>
<testcase classname="a" name="three"><skipped message="torch refuses it"/></testcase></testsuite>
</testsuites>"""
BARE = """<testsuites><testsuite time="9"><testcase classname="w" name="test_it_is_installed_in_seconds">
<properties><property name="install_cpu_s" value="2.3"/></properties></testcase>
<testcase classname="w" name="test_the_readmes_first_example_runs">{}</testcase></testsuite></testsuites>"""


@pytest.mark.parametrize("inside, word", [("", "runs"), ("<failure/>", "fails"), ("<skipped/>", "fails")])
def test_a_run_becomes_an_entry(tmp_path: Path, inside: str, word: str) -> None:
    (tmp_path / "run.xml").write_text(RUN)
    (tmp_path / "bare.xml").write_text(BARE.format(inside))
    (tmp_path / "some.whl").write_bytes(b"1234")
    (tmp_path / "results.json").write_text('{"1.0": {"passed": 7}}')
    words = ["results.json", "run.xml", "some.whl", "bare.xml", "--", "tests/parity"]
    subprocess.run([sys.executable, SCRIPT, *words], cwd=tmp_path, check=True)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert stored["1.0"] == {"passed": 7}, "other versions stay"
    entry = stored[torch.__version__]
    assert [entry[key] for key in ("passed", "failed", "skipped", "seconds")] == [1, 1, 1, 61]
    assert entry["failures"] == ["a::two"] and entry["tests"] == "tests/parity"
    assert entry["wheel"]["bytes"] == 4
    assert (entry["bare"]["install_cpu_s"], entry["bare"]["first_example"]) == (2.3, word)
