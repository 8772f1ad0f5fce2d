"""The benchmark of a newcomer's first minutes: what a failed step prints, and what a newcomer has not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import first_minutes

pytestmark = pytest.mark.slow


def test_steps_are_timed_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    out = tmp_path / "results" / "first.jsonl"
    monkeypatch.setattr(sys, "argv", ["first_minutes", "--out", str(out), "clone"])
    first_minutes.main()
    (record,) = map(json.loads, out.read_text().splitlines())
    assert record["scenario"] == "clone" and record["seconds"] > 0 and record["cpu_seconds"] > 0
    assert "| clone |" in capsys.readouterr().out


def test_a_failed_step_shows_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(first_minutes.Failed, match="(?s)build ended with 3:.*no compiler"):
        first_minutes.timed("build", "sh", "-c", "echo no compiler; exit 3", cwd=tmp_path)


def test_a_step_whose_work_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(first_minutes.Failed, match="build needs what another step makes: .*millrace"):
        first_minutes.Newcomer(tmp_path, None).build()


def test_an_unknown_step_is_refused(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["first_minutes", "compile"])
    with pytest.raises(SystemExit):
        first_minutes.main()
    assert "no such step: compile; there are clone," in capsys.readouterr().err


def test_a_newcomer_has_none_of_our_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MILLRACE_UNITY", "CLIENTS", "DEVELOPER", "MAKEFLAGS", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HTTPS_PROXY", "kept")
    found = first_minutes.environment()
    assert not {"MILLRACE_UNITY", "CLIENTS", "DEVELOPER", "MAKEFLAGS", "PYTHONPATH"} & set(found)
    assert found["HTTPS_PROXY"] == "kept" and found["CCACHE_DISABLE"] == "1"
