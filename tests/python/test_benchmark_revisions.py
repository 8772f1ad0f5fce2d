"""The benchmark of two revisions: pairs of one revision, and other batches, which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import revisions
from benchmarks.harness import ROOT
from examples.make_photos import make_photos

pytestmark = pytest.mark.slow

KINDS = (
    "inline int 1",
    "rows tiny_rows 0",
    "processes small_dicts",
    "photos 2",
    "state shuffled 2",
    "resume shuffled 2",
)


def test_pairs_of_one_revision(tmp_path: Path) -> None:
    make_photos(tmp_path, 130)
    folders = dict.fromkeys(revisions.SIDES, ROOT)
    facts: dict[str, dict] = {"other": {}, "this": {}}
    records = list(revisions.measure(KINDS, folders, ["--photos", str(tmp_path)], 1, facts))
    for scenario in KINDS:
        mine = [r for r in records if r["scenario"] == scenario]
        assert {r["loader"] for r in mine} == {"other", "this"}
        assert all(r["seconds"] > 0 and r["batches"] > 0 for r in mine)
        assert revisions.row(records, scenario).count("|") == 5


def test_other_batches_are_refused() -> None:
    class Sums:
        def __init__(self, digest: str) -> None:
            self.digest = digest

        def ask(self, words: str) -> str:
            return self.digest

    with pytest.raises(AssertionError, match="other batches"):
        revisions.one_round("inline int 1", {"other": Sums("a"), "this": Sums("b")}, 0, {})
