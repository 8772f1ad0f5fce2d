"""The profile names the bottleneck of pipelines that have a known one, and its seconds sum to the wall
time.
"""

import pytest
from bottleneck_cases import CASES, Made, run
from millrace import _core

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(not _core.StageClock.enabled, reason="MILLRACE_PROFILE=0"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Made.below(tmp_path_factory.mktemp("bottlenecks"))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.alone
def test_bottleneck(case, made):
    profile = run(case, made)
    assert profile["bottleneck"] == case.stage, profile
    wall = profile["wall_seconds"]
    assert sum(profile["consumer"].values()) == pytest.approx(wall, rel=0.02)
    assert sum(profile["blame"].values()) == pytest.approx(wall - profile["consumer"]["step"], rel=0.02)
    for worker in profile["workers"]:
        assert sum(worker["seconds"].values()) == pytest.approx(worker["wall_seconds"], rel=0.02)
    shares = sum(place["share"] for place in profile["hot"])
    assert not profile["hot"] or shares == pytest.approx(1, abs=0.01)
    if case.hot:
        assert case.hot in profile["hot"][0]["where"], profile["hot"]


def test_enough_of_them():
    assert len(CASES) >= 20
