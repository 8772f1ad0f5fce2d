"""Drift: clean runs raise no alarm, injected shifts are reported soon, once, with what a person needs to
know.
"""

import warnings

import millrace
import numpy as np
import pytest
import torch
from drift_cases import SHIFTS, STREAMS, Feed
from millrace import DriftError, DriftOptions, DriftProfile, DriftWarning

_profiles: dict[str, DriftProfile] = {}


def reference(name):
    """Of about 2,000 samples."""
    if name not in _profiles:
        draw, rows = STREAMS[name]
        _profiles[name] = DriftProfile.of(Feed(draw, rows, max(64, 2000 // rows), seed=1000))
    return _profiles[name]


def run(loader):
    for _ in loader:
        pass
    return loader


@pytest.mark.parametrize("name", STREAMS)
def test_clean_runs_raise_no_alarm(name):
    """Eight runs of 400 batches for each of the seven kinds: 56 in all, each batch looked at."""
    draw, rows = STREAMS[name]
    for seed in range(8):
        watched = millrace.watch(
            Feed(draw, rows, 400, seed), reference(name), "raise", DriftOptions(every=1, exact=True)
        )
        run(watched)
        assert watched.drift_stats()["examined"] == 400 and not watched.alarms


@pytest.mark.parametrize("every", [1, 8])
@pytest.mark.parametrize("shift", SHIFTS)
def test_shifts_are_caught_within_200_batches(shift, every):
    if every > 1 and "small" in shift:
        pytest.skip("25 batches of 3 samples are too few to know")
    name, change, field, kinds = SHIFTS[shift]
    draw, rows = STREAMS[name]
    since = 104
    for seed in range(2):
        feed = Feed(draw, rows, since + 200, seed, change, since)
        watched = run(millrace.watch(feed, reference(name), None, DriftOptions(every=every, exact=True)))
        found = [alarm for alarm in watched.alarms if alarm.field == field and alarm.kind in kinds]
        assert found, [str(alarm) for alarm in watched.alarms]
        assert since <= found[0].step < since + 200
        assert (
            since - 8 * every - (found[0].step - since) <= found[0].since <= found[0].step
        )  # windows double
        assert not [alarm for alarm in watched.alarms if alarm.step < since]
        once = [(alarm.field, alarm.kind, alarm.part) for alarm in watched.alarms if not alarm.ended]
        assert len(once) <= len(set(once)) + sum(alarm.ended for alarm in watched.alarms)


def test_sequential_order_of_correlated_batches():
    """Batches that are each of a place of their own, around the reference's mean, hang together; that alone
    is no drift.
    """

    def walk(rng, rows):
        return torch.from_numpy(rng.normal(rng.normal(0, 0.7), 1, (rows, 2)))

    profile = DriftProfile.of(Feed(walk, 32, 200, 1))
    for seed in range(4):
        assert not run(
            millrace.watch(Feed(walk, 32, 400, seed + 2), profile, None, DriftOptions(every=1, exact=True))
        ).alarms


def test_more_numbers_than_are_counted_one_by_one():
    """Of a vocabulary of 50,000, the reference has dropped most while counting; they are no news."""

    def windows(rng, rows):
        return torch.from_numpy(np.minimum(rng.zipf(1.2, (rows, 512)), 50_000))

    profile = DriftProfile.of(Feed(windows, 16, 200, 1))
    for seed in range(3):
        assert not run(
            millrace.watch(Feed(windows, 16, 300, seed + 2), profile, None, DriftOptions(every=1, exact=True))
        ).alarms

    def shifted(rng, rows):
        return torch.where(torch.rand(rows, 512) < 0.1, torch.tensor(7), windows(rng, rows))

    watched = run(millrace.watch(Feed(shifted, 16, 200, 9), profile, None, DriftOptions(every=1, exact=True)))
    assert any(alarm.kind == "classes" for alarm in watched.alarms)


def test_ways_to_be_told():
    draw, rows = STREAMS["table_heavy"]
    change = SHIFTS["NaN rows"][1]

    def watched(on_drift, **options):
        feed = Feed(draw, rows, 60, 1, change, 20)
        return millrace.watch(
            feed, reference("table_heavy"), on_drift, DriftOptions(every=1, exact=True, **options)
        )

    with pytest.warns(
        DriftWarning,
        match=r'field "x", column \d: .* NaN or infinite, 0 % expected; since batch \d+, seen in',
    ):
        run(watched("warn"))
    told = []
    run(watched(told.append))
    assert {alarm.kind for alarm in told} >= {"nan"} and all(str(alarm) == alarm.message for alarm in told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silent = run(watched(None))
        assert [alarm for alarm in silent.alarms if alarm.kind == "nan"]
        for ignore in ("nan", "x", "x:nan"):
            assert not [a for a in run(watched(None, ignore=[ignore])).alarms if a.kind == "nan"]


def test_an_error_loses_no_batch():
    draw, rows = STREAMS["table_heavy"]
    feed = Feed(draw, rows, 60, 1, SHIFTS["NaN rows"][1], 20)
    plain = [batch["y"] for batch in feed]
    iterator, got, errors = (
        iter(millrace.watch(feed, reference("table_heavy"), "raise", DriftOptions(every=1, exact=True))),
        [],
        [],
    )
    while True:
        try:
            got.append(next(iterator)["y"])
        except DriftError as error:
            errors.append(error.alarm)
        except StopIteration:
            break
    assert len(got) == 60 and all(torch.equal(a, b) for a, b in zip(got, plain))
    assert errors and {alarm.field for alarm in errors} == {"x"}


def test_numbers_in_the_messages_are_those_of_the_data():
    profile = DriftProfile.of(
        Feed(lambda rng, rows: torch.from_numpy(rng.normal(50, 4, (rows, 2))), 64, 64, 0)
    )
    feed = Feed(lambda rng, rows: torch.from_numpy(rng.normal([50, 53], [4, 4], (rows, 2))), 64, 64, 1)
    (alarm,) = [
        a
        for a in run(millrace.watch(feed, profile, None, DriftOptions(every=1, exact=True))).alarms
        if a.kind == "mean"
    ]
    assert (alarm.field, alarm.part) == ("batch", "column 1")
    assert alarm.expected == pytest.approx(50, abs=0.6) and alarm.seen == pytest.approx(53, abs=0.8)
    assert alarm.log_probability < -10 and alarm.samples >= 64


def test_a_swap_names_the_order():
    name, change, _, _ = SHIFTS["swapped float"]
    watched = run(
        millrace.watch(
            Feed(*STREAMS[name], 100, 5, change), reference(name), None, DriftOptions(every=1, exact=True)
        )
    )
    (alarm,) = [a for a in watched.alarms if a.kind == "channels"]
    assert "in the order [2, 1, 0]" in str(alarm)
    assert not [a for a in watched.alarms if a.kind == "mean"]
