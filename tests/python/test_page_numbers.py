"""Numbers that the README and docs state are the latest stored ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import figures, latest, page_places, pages

ROOT = Path(__file__).resolve().parents[2]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Written and compared elsewhere: benchmarks.compare, benchmarks.remote_simulation; or a program's output.
ELSEWHERE = r"<!-- (?:results|simulation) -->.*?<!-- /|^```.*?^```"
FACTOR = r"\d\s+(?:x\b(?!\s+\d)|×|times\s+(?:as\b|torch))"


def test_pages_say_what_was_measured_last() -> None:
    stale = [path.name for path, text in pages.written() if path.read_text() != text]
    assert not stale, "python -m benchmarks.pages writes them anew"


def test_the_figure_is_what_was_measured_last() -> None:
    found = [figures.found(task) for task in figures.TASKS]
    assert figures.FIGURE.read_text() == figures.draw(found), "python -m benchmarks.figures draws it anew"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_factor_is_typed_by_hand(path: Path) -> None:
    """Nor does a page name stored results without saying a number that is compared with them."""
    text, name = path.read_text(), path.relative_to(ROOT).as_posix()
    spans = [place.found(text).span() for place in page_places.PLACES if place.page == name]
    spans += [match.span() for match in re.finditer(ELSEWHERE, text, re.DOTALL | re.MULTILINE)]
    typed = [
        text[max(0, match.start() - 60) : match.end()]
        for match in re.finditer(FACTOR, text)
        if not any(begin <= match.start() < end for begin, end in spans)
    ]
    assert not typed, "benchmarks/page_places.py is where it belongs"
    assert spans or not re.search(r"benchmarks/results/\w+/", text)


def test_the_last_run_counts_on_whichever_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest, "RESULTS", tmp_path)
    (tmp_path / "some").mkdir()
    for machine, day in (("a-2cpu", 3), ("b-2cpu", 2)):
        records = [
            {
                "scenario": "rows",
                "run": f"2026-11-0{run}",
                "kind": "epoch",
                "loader": loader,
                "repeat": 0,
                "quiet": True,
                "rows_per_s": 10.0 * run * (1 + (loader == "millrace")),
            }
            for run in (day, 1)  # the last line is not the last run
            for loader in ("torch", "millrace")
        ]
        (tmp_path / "some" / f"{machine}.jsonl").write_text("\n".join(map(json.dumps, records)))
    found = latest.latest("some", "rows")
    assert (found.machine, found.median("torch"), found.factor()) == ("a-2cpu", 30, 2)


def test_gaps_are_filled_across_lines() -> None:
    said = pages.Said("page.md", "{} times as fast ({} to {})", lambda: ("2.5", "2", "1,000"))
    assert said.written("It is 3.0 times\nas fast (1 to -4).") == "It is 2.5 times\nas fast (2 to 1,000)."
    with pytest.raises(ValueError, match="0 times"):
        said.written("It is fast.")
