"""Damaged states: the same rest of the epoch, an error that says what is wrong, or {}. Never another place
without a word.

MILLRACE_STATE_MUTATIONS=1500 looks at as many; state_mutations.py prints them as a table.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from state_mutations import FILES, GOOD, Run, count_outcomes, kept, kinds

COUNT = int(os.environ.get("MILLRACE_STATE_MUTATIONS", "300"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return {name: Run(kind) for name, kind in kinds(tmp_path_factory.mktemp("kinds")).items()}


def test_what_was_not_damaged_goes_on_from_any_file(runs):
    for name, run in runs.items():
        for through in FILES:
            outcome, error = run.outcome(kept(run.state, through))
            assert outcome == "same", (name, through.__name__, outcome, error)


def test_damaged_states(runs):
    bad = []
    table = count_outcomes(runs, COUNT, 0, tell=lambda *what: bad.append(what))
    assert not bad
    assert sum(table.values(), start=type(next(iter(table.values())))())["refused"] > COUNT // 2
    assert all(outcome in GOOD for outcomes in table.values() for outcome in outcomes)


def test_the_stored_outcome_is_of_these_kinds(runs):
    stored = json.loads(Path(__file__).with_name("state_mutations.json").read_text())
    counts = stored["counts"]
    assert set(counts) == set(runs) and not stored["violations"]
    assert sum(sum(entry.values()) for entry in counts.values()) == stored["count"] >= 1500
    assert {outcome for entry in counts.values() for outcome in entry} <= set(GOOD)
