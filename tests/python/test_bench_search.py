"""The search of `millrace bench`, over configurations whose rates are made up: what it tries, what it
decides, what it says.
"""

from __future__ import annotations

import pytest
from millrace_tools.bench.client import Failed
from millrace_tools.bench.configurations import Configuration, Options, grid
from millrace_tools.bench.measurements import Progress
from millrace_tools.bench.result import BenchResult
from millrace_tools.bench.search import DatasetFails, NothingMeasured, Search

pytestmark = pytest.mark.slow

FACTS = {
    "type": "Made",
    "iterable": False,
    "length": 1000,
    "native": False,
    "explain": "",
    "batch_size": 8,
    "is_loader": False,
    "workers": None,
    "prefetch": None,
    "pin": False,
    "on_error": "raise",
    "native_argument": "auto",
    "decides_batches": False,
    "accelerator": False,
    "sample_seconds": 0.001,
    "persistent": True,
    "failed": False,
}


class MadeUp:
    """A client whose measurements come at once: `rate(configuration, how many it is) -> samples/s`, or raises
    Failed.
    """

    def __init__(self, rate, divides=True, survey=None, **facts):
        self.rate, self.facts, self.asked, self.alone_because = rate, {**FACTS, **facts}, [], ""
        self.tasks = []
        self._divides, self._survey = (
            divides,
            survey or {"read": 100, "failed": 0, "errors": [], "all": False},
        )

    def start(self):
        pass

    def ask(self, name, limit_s, *arguments):
        known = {"probe": self.facts, "divides": self._divides, "survey": self._survey}
        return self.measured(*arguments) if name == "measure" else known[name]

    def measured(self, configuration, task, facts):
        self.asked.append(configuration)
        self.tasks.append(task)
        rate = float(self.rate(configuration, self.asked.count(configuration)))
        return {
            "samples": 100,
            "batches": 12,
            "seconds": 100 / rate,
            "rate": rate,
            "wait_seconds": 50 / rate,
            "first_seconds": 0.1,
            "cpu_seconds": 0.01,
            "memory_bytes": 1 << 20,
            "epochs": 1,
            "engine": "inline",
            "waits": [0.1],
            "ends": [0.1],
            "left_out": 0,
            "errors": [],
        }


def searched(rate, cpus=2, options=None, **facts):
    client = MadeUp(rate, **facts)
    search = Search(client, options or Options(), cpus, Progress())
    search.run()
    return search, client


def scaling(most):
    """So many workers help, further ones do not; threads and torch are slower."""
    factors = {"process": 1.0, "thread": 0.6, "native": 4.0}
    return lambda c, _: (
        100 * max(0.5, min(c.workers, most)) * factors[c.method] * (0.8 if c.side == "torch" else 1)
    )


def test_fewest_workers_of_those_that_tie():
    search, client = searched(scaling(4), cpus=8)
    assert (search.winner.workers, search.winner.method, search.winner.side) == (4, "process", "millrace")
    assert search.tied == [search.winner, search.runner_up], (
        "eight workers were measured beside it and are no better"
    )
    assert (search.torch.side, search.torch.workers) == ("torch", 4)
    result = BenchResult(
        "made:up", Options(), search, {"num_workers": 4}, "DataLoader(dataset, num_workers=4)"
    )
    assert (result.rate, result.best.phase, result.speedup) == (400, "final", pytest.approx(1.25))
    assert "no faster beyond the noise; of equals, the one with fewer workers" in result.text()


def test_torchs_best_is_not_whoever_was_lucky_once():
    def rate(configuration, count):
        if configuration.side != "torch":
            return 200
        return {1: 60, 2: 110 if count == 1 else 90}.get(configuration.workers, 100)

    search, _ = searched(rate, cpus=4)
    assert search.torch.workers != 2
    assert search.rates_of(search.torch, "final") == [100] * Options().repeats


def test_more_workers_than_cpus_as_long_as_they_help():
    search, client = searched(scaling(7), cpus=2)
    assert search.winner.workers == 8, "twice 2, twice 4, and that is four per CPU"
    assert search.torch.workers == 8, "torch gets the same chance"
    assert max(c.workers for c in client.asked) == 8
    assert searched(scaling(3), cpus=4)[0].winner.workers == 3, "between 2 and 4"


def test_native_is_tried_where_it_can_be():
    assert searched(scaling(2), native=True)[0].winner.method == "native"
    assert "native" not in {c.method for c in searched(scaling(2))[1].asked}
    assert {
        c.method
        for c in searched(scaling(2), native=True, native_argument="require")[1].asked
        if c.side != "torch"
    } == {"native"}
    with pytest.raises(NothingMeasured, match="does not run by method native:\ndataset: python"):
        searched(scaling(2), options=Options(methods=["native"]), explain="dataset: python")


def test_in_next_is_measured_once_whatever_the_methods():
    asked = searched(scaling(2))[1].asked
    assert {c.method for c in asked if not c.workers} == {"process"}
    assert {
        (c.method, c.workers)
        for c in searched(scaling(1), options=Options(workers=[0], methods=["thread"]))[1].asked
        if c.side != "torch"
    } == {("thread", 0)}


def test_prefetch_and_pinning_around_the_best():
    def rate(c, _):
        return (
            100 * max(0.5, c.workers) * (1 + 0.2 * (c.prefetch == 4)) * (1 + 0.2 * c.pin) * (c.workers <= 2)
            + 1
        )

    search, _ = searched(rate, accelerator=True)
    assert (search.winner.prefetch, search.winner.pin) == (4, True)
    search, client = searched(rate, options=Options(prefetch=[8], pin=[False]))
    assert {c.prefetch for c in client.asked if c.workers} == {8} and not any(c.pin for c in client.asked)


def test_the_final_takes_turns():
    search, client = searched(scaling(2), options=Options(repeats=4))
    sides = [search.winner, search.runner_up, search.torch]
    final = [r["configuration"] for r in search.records if r["phase"] == "final"]
    assert [final.count(side) for side in sides] == [4, 4, 4]
    assert {c.side for c in final if c not in sides} == {"torch"}, "its next best, which was as fast"
    rounds = [final[i : i + 4] for i in range(0, 16, 4)]
    assert rounds[1] == rounds[0][::-1] and rounds[2] == rounds[0], "the direction alternates"


def test_the_final_is_measured_behind_a_start():
    search, client = searched(scaling(2))
    phases = [record["phase"] for record in search.records]
    assert all((task.warm_s > 0) == (phase == "final") for task, phase in zip(client.tasks, phases))
    assert all(task.warm_s <= 1 and task.warm_s <= task.seconds for task in client.tasks)


def test_the_final_decides_against_a_lucky_start():
    lucky = Configuration("millrace", "thread", 2)
    search, _ = searched(lambda c, n: 500 if c == lucky and n < 4 else scaling(2)(c, n))
    assert search.winner == Configuration("millrace", "process", 2) and search.runner_up == lucky


def test_what_is_worth_a_word():
    search, _ = searched(lambda c, n: scaling(2)(c, n) * (1 + 0.4 * (n % 2)), persistent=False)
    for record in search.records:
        record["epochs"] = 3
    text = BenchResult("made:up", Options(), search).text()
    assert "something else is busy here" in text and "persistent_workers=True keeps them" in text
    quiet = BenchResult("made:up", Options(), searched(scaling(2), persistent=False)[0]).text()
    assert "busy here" not in quiet and "keeps them" not in quiet


def test_a_configuration_that_fails_is_no_reason_to_stop():
    def rate(c, n):
        if c.method == "thread" and c.workers:
            raise Failed("RuntimeError", "not in threads")
        return scaling(2)(c, n)

    search, _ = searched(rate)
    assert search.winner.method == "process" and set(search.failures.values()) == {"not in threads"}
    assert any("read one by one without an error" in note for note in search.notes)
    text = BenchResult("made:up", Options(), search).text()
    assert "threads, 2 workers, prefetch 2: not in threads" in text


def test_nothing_works():
    def rate(c, n):
        raise Failed("died", "its process ended (by SIGKILL)")

    with pytest.raises(
        NothingMeasured, match=r"no configuration gave a batch\nall \d+ alike: its process ended"
    ):
        searched(rate)


def test_failing_samples_end_it():
    found = {
        "read": 50,
        "failed": 2,
        "errors": [{"index": 7, "error": "ValueError: bad", "where": "d.py:3"}],
        "all": False,
    }
    with pytest.raises(
        DatasetFails, match=r"2 of 50 samples .* 4 %:\n  index 7: ValueError: bad \(d.py:3\)\n  and 1 more"
    ):
        searched(scaling(2), failed=True, survey=found)

    def rate(c, n):
        raise Failed("ValueError", "bad")

    with pytest.raises(DatasetFails):
        searched(rate, survey=found)


def test_on_error_goes_on_without_torch():
    search, client = searched(scaling(2), failed=True, on_error="skip")
    assert {c.side for c in client.asked} == {"millrace"} and search.torch is None
    assert any("torch's loader has no on_error='skip'" in note for note in search.notes)
    assert BenchResult("made:up", Options(), search).speedup is None


def test_a_stream_that_workers_do_not_divide():
    search, client = searched(scaling(8), iterable=True, length=None, divides=False)
    assert max(c.workers for c in client.asked) == 1
    assert any("every worker reads the whole stream" in note for note in search.notes)
    search, client = searched(
        scaling(8), iterable=True, length=None, divides=False, options=Options(workers=[2])
    )
    assert {c.workers for c in client.asked} == {2}, "what was asked for is measured"
    assert searched(scaling(8), iterable=True, length=None)[0].winner.workers == 8


def test_samples_too_slow_for_the_budget():
    with pytest.raises(NothingMeasured, match="a sample takes 2 s, a batch of 8 about 16 s: .* --budget 256"):
        searched(scaling(2), options=Options(budget=30), sample_seconds=2.0)


@pytest.mark.alone
def test_a_spent_budget_is_said():
    import time

    def rate(c, n):
        time.sleep(0.02)
        return scaling(2)(c, n)

    search, client = searched(rate, options=Options(budget=0.4, repeats=5), cpus=4)
    assert any("left something out" in note for note in search.notes) and any(
        "of 5 repeats" in note for note in search.notes
    )
    assert search.winner is not None and search.torch is not None, "both sides have a number all the same"
    assert "not measured: the budget was spent" in BenchResult("made:up", Options(), search).text()


def test_the_loaders_own_numbers_are_in_the_grid():
    _, client = searched(scaling(2), is_loader=True, workers=3, prefetch=5, pin=True)
    asked = {(c.workers, c.prefetch, c.pin) for c in client.asked}
    assert (3, 5, True) in asked and (2, 5, True) in asked
    assert grid(1) == [0, 1] and grid(6) == [0, 1, 2, 4, 6] and grid(2, own=8) == [0, 1, 2, 8]


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"steps": 0}, "0 steps measure nothing"),
        ({"seconds": 0}, "0 seconds per point"),
        ({"step_seconds": -1}, "a step of -1000 ms"),
        ({"steps": 1, "seconds": 1}, "give one of them"),
        ({"workers": []}, "at least one"),
        ({"workers": [-1]}, "from 0 on"),
        ({"prefetch": [0]}, "from 1 on"),
        ({"methods": ["fork"]}, "some of native, process, thread"),
        ({"repeats": 0}, "at least 1"),
        ({"budget": 0}, "more than 0"),
        ({"step_on": "tpu"}, "step_on 'tpu'"),
        ({"step_seconds": float("nan")}, "a step of nan"),
    ],
)
def test_options_that_cannot_be(wrong, words):
    with pytest.raises(ValueError, match=words):
        Options(**wrong)
