"""loader.report(): the same numbers as lines, a table, in a notebook, as a page, a trace, metrics."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import Any

import pytest
from millrace import Report, prometheus, serve_metrics
from millrace_tools.report.summary import CONSUMER, step_times
from millrace_tools.report.trace import trace_events
from profile_fixture import profile

pytestmark = pytest.mark.slow

ODD = {
    "no profile": {},
    "no steps": profile(0),
    "one step": profile(1),
    "running": profile(20, running=True),
    "inline": profile(30, workers=0, engine="inline"),
    "without the steps": {key: value for key, value in profile(30).items() if key != "steps"},
    "unknown queue": {**profile(5), "steps": {**profile(5)["steps"], "ready": [-1] * 5}},
    "inside next()": {
        **profile(5),
        "steps": {**profile(5)["steps"], "enter": [*profile(5)["steps"]["enter"], 99.0]},
    },
    "no seconds": {
        **profile(3),
        "wall_seconds": 0.0,
        "consumer": {},
        "blame": {},
        "workers": [],
        "stages": {},
    },
    "other stages": {**profile(9), "blame": {"gpu": 0.1}, "consumer": {**profile(9)["consumer"], "gpu": 0.1}},
    "100 processes": profile(9, workers=100, engine="processes"),
}


class Loader:
    """Stands for a DataLoader: `profile()` is what reports ask."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found

    def profile(self, steps: bool = False) -> dict[str, Any]:
        return self.found if steps else {key: value for key, value in self.found.items() if key != "steps"}


@pytest.mark.parametrize("case", ODD)
def test_every_form_of_every_profile(case: str, tmp_path) -> None:
    report = Report(ODD[case], "do that")
    assert "do that" in str(report) and str(report) == repr(report)
    assert all(line == line.rstrip() and len(line) < 160 for line in str(report).splitlines())
    assert "nan" not in str(report)
    assert "do that" in report._repr_html_()
    assert report.save(tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert json.loads(report.save_trace(tmp_path / "trace.json").read_text())["traceEvents"]
    assert prometheus(Loader(ODD[case])).endswith("\n")


def test_lines_say_who_waited_and_for_what() -> None:
    found = profile(400)
    lines = str(Report(found)).splitlines()
    lost = 1 - found["consumer"]["step"] / found["wall_seconds"]
    assert lines[0].startswith("epoch 0 took")
    assert "400 batches, 25,600 samples" in lines[0]
    assert "3 native threads" in lines[0]
    assert lines[1].startswith(f"loader-bound {lost:.1%}") and lines[1].endswith("most of it to decode")
    assert any("train.augment (train.py:33)" in line for line in lines)
    parts = [line for line in lines if line.split()[:1] and line.split()[0] in CONSUMER]
    shares = [float(re.search(r"([\d.]+)%", line)[1]) for line in parts]  # type: ignore[index]
    assert sum(shares[:6]) == pytest.approx(100, abs=0.5)


def test_a_loop_that_sets_the_pace_is_told_so() -> None:
    found = {**profile(100, wait_seconds=1e-5), "bottleneck": "consumer"}
    assert "the training loop sets the pace" in str(Report(found))


def test_the_largest_loss_is_named_beside_the_bottleneck() -> None:
    assert "most of it to start; the slowest stage is decode" in str(Report(profile(1)))


def test_the_page_has_the_profile_to_the_microsecond() -> None:
    found = profile(100)
    text = re.search(r'id="profile">(.*?)</script>', Report(found).html())[1]  # type: ignore[index]
    assert json.loads(text)["steps"]["leave"] == pytest.approx(found["steps"]["leave"], abs=1e-6)


def test_names_of_functions_are_harmless() -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    found = {
        **profile(3),
        "hot": [{"stage": evil, "where": evil, "share": 1.0}],
        "settings": {evil: evil},
        "blame": {evil: 1.0},
    }
    for html in (Report(found, evil).html(), Report(found, evil)._repr_html_()):
        assert "<img" not in html and "<script>alert" not in html


def test_a_page_of_65536_steps_is_bounded(tmp_path) -> None:
    page = Report(profile(70_000)).save(tmp_path / "report.html")
    assert page.stat().st_size < 3_000_000
    assert "65,536 of 70,000 steps" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("method", ["save", "save_trace"])
def test_a_missing_folder_is_an_error_that_says_so(method: str, tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="cannot write .*none.*give a path in a folder that exists"):
        getattr(Report(profile(2)), method)(tmp_path / "none" / "file")


def test_step_times() -> None:
    enter, leave, waits, own = step_times({"enter": [1.0, 3.0, 9.0], "leave": [2.0, 3.5]}, 10.0)
    assert (enter, leave, waits, own) == ([1.0, 3.0], [2.0, 3.5], [1.0, 0.5], [1.0, 5.5])


def test_trace_has_each_step_and_what_was_ready() -> None:
    found = profile(40)
    made = trace_events(found)["traceEvents"]
    waits = [e for e in made if e["name"] == "wait" and e["pid"] == 1]
    assert len(waits) == 40 and [e["args"]["step"] for e in waits] == list(range(40))
    assert [e["ts"] for e in waits] == pytest.approx([s * 1e6 for s in found["steps"]["enter"]], abs=0.1)
    assert [e["args"]["batches"] for e in made if e["ph"] == "C"] == found["steps"]["ready"]
    loop = sorted((e["ts"], e["ts"] + e["dur"]) for e in made if e["ph"] == "X" and e["pid"] == 1)
    assert all(end <= begin + 0.2 for (_, end), (begin, _) in zip(loop, loop[1:]))
    threads = {e["args"]["name"] for e in made if e["name"] == "thread_name"}
    assert threads == {"training loop", "thread 0", "thread 1", "thread 2"}


def test_prometheus_text_is_what_its_own_parser_reads() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    found = profile(50)
    families = {
        f.name: f
        for f in parser.text_string_to_metric_families(prometheus(Loader(found), {"loader": 'train "a"\\\n'}))
    }
    samples = {
        f.name: {tuple(sorted(s.labels.items())): s.value for s in f.samples} for f in families.values()
    }
    named = ("loader", 'train "a"\\\n')
    assert samples["millrace_batches"] == {(named,): 50}
    assert samples["millrace_loop_seconds"][(named, ("part", "wait"))] == found["consumer"]["wait"]
    assert samples["millrace_lost_seconds"][(named, ("to", "decode"))] == found["blame"]["decode"]
    assert (
        samples["millrace_stage_seconds"][(("clock", "cpu"), named, ("stage", "fetch"))]
        == found["stages"]["fetch"]["cpu"]
    )
    assert all(f.documentation for f in families.values()) and families["millrace_running"].type == "gauge"


def test_metrics_are_served_on_this_machine_only() -> None:
    loader = Loader(profile(5))
    with serve_metrics(loader) as server:
        assert server.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(server.url, timeout=10) as answer:
            assert answer.read().decode() == prometheus(loader)
            assert "version=0.0.4" in answer.headers["Content-Type"]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url.replace("metrics", "other"), timeout=10)
        with pytest.raises(
            OSError, match=f"cannot serve metrics on port {server.port}: .*port 0 takes one that is free"
        ):
            serve_metrics(loader, server.port)
        port = server.port
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)
    server.close()


def test_scalars_go_to_any_writer() -> None:
    class Writer:
        def __init__(self) -> None:
            self.got: dict[str, tuple[float, int]] = {}

        def add_scalar(self, tag: str, value: float, step: int) -> None:
            self.got[tag] = (value, step)

    writer = Writer()
    Report(profile(50)).to_tensorboard(writer, 7)
    assert writer.got["millrace/samples_per_second"][0] > 0
    assert all(step == 7 for _, step in writer.got.values())
    loop = [value for tag, (value, _) in writer.got.items() if tag.startswith("millrace/loop/")]
    assert sum(loop) == pytest.approx(1)
    stages = [value for tag, (value, _) in writer.got.items() if tag.startswith("millrace/stages/")]
    assert sum(stages) == pytest.approx(1)
