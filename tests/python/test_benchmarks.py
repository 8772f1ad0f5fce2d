"""The benchmark harness: it refuses loaders that deliver other data, measures those that do not, and reads
back what it wrote.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pictures import make_jpeg_folder

from benchmarks import checks, compare, loaders, plot, probes
from benchmarks.harness import Plan, measure, timed_rounds
from benchmarks.loaders import Job, Tolerance
from benchmarks.scenarios import SCENARIOS
from benchmarks.scenarios.imagenet import STD, epoch_indices, list_samples

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


FAKE = """
from benchmarks.loaders import torch_pil
from benchmarks.loaders.torch_pil import PACKAGES, TOLERANCE
ENVIRONMENT = None
def open_epochs(job):
    honest = torch_pil.open_epochs(job)
    return lambda: (({images}, {labels}) for images, labels in honest())
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    make_jpeg_folder(tmp_path / "photos", per_class=4)
    return str(tmp_path / "photos")


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """fakes(name, images=..., labels=...) makes an adapter that tampers with what the honest one delivers,
    and names it.
    """
    (tmp_path / "fakes").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(name: str, images: str = "images", labels: str = "labels") -> str:
        (tmp_path / "fakes" / f"{name}.py").write_text(FAKE.format(images=images, labels=labels))
        return f"fakes.{name}"

    yield make
    for name in [name for name in sys.modules if name.split(".")[0] == "fakes"]:
        del sys.modules[name]


def job(folder: str, scenario: str = "imagenet_val", images: int = 12) -> Job:
    return Job(SCENARIOS[scenario], folder, workers=0, epoch_images=images)


def observed(folder: str, scenario: str = "imagenet_val") -> tuple[Job, dict, np.ndarray]:
    from benchmarks.loaders.torch_pil import open_epochs

    todo = job(folder, scenario)
    return (todo, *checks.observe(open_epochs(todo)()))


def test_an_honest_loader_passes(folder: str) -> None:
    todo, seen, images = observed(folder)
    checks.check_epoch(todo, seen)
    checks.check_statistics(seen, seen)
    assert checks.check_pixels(images, images, Tolerance(0, 0, "the same")) == {
        "mean_levels": 0,
        "max_levels": 0,
    }


@pytest.mark.parametrize("scenario", ["imagenet_train", "imagenet_val"])
@pytest.mark.parametrize(
    "change, word",
    [
        ({"dtypes": ["float64"]}, "float32"),
        ({"shapes": [[12, 224, 224, 3]]}, "shapes"),
        ({"shapes": [[11, 3, 224, 224]]}, "shapes"),
        ({"labels": [0] * 12}, "labels"),
    ],
)
def test_a_wrong_epoch_is_refused(folder: str, scenario: str, change: dict, word: str) -> None:
    todo, seen, _ = observed(folder, scenario)
    with pytest.raises(checks.NotTheSame, match=word):
        checks.check_epoch(todo, {**seen, **change})


def test_order_counts_for_validation_only(folder: str) -> None:
    for scenario in SCENARIOS:
        todo, seen, _ = observed(folder, scenario)
        turned = {**seen, "labels": seen["labels"][::-1]}
        if todo.scenario.train:
            checks.check_epoch(todo, turned)
        else:
            with pytest.raises(checks.NotTheSame, match="order"):
                checks.check_epoch(todo, turned)


def test_statistics_and_pixels_are_compared(folder: str) -> None:
    _, seen, images = observed(folder)
    for name in ("mean", "std"):
        with pytest.raises(checks.NotTheSame, match=name):
            checks.check_statistics(seen, {**seen, name: seen[name] + 0.2})
        with pytest.raises(checks.NotTheSame, match=name):
            checks.check_statistics(seen, {**seen, name: float("nan")})
    with pytest.raises(checks.NotTheSame, match="mean_levels"):
        checks.check_pixels(images, images[..., ::-1], loaders.load("mlx_data").TOLERANCE)
    off_by_three = images + 3 / (255 * np.array(STD, np.float32)).reshape(3, 1, 1)
    assert checks.pixel_distance(images, off_by_three)["mean_levels"] == pytest.approx(3, abs=0.01)
    with pytest.raises(checks.NotTheSame, match="levels"):
        checks.check_pixels(images, off_by_three, loaders.load("millrace").TOLERANCE)


@pytest.mark.slow
@pytest.mark.alone
def test_the_harness_leaves_out_who_is_wrong_and_measures_the_rest(folder: str, fakes) -> None:
    mirrored = fakes("mirrored", images="images.flip(3)")
    mislabelled = fakes("mislabelled", labels="labels.flip(0)")
    broken = fakes("broken", images="images.no_such_thing")
    plan = Plan(rounds=1, first_batches=1, memory_epochs=1, memory_pause_s=0, images_per_worker=12)
    records = list(measure("imagenet_val", ["torch_pil", mirrored, mislabelled, broken], 1, folder, plan))

    reasons = {r["loader"]: r["reason"] for r in records if r["kind"] == "left out"}
    assert set(reasons) == {mirrored, mislabelled, broken}
    assert "levels" in reasons[mirrored] and "labels" in reasons[mislabelled] and "ended" in reasons[broken]
    kinds = [r["kind"] for r in records if r["loader"] == "torch_pil"]
    assert (
        kinds.count("check") == kinds.count("memory") == 1
        and 1 <= kinds.count("epoch") <= 2
        and kinds.count("first") == 2
    )

    for record in records:
        assert json.loads(json.dumps(record)) == record
        assert {"scenario", "workers", "run", "revision", "machine", "data", "loader", "kind"} <= set(record)
        assert folder not in json.dumps({**record, "reason": ""}), (
            "results say nothing of where the photos lie"
        )
    for record in (r for r in records if r["kind"] == "epoch"):
        assert record["images"] == 12 and record["batches"] == 1 and record["versions"]["torch"]
        assert record["images_per_s"] == pytest.approx(12 / record["seconds"])
        assert record["cpu_seconds"] > 0 or record["seconds"] < 0.05, (
            "CPU time is counted in hundredths of a second"
        )
    memory = next(r for r in records if r["kind"] == "memory")
    assert 20e6 < memory["import_torch_pss_bytes"] < memory["peak_pss_bytes"]


def test_a_wrong_reference_ends_the_run(folder: str, monkeypatch: pytest.MonkeyPatch, fakes) -> None:
    name = fakes("mislabelled_reference", labels="labels.flip(0)")
    monkeypatch.setattr("benchmarks.harness.REFERENCES", (name,))
    with pytest.raises(checks.NotTheSame, match="mislabelled_reference"):
        list(measure("imagenet_val", [name], 1, folder, Plan(images_per_worker=12)))


class FakeSide:
    """Answers as a side does, slower by `factor`; every third round is a noisy one."""

    def __init__(self, name: str, factor: float, log: list[str]) -> None:
        self.name, self.factor, self.log, self.asked = name, factor, log, 0
        self.facts = {
            "loader": name,
            "scenario": "imagenet_train",
            "workers": 2,
            "run": "2026-01-01T00:00:00",
            "revision": "abc",
            "machine": {"cpu": "a CPU & co"},
            "data": {"mean_bytes": 110_000},
        }

    def ask(self, command: str) -> dict:
        assert command == "epoch"
        self.log.append(self.name)
        noisy = self.asked % 3 == 1
        self.asked += 1
        return {
            "seconds": self.factor * (3 if noisy else 1),
            "cpu_seconds": 2.0,
            "others_share": 0.5 if noisy else 0.0,
            "images": 1000,
            "batches": 8,
            "in_order": False,
        }


@pytest.fixture
def records(folder: str) -> list[dict]:
    log: list[str] = []
    sides = {"torch_pil": FakeSide("torch_pil", 3.0, log), "millrace": FakeSide("millrace", 1.0, log)}
    out = list(timed_rounds(sides, job(folder, "imagenet_train"), Plan(rounds=4), lambda _: None))
    assert log[:4] == ["torch_pil", "millrace", "millrace", "torch_pil"], (
        "the sides take turns, in alternating direction"
    )
    return out


def test_noisy_rounds_are_repeated_and_kept_apart(records: list[dict]) -> None:
    quiet = [r for r in records if r["quiet"] and r["loader"] == "millrace"]
    assert len(quiet) == 4 and len(records) == 2 * 6
    assert compare.kept_epochs(records, "millrace") == quiet


def test_tables_and_plots(records: list[dict], tmp_path: Path) -> None:
    row = compare.summary(records, "torch_pil")
    assert row["rate"] == pytest.approx(1000 / 3)
    assert compare.told(compare.factors(records, "torch_pil", "millrace")) == "3.00 × (3.00 – 3.00)"
    assert row["cpu"] == 2.0 and row["first_ms"] is None
    results = tmp_path / "some.jsonl"
    results.write_text("".join(json.dumps(r) + "\n" for r in records))
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{compare.BEGIN}\nold\n{compare.END}\nafter\n")
    for tool, option, where in (("compare", "--readme", readme), ("plot", "--out", tmp_path)):
        command = [sys.executable, "-m", f"benchmarks.{tool}", results, option, where]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    text = readme.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "| millrace | **1,000** |" in text and "3.00 × (3.00 – 3.00)" in text
    svg = (tmp_path / "some-imagenet_train-2.svg").read_text()
    assert (
        "torch_pil" in svg
        and "a CPU &amp; co" in svg
        and svg == plot.draw(records, title="imagenet_train: images per second")
    )
    with pytest.raises(ValueError, match="results"):
        compare.replace_block("no such lines", "text")


def test_bootstrap_interval_holds_the_median() -> None:
    values = [2.0, 2.2, 1.9, 2.1, 2.4, 2.0, 2.3]
    low, high = compare.interval(values)
    assert 1.9 <= low < 2.1 < high <= 2.4


def test_every_adapter_can_be_read_without_its_peer() -> None:
    for name in loaders.NAMES:
        adapter = loaders.load(name)
        assert isinstance(adapter.TOLERANCE, Tolerance) and adapter.PACKAGES and callable(adapter.open_epochs)
        recipes = (ROOT / "benchmarks" / "make_env.sh").read_text()
        assert adapter.ENVIRONMENT is None or f"\n  {adapter.ENVIRONMENT})" in recipes


def test_epoch_indices_cover_all_classes_or_repeat() -> None:
    assert epoch_indices(3, 7) == [0, 1, 2, 0, 1, 2, 0]
    assert epoch_indices(100, 4) == [0, 25, 50, 75]
    with pytest.raises(FileNotFoundError):
        list_samples(str(ROOT / "include"))


@pytest.mark.alone
def test_probes_count_children() -> None:
    """A child that burns a third of a second of CPU time shows in its parent's tree, alive or gone."""
    import mmap
    import os
    import time

    burn = "import time\nwhile time.process_time() < .3: pass\nprint('done', flush=True)\ninput()"
    before = probes.tree_cpu_seconds(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        child.stdout.readline()
        alive = probes.tree_cpu_seconds(os.getpid()) - before
        assert child.pid in probes.process_tree(os.getpid())
        child.communicate("\n")
    assert (
        alive >= 0.25 and probes.tree_cpu_seconds(os.getpid()) - before >= 0.25
    )  # ticks of 10 ms, one lost at each end
    before = probes.tree_pss_bytes(os.getpid())
    with probes.PeakMemory(os.getpid()) as peak:
        held, until = mmap.mmap(-1, 50_000_000), time.monotonic() + 20  # malloc may have as much that it kept
        np.frombuffer(held, np.uint8)[:] = 1
        # a look at much memory takes a busy machine long
        while peak.bytes < before + 30e6 and time.monotonic() < until:
            time.sleep(0.02)
        held.close()
    assert peak.bytes > before + 30e6 and peak.bytes > probes.tree_pss_bytes(os.getpid()) + 30e6
