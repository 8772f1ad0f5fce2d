"""Every native operation against its library (long: tests/fuzz/operations_against_libraries.py)."""

import json
from pathlib import Path

import pytest
from loader_data import torchvision_or_skip

torchvision_or_skip()
pytest.importorskip("timm")
FUZZ = Path(__file__).resolve().parents[1] / "fuzz"
import operations_against_libraries as fuzz  # noqa: E402


@pytest.mark.slow
def test_a_few_pictures_of_every_operation():
    rows, wrong = fuzz.run(8, seed=77, same_arguments=2)
    assert not wrong, "\n".join(wrong)
    assert [row.operation for row in rows] == list(fuzz.CASES)
    assert all(row.pictures == 8 and row.values > 0 for row in rows)


def test_the_stored_run_is_of_these_operations():
    stored = json.loads((FUZZ / "operations_against_libraries.json").read_text())
    assert [row["operation"] for row in stored["operations"]] == list(fuzz.CASES)
    assert stored["count"] == 2000 and not any(row["violations"] for row in stored["operations"])
    assert all(row["pictures"] == 2000 for row in stored["operations"])
    assert {row["operation"] for row in stored["operations"] if row["other_values"]} <= fuzz.MOST.keys()


def test_what_differs_is_found(monkeypatch):
    """A level of one pixel, another shape, and a transform that the engine does not know."""
    v2, by_libraries = fuzz.v2, fuzz.by_libraries

    def changed(picture, step, decided):
        if isinstance(step, v2.Resize):
            return by_libraries(picture, v2.Resize((9, 8)), decided)
        made = by_libraries(picture, step, decided)
        if isinstance(step, v2.RandomInvert):
            made.putpixel((0, 0), tuple(level ^ 1 for level in made.getpixel((0, 0))))
        return made

    cases = {
        "lighter": v2.RandomInvert(1.0),
        "wider": v2.Resize((9, 9)),
        "unknown": v2.RandomRotation(9, expand=True),
    }
    for name, step in cases.items():
        monkeypatch.setitem(fuzz.CASES, name, lambda rng, step=step: [step])
    monkeypatch.setattr(fuzz, "by_libraries", changed)
    rows, wrong = zip(*(fuzz.run(3, seed=5, only=name) for name in cases))
    (lighter,), (wider,), (unknown,) = rows
    assert (lighter.largest, lighter.other_values, lighter.other_pictures) == (1, 9, 3)
    assert (wider.largest, wider.other_pictures) == (256, 3)
    assert unknown.pictures == 3 and not unknown.refused_by_both and "refused here only" in wrong[2][0]
    assert all(wrong)
