"""Writes the measured numbers of README.md and docs from stored results.

    python -m benchmarks.pages            # writes them
    python -m benchmarks.pages --check    # exit status 1 where a page says something else

benchmarks/page_places.py lists what pages say: sentences with gaps, and tables between two comments, `<!--
NAME -->` and `<!-- /NAME -->`. A sentence is found by its words, wherever its lines break.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMBER = r"(-?\d[\d,]*(?:\.\d+)?)"  # what stands in a gap


@dataclass
class Said:
    """text: has {} for each of numbers(), which are given as they are printed."""

    page: str
    text: str
    numbers: Callable[[], tuple[str, ...]]

    def found(self, page: str) -> re.Match[str]:
        pattern = re.escape(" ".join(self.text.split())).replace(r"\{\}", NUMBER).replace(r"\ ", r"\s+")
        matches = list(re.finditer(pattern, page))
        if len(matches) != 1:
            raise ValueError(f"{self.page} has {len(matches)} times: {self.text}")
        return matches[0]

    def written(self, page: str) -> str:
        match, numbers = self.found(page), self.numbers()
        if len(numbers) != len(match.groups()):
            raise ValueError(f"{self.page}: {len(numbers)} numbers for: {self.text}")
        ends = [0, *(place for number in range(len(numbers)) for place in match.span(number + 1)), len(page)]
        between = [page[begin:end] for begin, end in list(pairwise(ends))[::2]]
        return "".join(part for each in zip(between, [*numbers, ""], strict=True) for part in each)


@dataclass
class Table:
    page: str
    name: str
    rows: Callable[[], str]

    def found(self, page: str) -> re.Match[str]:
        match = re.search(rf"<!-- {self.name} -->\n(.*?)\n<!-- /{self.name} -->", page, re.DOTALL)
        if match is None:
            raise ValueError(f"{self.page} has no lines <!-- {self.name} --> and <!-- /{self.name} -->")
        return match

    def written(self, page: str) -> str:
        begin, end = self.found(page).span(1)
        return page[:begin] + self.rows() + page[end:]


def written() -> Iterator[tuple[Path, str]]:
    """Each page that has stored numbers, and what it should say."""
    from benchmarks.page_places import PLACES

    for name in dict.fromkeys(place.page for place in PLACES):
        text = (ROOT / name).read_text()
        for place in PLACES:
            if place.page == name:
                text = place.written(text)
        yield ROOT / name, text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = [(path, text) for path, text in written() if path.read_text() != text]
    for path, text in stale:
        if not check:
            path.write_text(text)
        print(path.relative_to(ROOT), "is not what the results say" if check else "is written")
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
