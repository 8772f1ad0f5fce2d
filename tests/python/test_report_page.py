"""The report's page in a browser: plots, an empty console, light and dark, zooming."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from browser import Seen, browser_or_skip, look
from millrace import Report
from millrace_tools.report.loader_page import loader_page
from millrace_tools.report.page import Page
from millrace_tools.report.scales import COLOURS
from profile_fixture import profile

pytestmark = [pytest.mark.slow]


@pytest.fixture(autouse=True, scope="module")
def browser() -> None:
    browser_or_skip()


def marks(elements: str) -> dict[str, list[str]]:
    """{zoom's name: the paths of that chart}."""
    charts = re.findall(r'<svg class="mr"[^>]*data-zoom="(\w+)".*?</svg>', elements)
    assert charts
    return {
        name: re.findall(r'<path[^>]* d="([^"]+)"', re.search(rf'data-zoom="{name}".*?</svg>', elements)[0])  # type: ignore[index]
        for name in charts
    }


def rgb(text: str) -> tuple[int, ...]:
    return tuple(int(text[i : i + 2], 16) for i in (1, 3, 5))


def colours_of(seen: Seen) -> Counter:
    return Counter({colour: count for count, colour in seen.picture.getcolors(2**24) or []})


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_run_can_be_seen(dark: bool, tmp_path: Path) -> None:
    seen = look(Report(profile(400), "add 3 threads").save(tmp_path / "report.html"), dark=dark, height=3200)
    assert seen.console == []
    drawn = marks(seen.elements)
    assert set(drawn) == {"loop", "seconds", "ready", "rate"}
    assert all(len(path) > 20 for paths in drawn.values() for path in paths)
    pixels = colours_of(seen)
    for stage in ("step", "wait", "decode", "fetch", "idle"):
        assert pixels[rgb(COLOURS[stage][dark])] > 300, f"{stage} is not to be seen"
    ground = pixels.most_common(1)[0][0]
    assert (sum(ground) < 150) == dark
    assert sum(count for colour, count in pixels.items() if abs(sum(colour) - sum(ground)) > 350) > 5000, (
        "texts do not stand out"
    )


@pytest.mark.parametrize(
    "case",
    [
        {"steps": 0},
        {"steps": 1},
        {"steps": 20, "running": True},
        {"steps": 30, "workers": 0},
        {"steps": 70_000},
    ],
    ids=str,
)
def test_any_run_opens_without_an_error(case: dict[str, Any], tmp_path: Path) -> None:
    seen = look(Report(profile(**case)).save(tmp_path / "report.html"))
    assert seen.console == []
    assert "Where the time went" in seen.elements
    assert len(colours_of(seen)) > 20


ZOOM = """
const box = document.querySelector(".zoomable"), svg = box.querySelector("svg");
const area = svg.getBoundingClientRect();
const send = (kind, share, more = {}) => box.dispatchEvent(new PointerEvent(kind, {bubbles: true, button: 0,
  clientX: area.left + area.width * (64 + share * (942 - 64)) / 960, clientY: area.top + 40, ...more}));
const said = (text) => Object.assign(document.createElement("p"), {className: "said", textContent: text});
const say = (text) => document.body.append(said(text));
send("pointermove", 0.5); say(document.querySelector(".tip").textContent);
send("pointerdown", 0.25); send("pointermove", 0.4); send("pointerup", 0.5);
say(`${box.dataset.from} ${box.dataset.to}`);
"""


def test_dragging_zooms_all_charts_and_hovering_tells_the_step(tmp_path: Path) -> None:
    found = profile(400)
    wall = found["wall_seconds"]
    page = loader_page(found, None)
    page.script(ZOOM)
    seen = look(page.save(tmp_path / "zoomed.html"))
    plain = look(Report(found).save(tmp_path / "plain.html"))
    assert seen.console == []
    tip, zoomed = re.findall(r'<p class="said">(.*?)</p>', seen.elements, re.DOTALL)
    step = max(i for i, s in enumerate(found["steps"]["enter"]) if s <= wall / 2)
    assert tip.startswith(f"step {step}, at") and "ready when it asked" in tip
    assert [float(s) for s in zoomed.split()] == pytest.approx([wall / 4, wall / 2], rel=0.01)
    before, after = marks(plain.elements), marks(seen.elements)
    assert all(before[name] != after[name] and all(after[name]) for name in before)
    assert "NaN" not in "".join(path for paths in after.values() for path in paths)


@pytest.mark.parametrize("key", ["-", "ArrowLeft"])
def test_keys_zoom_the_longest_run(key: str, tmp_path: Path) -> None:
    page = loader_page(profile(70_000), None)
    page.script(f"""
        const box = document.querySelector(".zoomable");
        for (const key of ["+", "+", "+", "{key}"]) box.dispatchEvent(new KeyboardEvent("keydown", {{key}}));
    """)
    seen = look(page.save(tmp_path / "keys.html"))
    begin, end = (float(re.search(rf'data-{edge}="([\d.]+)"', seen.elements)[1]) for edge in ("from", "to"))  # type: ignore[index]
    first, last = (float(re.search(rf'data-{edge}="([\d.]+)"', seen.elements)[1]) for edge in ("low", "high"))  # type: ignore[index]
    share = (end - begin) / (last - first)
    assert seen.console == [] and share == pytest.approx({"-": 1 / 4, "ArrowLeft": 1 / 8}[key], rel=1e-3)
    assert all(paths and all(paths) for paths in marks(seen.elements).values())


def test_the_charts_show_who_waited(tmp_path: Path) -> None:
    pink = []
    for seconds in (0.02, 1e-5):
        page = Report(profile(400, wait_seconds=seconds)).save(tmp_path / f"{seconds}.html")
        pink.append(colours_of(look(page))[rgb(COLOURS["wait"][0])])
    assert pink[0] > 3 * pink[1]


def test_the_numbers_can_be_saved(tmp_path: Path) -> None:
    found = profile(50)
    page = loader_page(found, None)
    page.script('document.querySelector("button[data-save]").click()')
    seen = look(page.save(tmp_path / "report.html"))
    assert seen.console == []
    assert json.loads(seen.saved["profile.json"])["steps"]["ready"] == found["steps"]["ready"]


def test_the_console_is_read_and_foreign_scripts_do_not_run(tmp_path: Path) -> None:
    page = Page("broken")
    page.section("evil", "<script>document.title = 'taken'</script>")
    page.script("throw new Error('on purpose')")
    seen = look(page.save(tmp_path / "broken.html"))
    assert any("on purpose" in line for line in seen.console)
    assert any("Content Security Policy" in line for line in seen.console)
    assert "taken</title>" not in seen.elements
