"""Random chains of native steps against Pillow and torchvision (long: fuzz/chains_against_libraries.py)."""

import json
from pathlib import Path

import pytest
from loader_data import torchvision_or_skip

torchvision_or_skip()
pytest.importorskip("timm")
FUZZ = Path(__file__).resolve().parents[1] / "fuzz"
import chains_against_libraries as fuzz  # noqa: E402


@pytest.fixture(autouse=True)
def few_pictures(monkeypatch):
    monkeypatch.setattr(fuzz, "IN_ALL", 8)


def test_a_few_chains_and_a_run_that_goes_on(tmp_path):
    out = tmp_path / "counts.json"
    fuzz.run(3, seed=77, out=out)
    counts, wrong = fuzz.run(8, seed=77, out=out)
    assert not wrong, "\n".join(wrong)
    assert counts.chains == 8 and counts.row.pictures == 8 * fuzz.PICTURES and counts.row.values > 0
    assert counts == fuzz.run(8, seed=77)[0] == fuzz.read(out, 77)
    assert fuzz.read(out, 78) == fuzz.Counts()


def test_the_stored_run():
    stored = json.loads((FUZZ / "chains_against_libraries.json").read_text())
    assert stored["chains"] == 2000 and stored["pictures"]["pictures"] == 2000 * fuzz.PICTURES
    assert not stored["pictures"]["violations"] and not stored["pictures"]["other_values"]
    assert stored["pictures"]["values"] > 10_000_000 and stored["steps"]["millrace.RandomChoice"] > 20


def test_what_differs_is_found(monkeypatch):
    """A level of a pixel; a picture that is too small for both is no difference."""
    judging = fuzz.Judge._same.__globals__
    by_libraries = judging["by_libraries"]

    def lighter(picture, step, decided):
        made = by_libraries(picture, step, decided)
        if isinstance(step, fuzz.v2.RandomInvert):
            made.putpixel((0, 0), tuple(level ^ 1 for level in made.getpixel((0, 0))))
        return made

    monkeypatch.setitem(judging, "by_libraries", lighter)
    monkeypatch.setattr(fuzz, "chain", lambda rng: [fuzz.v2.RandomInvert(1.0), fuzz.v2.PILToTensor()])
    counts, wrong = fuzz.run(1, seed=5)
    assert (counts.row.other_values, counts.row.largest, counts.row.violations) == (9, 1, 1)
    assert wrong[0].startswith("chain 0: picture ")
    monkeypatch.setattr(fuzz, "chain", lambda rng: [fuzz.v2.RandomCrop(9000), fuzz.v2.PILToTensor()])
    counts, wrong = fuzz.run(1, seed=5)
    assert counts.row.refused_by_both == fuzz.PICTURES and not wrong
