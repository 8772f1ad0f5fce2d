"""Every native operation against Pillow, torchvision and timm, on random pictures with random arguments.

    python tests/fuzz/operations_against_libraries.py [--count 2000] [--seed 1] [--only NAME] [--out F.json]

The pictures (1 to 300 pixels a side; photos, noise, plain colours, two colours; grey, with transparency, with
a palette, turned by EXIF) are PNGs of an ImageFolder, of which the engine makes rows (those of `ds.at`). The
libraries make them of what Pillow opens, with the numbers that `ds.draw` lists. Prints a table: by operation
(those of operation_cases.py), how many pictures and values differ, and by how much at most. Exits with 1
where that is more than MOST says: nothing, but for few.

Bytes are compared as levels, floats as values. "refused by both": the engine has an error where the library
has one, too.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("python", "parity", "fuzz")]
from loader_data import torchvision_or_skip  # noqa: E402

torchvision_or_skip()
import numpy as np  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from by_libraries import by_libraries  # noqa: E402
from millrace import UnavailableError  # noqa: E402
from millrace.datasets import ImageFolder  # noqa: E402
from operation_cases import BYTES, CASES  # noqa: E402
from pictures import make_picture  # noqa: E402
from PIL import Image, ImageOps  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

LONGEST = 300
SAME_ARGUMENTS = 10  # pictures, one after the other
# The largest difference, and the share of values that may differ, where these are not 0; docs/native.md: why.
MOST = {"GaussianBlur": (1, 1e-3)}


@dataclass
class Row:
    """Counts of an operation."""

    operation: str
    pictures: int = 0
    refused_by_both: int = 0
    other_pictures: int = 0
    values: int = 0
    other_values: int = 0
    largest: float = 0
    violations: int = 0

    def add(self, found: torch.Tensor, expected: torch.Tensor) -> bool:
        """Whether they are the same."""
        self.pictures += 1
        self.values += expected.numel()
        if found.dtype == expected.dtype and torch.equal(found, expected):
            return True
        self.other_pictures += 1
        if found.shape != expected.shape or found.dtype != expected.dtype:
            self.other_values += expected.numel()
            self.largest = max(self.largest, 256)
        else:
            apart = (found.double() - expected.double()).abs()
            self.other_values += int((apart > 0).sum())
            self.largest = max(self.largest, float(apart.max()))
        return False

    def is_allowed(self) -> bool:
        largest, share = MOST.get(self.operation, (0, 0))
        return self.largest <= largest and self.other_values <= share * self.values


def make_files(folder: Path, count: int, seed: int) -> None:
    """Pictures of all kinds, as PNGs of one class."""
    (folder / "all").mkdir(parents=True)
    rng, arrays = random.Random(seed), np.random.default_rng(seed)
    for i in range(count):
        width, height = (round(LONGEST ** rng.random()) for _ in range(2))  # as many of each magnitude
        noise = arrays.integers(0, 256, (height, width, 4), dtype=np.uint8)
        match rng.choice(["photo", "photo", "noise", "plain", "two colours", "transparent"]):
            case "photo":
                picture = make_picture(width, height, seed=seed + i)
            case "noise":
                picture = Image.fromarray(noise[..., :3].copy())
            case "plain":
                picture = Image.new("RGB", (width, height), tuple(int(v) for v in noise[0, 0, :3]))
            case "two colours":
                picture = Image.fromarray(np.where(noise[..., 3:] < 90, noise[0, 0, :3], noise[-1, -1, :3]))
            case "transparent":
                picture = make_picture(width, height, seed=seed + i)
                picture.putalpha(Image.fromarray(noise[..., 3]))
        if picture.mode == "RGB":
            picture = picture.convert(rng.choice(["RGB", "RGB", "RGB", "L", "P"]))
        exif = Image.Exif()
        exif[0x0112] = rng.randint(1, 8)
        picture.save(folder / "all" / f"{i:05}.png", exif=exif, compress_level=1)


class Judge:
    """Compares samples of the folder; `wrong`: what differs where it may not, with what makes it again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.plain, self.turned = ImageFolder(folder), ImageFolder(folder, exif=True)
        self.seed = seed
        self.wrong: list[str] = []
        self.engine: Any = None  # of the arguments that are in use
        self.pictures: list[Image.Image] = []
        self.upright: list[Image.Image] = []
        for path, _ in self.plain.samples:
            with Image.open(path) as image:
                self.pictures.append(image.convert("RGB"))
                self.upright.append(ImageOps.exif_transpose(image).convert("RGB"))

    def row(self, name: str, count: int, same_arguments: int) -> Row:
        row, rng = Row(name), random.Random(f"{self.seed} {name}")
        for first in range(0, count, same_arguments):
            steps = self._begin(name, CASES[name](rng))
            for index in range(first, min(first + same_arguments, count)):
                if not self._same(row, steps, index) and name not in MOST:
                    row.violations += 1
                    self.wrong.append(f"{name}: picture {index}, {steps}")
        if not row.is_allowed():
            row.violations += 1
            self.wrong.append(f"{name}: {row}")
        return row

    def _begin(self, name: str, steps: list[Any]) -> list[Any]:
        """The steps with a conversion at their end; and the engine, as ds.at() and ds.draw() ask it."""
        names = [type(step).__name__ for step in steps]
        if not any("ToTensor" in step or step == "ToImage" for step in names):
            steps = [*steps, BYTES]
        data = self.turned if name == "exif=True" else self.plain
        data.transform = v2.Compose(steps)
        try:
            self.engine = data.native()
        except UnavailableError as error:
            self.engine = error
        return steps

    def _same(self, row: Row, steps: list[Any], index: int) -> bool:
        turned = row.operation == "exif=True"
        expected: Any = (self.upright if turned else self.pictures)[index]
        try:
            if isinstance(self.engine, Exception):
                raise self.engine
            found = self.engine.row(index, self.seed, 0)
        except Exception as error:  # then the library has to refuse it, too, whatever it draws
            row.pictures += 1
            return self._refused(row, steps, expected, error)
        decided = iter(self.engine.draw(index, self.seed, 0))
        if turned:
            next(decided)
        for step in steps:
            expected = by_libraries(expected, step, decided)
        if next(decided, None) is not None:
            raise AssertionError(f"{row.operation}: more was drawn than there are steps")
        return row.add(found.as_subclass(torch.Tensor), torch.as_tensor(expected).as_subclass(torch.Tensor))

    def _refused(self, row: Row, steps: list[Any], picture: Image.Image, error: Exception) -> bool:
        for _ in range(100):
            try:
                v2.Compose(steps)(picture)
            except Exception:
                row.refused_by_both += 1
                return True
        self.wrong.append(f"{row.operation}: refused here only: {error}")
        return False


def lines(rows: list[Row]) -> Iterator[str]:
    names = [name for name in asdict(Row("")) if name != "operation"]
    yield f"{'':46}" + "".join(f"{name.replace('_', ' '):>17}" for name in names)
    for row in rows:
        yield f"{row.operation:46}" + "".join(f"{getattr(row, name):>17.6g}" for name in names)


def run(
    count: int,
    seed: int,
    only: str = "",
    progress: Callable[[str], None] = lambda line: None,
    same_arguments: int = SAME_ARGUMENTS,
) -> tuple[list[Row], list[str]]:
    """(the rows, what differs and may not)."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), count, seed)
        judge = Judge(Path(folder), seed)
        for name in CASES:
            if only in name:
                rows.append(judge.row(name, count, same_arguments))
                progress(next(reversed(list(lines(rows[-1:])))))
    return rows, judge.wrong


def write(out: Path, count: int, seed: int, rows: list[Row]) -> None:
    """The counts, in the order of CASES. Each row is a run of its own: those of other operations stay, where
    they are of the same count, seed and versions.
    """
    versions = {"pillow": Image.__version__, "torchvision": torchvision.__version__}
    facts = {"count": count, "seed": seed, **versions, "timm": timm.__version__}
    by_name: dict[str, Any] = {}
    stored = json.loads(out.read_text()) if out.exists() else {}
    if all(stored.get(name) == value for name, value in facts.items()):
        by_name = {row["operation"]: row for row in stored["operations"]}
    by_name |= {row.operation: asdict(row) for row in rows}
    made = ",\n".join("  " + json.dumps(by_name[name]) for name in CASES if name in by_name)
    out.write_text(json.dumps(facts)[:-1] + ', "operations": [\n' + made + "\n]}\n")


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="operations in whose name this is")
    parser.add_argument("--out", type=Path, help="write the counts there, as JSON; others' rows stay there")
    options = parser.parse_args(None if arguments is None else list(arguments))
    start = time.monotonic()

    def progress(line: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {line}", file=sys.stderr)

    rows, wrong = run(options.count, options.seed, options.only, progress)
    print(*lines(rows), *(wrong[:200] or ["no violation"]), sep="\n")
    if options.out:
        write(options.out, options.count, options.seed, rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
