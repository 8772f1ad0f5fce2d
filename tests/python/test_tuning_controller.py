"""The controller in simulated time: near the best point, in its bounds, settled, following the load."""

from __future__ import annotations

import copy
import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace._loader.tuning import Bounds, Controller, Setting
from simulated_pipeline import Load, fixed, fixed_rate, rate, spread, tuned


def bursts(now: float, number: int, draws: random.Random) -> float:
    return 0.2 if draws.random() < 0.03 else 0.012 * max(0.2, draws.gauss(1, 0.3))


LOADS = {
    "decoding on all CPUs": (
        Load(8, cpu=spread(0.02, 0.3), step_else=fixed(0.008), pieces=4),
        Bounds(8, 32, rows=4),
    ),
    "latency of a store": (
        Load(4, cpu=fixed(0.002), latency=spread(0.1, 0.2), step_else=fixed(0.005)),
        Bounds(16, 32),
    ),
    "a consumer on the CPU": (
        Load(
            2, cpu=spread(0.01, 0.2), step_cpu=fixed(0.02), step_else=fixed(0.02), pieces=4, in_the_way=0.02
        ),
        Bounds(8, 32, rows=4),
    ),
    "tiny samples": (
        Load(4, cpu=fixed(0.0008), step_cpu=fixed(0.002), step_else=fixed(0.002)),
        Bounds(4, 32),
    ),
    "bursts": (Load(4, cpu=bursts, step_else=spread(0.008, 0.3)), Bounds(8, 32)),
    "threads in each other's way": (
        Load(8, cpu=spread(0.02, 0.2), in_the_way=0.6, pieces=2),
        Bounds(8, 16, rows=2),
    ),
}
GRID = [(threads, slots) for threads in (1, 2, 4, 8, 16) for slots in (3, 8, 32)]


@pytest.mark.parametrize("name", LOADS)
def test_it_is_near_the_best_grid_point_after_a_minute(name):
    load, bounds = LOADS[name]
    grid = {bounds.fit(Setting(*point)) for point in GRID}
    best = max(fixed_rate(load, setting, 4) for setting in grid)
    pipeline, controller, changes = tuned(load, bounds, 80)
    assert rate(pipeline.handed, 60, 80) >= 0.95 * best, (controller.setting, controller.events)
    assert pipeline.most_active <= bounds.threads
    assert pipeline.most_in_memory <= bounds.slots
    assert len(changes) <= 90


def test_fewest_threads_win_where_the_consumer_is_the_limit():
    load = Load(4, cpu=spread(0.01, 0.2), step_cpu=fixed(0.01), step_else=fixed(0.03), pieces=4)
    bounds = Bounds(8, 32, rows=4)
    _, controller, _ = tuned(load, bounds, 40)
    assert controller.settled and controller.setting.threads == 1 and controller.setting.slots <= 5


def test_it_does_not_leave_a_steady_load_alone_for_nothing():
    """Settled, it changes nothing: no oscillation, whatever the noise."""
    load, bounds = LOADS["decoding on all CPUs"]
    _, controller, changes = tuned(load, bounds, 150, seed=3)
    assert controller.settled and controller.searches <= 2
    assert [at for at, _ in changes if at > 90] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_a_step_in_the_load_is_followed(seed):
    """The decoding becomes six times as heavy after 40 s: one thread was enough, and is not any more."""
    load = Load(8, cpu=lambda now, number, draws: 0.01 if now < 40 else 0.06, step_else=fixed(0.04), pieces=4)
    bounds = Bounds(8, 32, rows=4)
    pipeline, controller, changes = tuned(load, bounds, 110, seed)
    before = [setting for at, setting in changes if at < 40][-1]
    assert before.threads <= 2
    assert rate(pipeline.handed, 90, 110) >= 0.95 / 0.04 and controller.setting.threads >= 6


def test_a_drift_is_followed():
    load = Load(4, cpu=lambda now, number, draws: 0.01 + 0.0004 * now, step_else=fixed(0.02))
    bounds = Bounds(8, 16)
    pipeline, controller, _ = tuned(load, bounds, 200)
    best = max(
        fixed_rate(Load(4, cpu=fixed(0.01 + 0.0004 * 190), step_else=fixed(0.02)), Setting(t, t + 2), 5)
        for t in (2, 4, 6, 8)
    )
    assert rate(pipeline.handed, 180, 200) >= 0.92 * best


def test_a_load_that_swings_does_not_swing_the_tuner():
    """Heavy and light by turns, every 8 s: the searches get rarer, so most of the time nothing is tried."""
    load = Load(
        4, cpu=lambda now, number, draws: 0.02 if int(now / 8) % 2 else 0.06, step_else=fixed(0.01), pieces=2
    )
    _, controller, changes = tuned(load, Bounds(4, 8, rows=2), 400, seed=2)
    assert controller.searches <= 9
    assert len([at for at, _ in changes if at > 200]) <= len([at for at, _ in changes if at <= 200])


def test_a_slow_start_decides_nothing():
    load = Load(4, cpu=lambda now, number, draws: 0.2 if now < 6 else 0.02, step_else=fixed(0.01), pieces=4)
    pipeline, controller, _ = tuned(load, Bounds(4, 16, rows=4), 60)
    assert rate(pipeline.handed, 40, 60) >= 0.95 * fixed_rate(
        Load(4, cpu=fixed(0.02), step_else=fixed(0.01), pieces=4), Setting(4, 8), 5
    )


def test_known_settings_are_only_watched():
    load, bounds = LOADS["decoding on all CPUs"]
    controller = Controller(bounds, Setting(7, 6), settled=True)
    for _ in range(2000):
        assert not controller.note(0.001, 0.02)
    assert controller.settled and controller.searches == 0 and controller.setting == Setting(7, 6)


def test_an_evaluation_between_two_batches_is_no_step():
    controller = Controller(Bounds(8, 16, rows=8), Setting(8, 4), settled=True)
    for number in range(3000):
        controller.note(0.0001, 30.0 if number % 200 == 199 else 0.02)
    assert controller.searches == 0 and controller.changes == 0


def test_copies_go_on_from_the_setting_in_force():
    load, bounds = LOADS["decoding on all CPUs"]
    _, controller, _ = tuned(load, bounds, 30)
    for twin in (copy.deepcopy(controller), pickle.loads(pickle.dumps(controller))):
        assert bounds.fit(twin.setting) == twin.setting
        assert twin.events == controller.events
        for _ in range(200):
            twin.note(0.01, 0.01)


BOUNDS = st.builds(Bounds, threads=st.integers(1, 40), slots=st.integers(2, 40), rows=st.integers(1, 40))
TIMES = st.one_of(st.floats(0, 2), st.sampled_from([0.0, 1e-7, 5.0, 1e6, -1.0]))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(bounds=BOUNDS, start=st.builds(Setting, st.integers(1, 99), st.integers(1, 99)), data=st.data())
def test_no_load_and_no_clock_moves_it_out_of_its_bounds(bounds, start, data):
    controller = Controller(bounds, start)
    for kind in data.draw(st.lists(st.tuples(TIMES, TIMES, st.integers(1, 60)), max_size=12)):
        wait, step, count = kind
        for _ in range(count):
            controller.note(wait, step)
            setting = controller.setting
            assert 1 <= setting.threads <= bounds.threads and 2 <= setting.slots <= bounds.slots
            assert (setting.slots - 1) * bounds.rows >= setting.threads
        if data.draw(st.booleans()):
            bounds = data.draw(BOUNDS)
            controller.set_bounds(bounds)
            assert controller.setting == bounds.fit(controller.setting)


@settings(derandomize=True, deadline=None, max_examples=15)
@given(
    cores=st.integers(1, 8),
    cpu=st.floats(0.001, 0.1),
    latency=st.sampled_from([0.0, 0.05]),
    step=st.floats(0.0, 0.1),
    bounds=BOUNDS,
    pieces=st.integers(1, 4),
)
def test_a_pipeline_never_holds_more_than_the_bounds_say(cores, cpu, latency, step, bounds, pieces):
    step_cpu, step_else = fixed(step / 2), spread(step / 2, 0.3)
    load = Load(cores, spread(cpu, 0.5), fixed(latency), step_cpu, step_else, pieces)
    pipeline, _, _ = tuned(load, bounds, 12)
    assert pipeline.most_active <= bounds.threads and pipeline.most_in_memory <= bounds.slots
