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
    sides = {name: revisions.Side(ROOT, ["--photos", str(tmp_path)]) for name in revisions.SIDES}
    try:
        for scenario in KINDS:
            records = list(revisions.measure(scenario, sides, 1, {"other": {}, "this": {}}))
            assert {r["loader"] for r in records} == {"other", "this"}
            assert all(r["seconds"] > 0 and r["batches"] > 0 for r in records)
            assert revisions.row(records, scenario).count("|") == 5
    finally:
        for side in sides.values():
            side.process.kill()


def test_other_batches_are_refused() -> None:
    class Sums:
        def __init__(self, digest: str) -> None:
            self.digest = digest

        def ask(self, words: str) -> str:
            return self.digest

    with pytest.raises(AssertionError, match="other batches"):
        next(revisions.measure("inline int 1", {"other": Sums("a"), "this": Sums("b")}, 1, {}))  # type: ignore[dict-item]
