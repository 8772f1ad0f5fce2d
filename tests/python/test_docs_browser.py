"""The documentation's site in a browser: its search finds pages without a server, and every link of every
page opens what it says.
"""

from __future__ import annotations

import functools
import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from browser import browser_or_skip, look
from docs_site import ROOT, Site, build
from PIL import Image

pytestmark = pytest.mark.slow

# Opens one page after the other in a frame, and asks for the places that their links name.
CRAWLER = """<!doctype html><title>Crawler</title><pre id="out"></pre><iframe id="frame"></iframe><script>
const frame = document.getElementById("frame"), out = {pages: 0, links: 0, wrong: [], searchable: 0};
const open = (address) => new Promise((done) => {
  frame.onload = () => done(frame.contentDocument);
  frame.src = address; });
async function crawl() {
  const seen = new Map(), waiting = [new URL("index.html", location.href).href], named = [];
  while (waiting.length) {
    const address = waiting.pop();
    if (seen.has(address)) continue;
    const page = await open(address);
    const found = page.querySelector("main h1, article h1") !== null;
    if (!found) out.wrong.push("no page: " + address);
    const places = [...page.querySelectorAll("[id], [name]")];
    seen.set(address, new Set(places.flatMap((e) => [e.id, e.name])));
    out.pages++;
    out.searchable += page.querySelector("input[data-md-component=search-query]") !== null;
    for (const link of page.querySelectorAll("a[href]")) {
      const target = new URL(link.href);
      if (target.origin !== location.origin) continue;
      out.links++;
      const [place, anchor] = target.href.split("#");
      if (/[.]html$/.test(target.pathname)) {
        waiting.push(place);
        if (anchor) named.push([address, place, anchor]);
      } else if (!(await fetch(place, {method: "HEAD"})).ok) out.wrong.push(address + " -> " + place);
    }
  }
  for (const [from, place, anchor] of named)
    if (!seen.get(place)?.has(decodeURIComponent(anchor)))
      out.wrong.push(from + " -> " + place + "#" + anchor);
}
crawl().catch((error) => out.wrong.push(String(error))).finally(() => {
  document.getElementById("out").textContent = JSON.stringify(out); });
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    browser_or_skip()
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return Site(folder)


@pytest.fixture
def server(site: Site) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    handler = functools.partial(Quiet, directory=str(site.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


def results_of(site: Site, words: str) -> list[str]:
    page = site.folder / "index.html"
    seen = look(page, address=f"{page.as_uri()}?q={words}", budget_ms=8000)
    assert not seen.console, seen.console
    links = re.findall(r'<a href="([^"]*)" class="md-search-result__link"', seen.elements)
    return [unescape(link).partition("/site")[2].partition("/")[2] for link in links]


def test_the_search_finds_pages_on_a_disk(site: Site) -> None:
    """From a file: address, where browsers start no worker and fetch nothing."""
    for words, page, anchor in (
        ("transcode_jpeg", "api/millrace.html", "millrace.transcode_jpeg"),
        ("migrate+DALI", "migrate/dali.html", ""),
        ("bottleneck", "slow.html", ""),
    ):
        found = results_of(site, words)
        assert any(link.startswith(page) and link.endswith(anchor) for link in found), (words, found)
    assert not results_of(site, "nosuchwordanywhere")


@pytest.mark.slow
def test_the_picture_of_a_report_can_be_drawn_again(tmp_path: Path) -> None:
    browser_or_skip()
    script = ROOT / "scripts" / "docs" / "report_picture.py"
    picture = tmp_path / "report.png"
    subprocess.run([sys.executable, script, "--out", picture], check=True, timeout=200, capture_output=True)
    with Image.open(picture) as drawn, Image.open(ROOT / "docs" / "report.png") as stored:
        assert drawn.size == stored.size
        assert len(drawn.convert("RGB").getcolors(1 << 20)) > 20, "an empty page"


@pytest.mark.slow
def test_every_link_opens_in_a_browser(site: Site, server: str) -> None:
    (site.folder / "crawler.html").write_text(CRAWLER)
    seen = look(site.folder / "crawler.html", address=f"{server}/crawler.html", budget_ms=600_000)
    found = json.loads(
        unescape(re.search(r'<pre id="out">(.*?)</pre>', seen.elements, re.DOTALL)[1] or "null")
    )
    assert found, "the crawl did not end"
    assert not found["wrong"]
    own = len(site.pages) - 1  # but 404.html
    assert found["pages"] == own == found["searchable"] and found["links"] > 1000
