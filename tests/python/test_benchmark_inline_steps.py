"""The benchmark of steps without workers: every scenario's sides are compared, and all of them are timed."""

from __future__ import annotations

import os

import pytest

from benchmarks import inline_steps

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scenario", inline_steps.SCENARIOS)
def test_each_scenario_is_measured(scenario: str) -> None:
    cpus = sorted(os.sched_getaffinity(0))[-1:]
    records = list(inline_steps.measure(scenario, 1, cpus, most_steps=25))
    assert {r["loader"] for r in records} == {"torch", "millrace"} and all(
        20 <= r["batches"] <= 25 for r in records
    )
    assert scenario in inline_steps.table(records)


def test_other_batches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    true = inline_steps.loaders

    def wrong(scenario: str, steps: int) -> dict:
        return {**true(scenario, steps), "millrace": list(true(scenario, steps)["torch"])[1:]}

    monkeypatch.setattr(inline_steps, "loaders", wrong)
    with pytest.raises(AssertionError):
        inline_steps.check("int 1")
