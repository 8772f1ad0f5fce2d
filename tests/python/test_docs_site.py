"""The documentation's site: it is built without a warning, its links hold, its search knows every page, and
it fetches nothing.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from docs_site import ROOT, Site, build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return Site(folder)


def test_each_page_of_docs_is_a_page_of_the_site(site: Site) -> None:
    sources = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert sources and not [name for name in sources if not (site.folder / name).is_file()]


def test_links_and_anchors_lead_somewhere(site: Site) -> None:
    assert len(site.pages) > 50 and sum(len(page.links) for page in site.pages.values()) > 1000
    assert not site.broken()


def test_nothing_is_fetched_from_elsewhere(site: Site) -> None:
    outside = {
        (path.name, address)
        for path, page in site.pages.items()
        for address in page.loaded
        if urlsplit(address).netloc
    }
    assert not outside


def test_the_search_knows_every_page(site: Site) -> None:
    found = {entry["location"].partition("#")[0] for entry in site.index()}
    pages = {str(path.relative_to(site.folder.resolve())) for path in site.pages} - {"404.html"}
    assert pages == found | ({"index.html"} if "" in found else set()) - {""}
    assert (site.folder / "search" / "search_index.js").is_file(), (
        "the index as a script, for file: addresses"
    )


def test_the_reference_has_every_public_name(site: Site) -> None:
    import api_pages

    anchors = {name for page in site.pages.values() for name in page.names}
    for package in api_pages.PACKAGES.values():
        names = api_pages.public_names(package)
        assert names and not [name for name in names if f"{package}.{name}" not in anchors]


def test_each_package_is_in_the_reference() -> None:
    import api_pages

    stubs = {
        ".".join(("millrace", *path.parent.relative_to(ROOT / "python/millrace").parts))
        for path in (ROOT / "python/millrace").rglob("__init__.pyi")
        if "/_" not in str(path.parent)  # private ones are for those who import less
    }
    assert stubs <= set(api_pages.PACKAGES.values())


def test_a_fault_stops_the_build(tmp_path: Path) -> None:
    """What --strict is for: a link and an anchor that lead nowhere, and a page that the menu has not."""
    copy = tmp_path / "repository"
    shutil.copytree(ROOT / "docs", copy / "docs")
    for name in ("scripts", "benchmarks", "examples", "tests", "src", "README.md", "CHANGELOG.md"):
        (copy / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "mkdocs.yml", copy)
    page = copy / "docs" / "faq.md"
    page.write_text(page.read_text() + "\n[a](nowhere.md) and [b](slow.md#nowhere)\n")
    (copy / "docs" / "forgotten.md").write_text("# Forgotten\n")
    done = build(tmp_path / "site", copy / "mkdocs.yml")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr and "#nowhere" in done.stderr and "forgotten.md" in done.stderr


def test_a_docstring_becomes_markdown() -> None:
    import docstrings

    doc = """Does <this> with `x`, see `Other` and docs/slow.md.

Args:
    x: a row, float32 [n, 3]; *not* a
        column. y_z: the rest.
    y, z: numbers.

>>> f(1)
2

Raises:
    ValueError: {x} is empty."""
    links = {"Other": "#there"}
    text = docstrings.markdown(doc, {"x": "Tensor", "y": "int = 1"}, links.get)
    assert "Does &lt;this&gt; with `x`, see [`Other`](#there) and [slow.md](../slow.md)." in text
    assert r"- **`x`** (`Tensor`): a row, float32 \[n, 3\]; \*not\* a column. y\_z: the rest." in text
    assert "- **`y`**, **`z`**: numbers." in text and "```python\n>>> f(1)\n2\n```" in text
    assert "**Errors**\n\n- **`ValueError`**: &#123;x} is empty." in text
    assert re.search(r"\*\*Arguments\*\*\n\n- ", text)


def test_a_signature_is_that_of_the_source() -> None:
    import api_pages
    from millrace import Pad, samplers

    assert api_pages.signature("Pad", Pad).startswith(
        "Pad(\n    values: Values = 0,\n    to: int | None = None,\n"
    )
    assert api_pages.signature("f", samplers.weights_from_labels).endswith(") -> torch.Tensor")
    assert set(api_pages.members(samplers.ShuffleBuffer)) >= set()
    assert "state_dict" in api_pages.members(samplers.PermutationSampler), "what it has from its base, too"
