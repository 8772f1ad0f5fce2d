"""Damaged pictures that wait, compared with Pillow alone: which call raises what, and the pixels.

    python tests/fuzz/lazy_against_pillow.py [--count 5000] [--seed 1] [--format jpeg] [--out FILE.json]

Each mutant (picture_mutants.py) is opened, and goes through every way of WAYS, with Pillow alone and while
pictures wait. Prints counts and exits with 1 when anything differs but an error that comes at an earlier
call: another type or text, an error at a later call or on one side alone, other pixels, other warnings.
"""

from __future__ import annotations

import argparse
import collections
import io
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from millrace._pictures import asking
from millrace._pictures.counts import PictureCounts
from picture_mutants import SUFFIXES, Mutant, mutants
from PIL import Image

Step = Callable[[Any], Any]
WAYS: dict[str, list[Step]] = {
    "convert": [lambda image: image.convert("RGB"), np.asarray],
    "load": [lambda image: (image.load(), image)[1], np.asarray],
    "crop": [
        lambda image: image.convert("RGB"),
        lambda image: image.crop(
            (image.width // 3, image.height // 4, image.width, image.height * 3 // 4 + 1)
        ),
        lambda image: image.resize((24, 20)),
        np.asarray,
    ],
    "second look": [
        lambda image: image.convert("RGB"),
        lambda image: (image.getpixel((0, 0)), image)[1],
        np.asarray,
    ],
}
Told = tuple[
    int, str, str, np.ndarray | None, list[str]
]  # calls that were made, error, its text, pixels, warnings


def told(data: bytes, way: str) -> Told:
    """What a script sees that goes this way."""
    value: Any = io.BytesIO(data)
    done = 0
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            for step in (Image.open, *WAYS[way]):
                value = step(value)
                done += 1
        except Exception as error:
            text = str(error).replace(hex(id(value)), "")
            return done, type(error).__name__, text, None, [str(warning.message) for warning in seen]
    return done, "", "", value.copy(), [str(warning.message) for warning in seen]


def compared(here: Told, there: Told) -> str:
    """In one or two words; "" where a script sees no difference."""
    if bool(here[1]) != bool(there[1]):
        return "only here" if here[1] else "only Pillow"
    if here[1:3] != there[1:3]:
        return "other error"
    if here[0] != there[0]:
        return "earlier" if here[0] < there[0] else "later"
    if here[3] is not None and (here[3].shape != there[3].shape or not np.array_equal(here[3], there[3])):
        return "other pixels"
    return "" if here[4] == there[4] else "other warnings"


def in_words(what: Told) -> str:
    done, error, text, _, seen = what
    return f"{error or 'pixels'} {text[:90]} after {done} calls{' and warnings' if seen else ''}"


COLUMNS = ("pictures", "refused", "waited", "judged by Pillow")
DIFFERENT = ("earlier", "later", "only here", "only Pillow", "other error", "other pixels", "other warnings")


class Table:
    """Counts per (format, mutation); `wrong` lists what differs, as (what, way, mutant)."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )
        self.wrong: list[tuple[str, str, Mutant]] = []
        self._told: list[tuple[str, str]] = []  # of these: here, by Pillow

    def kinds(self) -> dict[tuple[str, str, str, str], list[Mutant]]:
        """Those that differ alike."""
        found: dict[tuple[str, str, str, str], list[Mutant]] = collections.defaultdict(list)
        for (what, way, mutant), words in zip(self.wrong, self._told):
            found[(what, way, *words)].append(mutant)
        return found

    def add(self, mutant: Mutant) -> None:
        count = self.counts[mutant.format, mutant.mutation]
        alone = {way: told(mutant.data, way) for way in WAYS}
        pictures = PictureCounts()
        asking.everywhere(pictures)
        try:
            lazy = {way: told(mutant.data, way) for way in WAYS}
        finally:
            asking.everywhere(None)
            asking.put_back()
        count["pictures"] += 1
        count["refused"] += bool(alone["convert"][1])
        count["waited"] += pictures.opened > 0
        count["judged by Pillow"] += pictures.opened > 0 and not (
            pictures.decoded_in_part + pictures.decoded_whole
        )
        for way in WAYS:
            if what := compared(lazy[way], alone[way]):
                count[what] += 1
                self.wrong.append((what, way, mutant))
                self._told.append((in_words(lazy[way]), in_words(alone[way])))

    def total(self, column: str) -> int:
        return sum(count[column] for count in self.counts.values())

    def violations(self) -> list[str]:
        return [f"{what}: {n}" for what in DIFFERENT[1:] if (n := self.total(what))]

    def lines(self) -> Iterator[str]:
        columns = COLUMNS + DIFFERENT
        yield f"{'format':7}{'mutation':16}" + "".join(f"{name:>17}" for name in columns)
        for key in sorted(self.counts):
            yield f"{key[0]:7}{key[1]:16}" + "".join(f"{self.counts[key][name]:>17}" for name in columns)


def run(
    count: int,
    seed: int,
    formats: tuple[str, ...] = ("jpeg",),
    progress: Callable[[str], None] = lambda line: None,
) -> Table:
    table = Table()
    endless = mutants(sys.maxsize, seed)
    wanted = (mutant for mutant in endless if mutant.format in formats)
    for done, mutant in enumerate(itertools.islice(wanted, count), 1):
        table.add(mutant)
        if done % 500 == 0:
            progress(f"{done} of {count}: {len(table.wrong)} differ")
    return table


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=sorted(SUFFIXES), action="append")
    parser.add_argument("--out", type=Path, help="write the counts there, as JSON")
    parser.add_argument("--keep", type=Path, help="write the mutants that differ into this folder")
    options = parser.parse_args(None if arguments is None else list(arguments))
    start = time.monotonic()
    table = run(
        options.count,
        options.seed,
        tuple(options.format or ["jpeg"]),
        lambda line: print(f"{time.monotonic() - start:6.0f} s  {line}", file=sys.stderr),
    )
    print(*table.lines(), sep="\n")
    for kind, alike in table.kinds().items():
        print(
            f"{len(alike)} times {kind[0]} ({kind[1]}): {kind[2]} here, {kind[3]} by Pillow, as of", end=" "
        )
        print(", ".join(f"{mutant.seed} ({mutant.mutation})" for mutant in alike[:3]))
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        for i, (what, way, mutant) in enumerate(table.wrong):
            name = f"{i:05} {what} {way}{SUFFIXES[mutant.format]}"
            (options.keep / name).write_bytes(mutant.data)
    violations = table.violations()
    print(*(violations or ["no violation"]), sep="\n")
    if options.out:
        columns = COLUMNS + DIFFERENT
        counts = [
            dict(zip(("format", "mutation"), key)) | {c: table.counts[key][c] for c in columns}
            for key in sorted(table.counts)
        ]
        facts = {"count": options.count, "seed": options.seed, "pillow": Image.__version__}
        lines = ",\n".join("  " + json.dumps(row) for row in counts)
        text = json.dumps(facts | {"violations": violations})[:-1] + ', "counts": [\n' + lines + "\n]}\n"
        options.out.write_text(text)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
