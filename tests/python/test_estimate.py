"""millrace.estimate(): the arithmetic, and what it refuses."""

from __future__ import annotations

import json
import math

import millrace
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

properties = settings(derandomize=True, deadline=None, max_examples=200)
step = st.floats(0.01, 1e5)
rate = st.floats(1e-3, 1e7)
count = st.integers(1, 100_000)


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9)


def test_imagenet():
    """By hand: 256 / 0.18 s = 1,422.2; 1,281,167 * 90 / (8 * 1,422.2) = 10,134.2 s; at 1,000 a rank 1.4222
    times that.
    """
    made = millrace.estimate(
        step_ms=180,
        batch_size=256,
        world_size=8,
        samples=1_281_167,
        epochs=90,
        measured=1000,
        price_per_hour=2.5,
    )
    assert (
        close(made.needed_per_rank, 256 / 0.18)
        and close(made.needed, 8 * 256 / 0.18)
        and made.measured == 8000
    )
    assert made.steps == math.ceil(1_281_167 * 90 / 2048) and made.bottleneck == "loader"
    assert close(made.seconds_fed, 1_281_167 * 90 / 8000) and close(made.utilisation, 0.18 / 0.256)
    assert close(made.gpu_hours_lost, 8 * (1_281_167 * 90 / 8000 - 1_281_167 * 90 / (2048 / 0.18)) / 3600)
    assert close(made.cost_lost, 2.5 * made.gpu_hours_lost) and close(made.days_fed, made.seconds_fed / 86400)
    text = str(made)
    assert (
        "1,422 samples/s per rank (256 in 180 ms), 11,378 for 8 ranks" in text and "70% of the time" in text
    )
    assert "1.42 times what the loader gives now" in text and "USD" in text and made.currency == "USD"


def test_a_loader_that_keeps_up_loses_nothing():
    made = millrace.estimate(
        step_ms=100, batch_size=10, measured=150, samples=1000, price_per_hour=1, currency="EUR"
    )
    assert (made.bottleneck, made.utilisation, made.gpu_hours_lost, made.cost_lost) == (
        "model",
        1.0,
        0.0,
        0.0,
    )
    assert (
        close(made.speedup, 1)
        and "steps of 66.7 ms" in str(made)
        and "waiting   nothing" in str(made)
        and "EUR" in str(made)
    )
    assert millrace.estimate(step_ms=100, batch_size=10, measured=100).bottleneck == "balanced"


def test_loading_and_computing_take_turns_without_workers():
    made = millrace.estimate(step_ms=60, batch_size=20, measured=500, overlaps=False)
    assert close(made.step_seconds_fed, 0.1) and close(made.utilisation, 0.6) and made.bottleneck == "loader"
    assert "take turns" in str(made) and "make it 60 ms" in str(made)
    assert millrace.estimate(step_ms=60, batch_size=20, measured=1e6, overlaps=False).bottleneck == "balanced"


def test_without_a_measured_rate():
    made = millrace.estimate(step_ms=500, batch_size=4, steps=7200)
    assert (
        made.measured is None
        and made.bottleneck is None
        and made.seconds_fed is None
        and made.samples == 28800
    )
    assert (
        close(made.seconds_model, 3600) and "measured" not in str(made) and "60 min, 1 GPU-hours" in str(made)
    )
    assert millrace.estimate(step_ms=500, batch_size=4).seconds_model is None


@properties
@given(step, count, st.integers(1, 4096), rate, st.floats(1, 1e9), st.floats(0, 100))
def test_rates_times_and_costs_belong_together(step_ms, batch, world, measured, samples, price):
    made = millrace.estimate(
        step_ms=step_ms,
        batch_size=batch,
        world_size=world,
        measured=measured,
        samples=samples,
        price_per_hour=price,
    )
    assert close(made.needed_per_rank * made.step_seconds, batch) and close(
        made.needed, made.needed_per_rank * world
    )
    assert 0 < made.utilisation <= 1 <= made.speedup and close(made.utilisation * made.speedup, 1)
    assert made.step_seconds_fed >= made.step_seconds and close(
        made.seconds_fed, made.seconds_model * made.speedup
    )
    assert made.gpu_hours_lost >= 0 and close(made.gpu_hours_model + made.gpu_hours_lost, made.gpu_hours_fed)
    assert close(made.seconds_fed * min(measured, made.needed_per_rank) * world, samples)
    assert close(made.cost_lost, made.gpu_hours_lost * price) and (
        made.steps - 1
    ) * batch * world < samples * (1 + 1e-9)
    assert (made.bottleneck == "loader") <= (made.gpu_hours_lost > 0)
    json.dumps(made.to_dict(), allow_nan=False)
    assert str(made)


@properties
@given(step, count, rate, st.floats(1.05, 100))
def test_a_faster_loader_is_never_worse(step_ms, batch, measured, factor):
    slow, fast = (
        millrace.estimate(step_ms=step_ms, batch_size=batch, measured=m, samples=1e6)
        for m in (measured, measured * factor)
    )
    assert fast.utilisation >= slow.utilisation and fast.gpu_hours_fed <= slow.gpu_hours_fed
    free = millrace.estimate(step_ms=step_ms, batch_size=batch, measured=slow.needed_per_rank, samples=1e6)
    assert free.bottleneck == "balanced" and free.gpu_hours_lost <= 1e-9 * free.gpu_hours_fed


@properties
@given(step, count, st.integers(1, 100_000), rate, st.floats(1, 1e6))
def test_tokens_are_samples_of_a_length(step_ms, batch, length, measured, samples):
    plain = millrace.estimate(step_ms=step_ms, batch_size=batch, measured=measured, samples=samples)
    tokens = millrace.estimate(
        step_ms=step_ms,
        batch_size=batch,
        length=length,
        measured_tokens=measured * length,
        tokens=samples * length,
    )
    assert close(plain.seconds_fed, tokens.seconds_fed) and close(plain.samples, tokens.samples)
    assert close(tokens.needed_tokens, plain.needed * length) and close(
        tokens.measured_tokens, plain.measured * length
    )
    assert plain.needed_tokens is None and tokens.bottleneck == plain.bottleneck


WRONG = [
    ({"step_ms": 0}, "step_ms=0 should be more than 0: a step of no time"),
    ({"step_ms": -1}, "step_ms=-1 should be more than 0"),
    ({"step_ms": math.nan}, "step_ms=nan should be a finite number"),
    ({"step_ms": "180ms"}, "should be a finite number"),
    ({"step_ms": True}, "should be a finite number"),
    ({"step_ms": 1e9}, "hours for one step; give milliseconds"),
    ({"batch_size": 0}, "batch_size=0 should be more than 0"),
    ({"batch_size": 2.5}, "batch_size=2.5 should be a whole number"),
    ({"world_size": 0}, "world_size=0"),
    ({"measured": 0}, "measured=0 should be more than 0: a loader that gives nothing"),
    ({"measured": math.inf}, "finite"),
    ({"measured": 5, "measured_tokens": 5, "length": 2}, "one rate in two units"),
    ({"measured_tokens": 5}, "measured_tokens= needs length="),
    ({"tokens": 1e9}, "tokens= needs length="),
    ({"tokens": 1e9, "length": 2048, "samples": 3}, "samples= and tokens= each say how long"),
    ({"tokens": 3, "length": 2048}, "less than one sample of length=2048"),
    ({"steps": 0}, "steps=0 should be more than 0"),
    ({"steps": 10, "epochs": 3}, "leave epochs= out"),
    ({"epochs": 3}, "epochs= needs the length of one"),
    ({"samples": 10, "epochs": 0}, "epochs=0"),
    ({"samples": 10, "price_per_hour": -1}, "price_per_hour=-1 should be 0 or more"),
    ({"price_per_hour": 1}, "needs its length"),
    ({"samples": 1e308}, "samples=1e+308 is beyond what can be counted"),
    ({"measured": 1e-300}, "measured=1e-300 is beyond"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[str(wrong) for wrong, _ in WRONG])
def test_refused(wrong, message):
    with pytest.raises(ValueError) as caught:
        millrace.estimate(**{"step_ms": 100, "batch_size": 10, **wrong})
    assert message in str(caught.value)


def test_seconds_given_for_milliseconds_are_doubted():
    made = millrace.estimate(step_ms=0.18, batch_size=256)
    assert "if that was seconds, write step_ms=180" in str(made) and len(made.notes) == 1
