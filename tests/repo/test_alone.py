"""A test marked `alone` runs again where a number is out of bounds, at most twice; others never."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = """
import pathlib
import pytest

def run(name):
    runs = pathlib.Path(__file__).with_name(name)
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    return len(runs.read_text())

@pytest.fixture
def broken_behind():
    yield
    run("behind")
    assert 0, "the fixture behind"

@pytest.fixture
def broken_before():
    assert run("before") == 0, "the fixture before"

@pytest.fixture(scope="module")
def whole_module():
    return []

@pytest.mark.alone
def test_right_at_once():
    assert run("at once") == 1

@pytest.mark.alone
def test_right_in_the_third_run(whole_module, tmp_path):
    assert not list(tmp_path.iterdir())
    (tmp_path / "made").touch()
    assert run("third") >= 3, "too slow"

@pytest.mark.alone
def test_never_right():
    assert run("never") < 0.5

@pytest.mark.alone
def test_wrong_value():
    assert run("wrong value") == 0

@pytest.mark.alone
def test_wrong_text():
    assert run("wrong text") and "0.5" in "2 < 3"

@pytest.mark.alone
def test_error():
    run("error")
    raise RuntimeError("assert 1 < 0")

@pytest.mark.alone
def test_fixture_before(broken_before):
    pass

@pytest.mark.alone
def test_fixture_behind(broken_behind):
    assert run("fixture behind") == 0

@pytest.mark.alone
def test_skips():
    run("skips")
    pytest.skip("not here")

def test_not_alone():
    assert run("not alone") == 0
"""


@pytest.mark.parametrize("processes", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_only_what_is_alone_is_measured_again(processes, tmp_path):
    (tmp_path / "conftest.py").write_bytes(CONFTEST.read_bytes())
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", processes, "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1, done.stdout + done.stderr
    runs = {
        path.name: len(path.read_text()) for path in tmp_path.iterdir() if not path.suffix and path.is_file()
    }
    assert runs == {
        "at once": 1,
        "third": 3,
        "never": 3,
        "wrong value": 1,
        "wrong text": 1,
        "error": 1,
        "before": 1,
        "fixture behind": 1,
        "behind": 1,
        "skips": 1,
        "not alone": 1,
    }
    # each report is given once; a test whose body and fixture fail counts as both
    assert "6 failed, 2 passed, 1 skipped, 2 errors" in done.stdout.splitlines()[-1], done.stdout
    told = [line for line in done.stdout.splitlines() if line.startswith("measured again: ")]
    assert sorted(told) == [
        *(
            f"measured again: test_it.py::test_never_right - AssertionError: assert {run} < 0.5"
            for run in (1, 2)
        ),
        *("measured again: test_it.py::test_right_in_the_third_run - AssertionError: too slow",) * 2,
    ], done.stdout
