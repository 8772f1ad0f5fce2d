"""Charts and pages: what they draw is right, bounded and harmless, whatever goes in."""

from __future__ import annotations

import json
import math
import random
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace._common.regular_files import write_whole
from millrace_tools.report import svg
from millrace_tools.report.page import Page, pre, table
from millrace_tools.report.scales import Axis, Scale, amount, round_ticks

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "a</text><script>alert(1)</script>\"'&"
NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)
PROPERTY = settings(derandomize=True, deadline=None, max_examples=200)


def parsed(element: str) -> ElementTree.Element:
    return ElementTree.fromstring(element)


def paths(element: str) -> list[str]:
    return [path.get("d", "") for path in parsed(element).iter(f"{SVG}path")]


def texts(element: str) -> list[str]:
    return [text.text or "" for text in parsed(element).iter(f"{SVG}text")]


MANY = [float(i) for i in range(65_536)]
NOISE = [random.Random(1).random() for _ in MANY]
CHARTS = {
    "scatter": lambda name, xs, ys: svg.scatter({name: (xs, ys), "b": (xs, ys)}, Axis(name), Axis(name, "s")),
    "stacked": lambda name, xs, ys: svg.stacked_bars({name: dict(zip(["a", name], ys))}),
    "shares": lambda name, xs, ys: svg.stacked_bars({name: dict(zip(["a", name], ys))}, shares=True),
    "histogram": lambda name, xs, ys: svg.histogram({name: ys, "b": ys}, Axis(name, "s", log=True)),
}


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize(
    "values",
    [[], [0.0], [1.0], [math.nan], [math.inf, 2.0, -math.inf], [0.0, 0.0], [5.0, 5.0, 5.0], [1e-12, 1e15]],
)
def test_any_values_give_sound_xml_without_nan(chart: str, values: list[float]) -> None:
    element = CHARTS[chart](HOSTILE, [float(i) for i in range(len(values))], values)
    parsed(element)
    assert not re.search(
        r"\b(nan|inf)\b", re.sub(r"<text.*?</text>|<title>.*?</title>|data-\S+", "", element)
    )


@pytest.mark.parametrize("chart", CHARTS)
def test_texts_stay_texts(chart: str) -> None:
    element = CHARTS[chart](HOSTILE, [0.0, 1.0], [1.0, 2.0])
    assert "<script" not in element
    assert any(
        HOSTILE in text
        for text in [*texts(element), *(t.text or "" for t in parsed(element).iter(f"{SVG}title"))]
    )


@pytest.mark.parametrize("chart", CHARTS)
def test_65536_values_stay_small(chart: str) -> None:
    element = CHARTS[chart]("a", MANY, NOISE)
    parsed(element)
    assert 500 < len(element) < 400_000


def test_stacked_bars_are_as_long_as_their_values() -> None:
    chart = parsed(
        svg.stacked_bars({"one": {"decode": 3.0, "idle": 1.0}, "two": {"decode": 2.0}}, Axis("time", "s"))
    )
    widths = [float(r.get("width", 0)) for r in chart.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    assert widths[0] == pytest.approx(3 * widths[1], rel=1e-2)
    assert widths[2] == pytest.approx(2 * widths[1], rel=1e-2)


def test_a_stage_has_one_colour_everywhere() -> None:
    for element in (
        svg.stacked_bars({"a": {"x": 1, "decode": 1}}),
        svg.histogram({"decode": [1.0]}),
        svg.scatter({"decode": ([1.0], [1.0])}),
    ):
        assert "f-decode" in element


def test_a_histogram_counts_every_value() -> None:
    values = [0.001 * i for i in range(1, 500)] + [0.0]
    path = paths(svg.histogram({"a": values}, bins=10))[0]
    floor = float(re.match(r"M\S+ (\S+?)V", path)[1])  # type: ignore[index]
    heights = [floor - float(v) for v in re.findall(r"V([\d.]+)H", path)]
    assert sum(heights) / max(heights) == pytest.approx(10, rel=0.05)


@PROPERTY
@given(NUMBERS, st.floats(1e-9, 1e12), st.integers(2, 10))
def test_ticks_are_round_and_inside(low: float, span: float, most: int) -> None:
    high = low + span
    ticks = round_ticks(low, high, most)
    assert len(ticks) <= 2 * most + 2
    assert all(low - 1e-6 * span <= tick <= high + 1e-6 * span for tick in ticks) or span < 1e-9 * abs(low)


@PROPERTY
@given(st.floats(1e-9, 1e14), st.sampled_from(["s", "B", "B/s", "/s", "", "%", "apples"]))
def test_amounts_say_the_number(value: float, unit: str) -> None:
    number, factor = re.match(r"([\d,.e+-]+) ?(.*)", amount(value, unit)).groups()  # type: ignore[union-attr]
    factors = {
        "µs": 1e-6,
        "ms": 1e-3,
        "min": 60,
        "h": 3600,
        "k": 1e3,
        "M": 1e6,
        "G": 1e9,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
    }
    scaled = float(number.replace(",", "")) * factors.get(factor.removesuffix("/s"), 1)
    assert scaled == pytest.approx(value, rel=0.06, abs=0.006 if unit != "s" else 0)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123, "s", "12.3 ms"),
        (0.0, "s", "0 s"),
        (90.0, "s", "90 s"),
        (600.0, "s", "10 min"),
        (2.5 * 2**20, "B", "2.5 MiB"),
        (123_456.0, "", "123k"),
        (math.nan, "s", "–"),
        (1234.0, "", "1,234"),
        (38.0, "%", "38%"),
    ],
)
def test_amounts(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_log_axes_have_powers_of_ten() -> None:
    assert [text for _, text in Scale(Axis(unit="s", log=True), [2e-6, 0.5], 0, 100).ticks(10)][:2] == [
        "1 µs",
        "10 µs",
    ]


def test_a_page_holds_hostile_texts_as_texts_and_fetches_nothing() -> None:
    page = Page(HOSTILE, HOSTILE)
    page.tiles({HOSTILE: HOSTILE})
    page.callout(HOSTILE)
    page.section(HOSTILE, table([(HOSTILE, 1234)], (HOSTILE, "n")), pre(HOSTILE), note=HOSTILE)
    page.data("numbers", {HOSTILE: [HOSTILE, math.nan, 1.5]})
    html = page.html()
    assert html.count("<script>") == 1 and "alert(1)</script>" not in html and ">1,234<" in html
    data = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', html)
    assert data and json.loads(data[1]) == {HOSTILE: [HOSTILE, None, 1.5]}
    assert "default-src 'none'" in html and not re.search(
        r"""(src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", html
    )


@pytest.mark.parametrize("kind", ["no folder", "a file for a folder", "a folder"])
def test_a_page_that_cannot_be_written_says_where_and_why(tmp_path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    path = {
        "no folder": tmp_path / "none" / "x.html",
        "a file for a folder": tmp_path / "file" / "x.html",
        "a folder": tmp_path,
    }[kind]
    with pytest.raises(
        OSError, match=rf"cannot write {re.escape(str(path))}: .*; give a path in a folder that exists"
    ):
        Page("a").save(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_a_read_only_folder_keeps_the_errors_kind(tmp_path, monkeypatch) -> None:
    def refused(*_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.write_text", refused)
    with pytest.raises(PermissionError, match="cannot write .*Permission denied; give a path") as caught:
        write_whole(tmp_path / "x.html", "a")
    assert caught.value.errno == 13


def test_writing_replaces_a_file_whole(tmp_path) -> None:
    (tmp_path / "x.html").write_text("old")
    assert write_whole(tmp_path / "x.html", "new ü").read_text(encoding="utf-8") == "new ü"
    assert [p.name for p in tmp_path.iterdir()] == ["x.html"]
