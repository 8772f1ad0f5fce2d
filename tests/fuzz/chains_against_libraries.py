"""Random chains of native steps against Pillow and torchvision, with the engine's own draws.

    python tests/fuzz/chains_against_libraries.py [--count 2000] [--seed 1] [--first N] [--out F.json]

A chain has 1 to 6 steps that change the picture, of torchvision (v1, v2) and of millrace, some of them held
by RandomApply, RandomChoice and RandomOrder, then a conversion to a tensor of some kind and what may follow.
Each is made of PICTURES pictures of operations_against_libraries.py, by the engine and by the libraries with
the numbers that `ds.draw` lists. A chain that has no native form is counted, and another one drawn. Exits
with 1 where values differ, or where one side alone refuses a picture.

With --out the counts are stored every 50 chains, and a run that was stopped goes on behind these; --first
begins with a chain by its number, to see it again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("python", "parity", "fuzz")]
from loader_data import torchvision_or_skip  # noqa: E402

torchvision_or_skip()
import operation_cases as cases  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from millrace import UnavailableError  # noqa: E402
from millrace import transforms as ours  # noqa: E402
from operations_against_libraries import Judge, Row, make_files  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

PICTURES = 3  # of each chain
IN_ALL = 240  # pictures, from which those are drawn
STORED_EACH = 50  # chains
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
Steps = list[Any]


def _ours(rng: random.Random) -> Steps:
    """A step of millrace's own classes."""
    side = rng.randint(4, 90)
    return [
        rng.choice(
            [
                ours.Resize((side, rng.randint(4, 90)), rng.choice(["nearest", "bilinear", "bicubic"])),
                ours.RandomResizedCrop(side, interpolation=rng.choice(["nearest", "bilinear", "bicubic"])),
                ours.CenterCrop(side),
                ours.RandomCrop(side, pad_if_needed=True, fill=rng.randint(0, 255)),
                ours.Pad(rng.randint(0, 20), padding_mode=rng.choice(cases.PADDINGS)),
                ours.RandomHorizontalFlip(),
                ours.RandomVerticalFlip(),
                ours.ColorJitter(0.4, 0.4, 0.4, 0.1),
                ours.RandomGrayscale(0.5),
                ours.RandomAffine(20, (0.2, 0.1), (0.7, 1.3), 10, rng.choice(["nearest", "bilinear"])),
                ours.TrivialAugmentWide(),
                ours.RandAugment(2, 9),
            ]
        )
    ]


_OPERATIONS = ("Resize", "CenterCrop", "RandomCrop", "Pad", "RandomZoomOut", "RandomHorizontalFlip")
_OPERATIONS += ("RandomVerticalFlip", "RandomResizedCrop", "RandomShortestSize, ScaleJitter, RandomResize")
_OPERATIONS += ("ColorJitter", "RandomPhotometricDistort", "Grayscale", "RandomGrayscale", "RandomRotation")
_OPERATIONS += ("RandomAffine", "RandomPerspective", "RandomInvert, ... RandomEqualize")
_OPERATIONS += ("RandAugment, TrivialAugmentWide, AutoAugment",)
PICTURE_STEPS: list[cases.Make] = [*(cases.CASES[name] for name in _OPERATIONS), _ours, _ours, _ours]


def _step(rng: random.Random, depth: int = 0) -> Steps:
    if depth == 2 or rng.random() < 0.8:
        return rng.choice(PICTURE_STEPS)(rng)
    parts = [step for _ in range(rng.randint(1, 3)) for step in _step(rng, depth + 1)]
    t = rng.choice([v1, v2, ours])
    weights = None if rng.random() < 0.5 else [rng.uniform(0.1, 2) for _ in parts]
    holders = [t.RandomApply(parts, rng.choice([0.0, 0.5, 1.0])), t.RandomChoice(parts, weights)]
    return [rng.choice([*holders, t.RandomOrder(parts), t.Compose(parts)])]


def _tail(rng: random.Random) -> Steps:
    """The conversion, and steps of a tensor."""
    moved = rng.choice([[], [], [v1.RandomHorizontalFlip()], [v2.RandomVerticalFlip()], [v2.CenterCrop(31)]])
    match rng.randrange(5):
        case 0:
            return [rng.choice([v1.PILToTensor(), v2.ToImage(), ours.PILToTensor()]), *moved]
        case 1:
            return [rng.choice([v1.ToTensor(), ours.ToTensor()]), *moved]
        case 2:
            return [v2.ToImage(), *moved, v2.ToDtype(rng.choice(cases.FLOATS), scale=True)]
        case 3:
            size = [rng.randint(2, 60), rng.randint(2, 60)]
            return [v2.ToImage(), v2.Resize(size, antialias=True), *moved]
    erasing = rng.choice([[], [v1.RandomErasing(0.9, value=rng.uniform(-2, 2))]])
    return [v1.ToTensor(), *moved, rng.choice([v1, v2, ours]).Normalize(MEAN, STD), *erasing]


def chain(rng: random.Random) -> Steps:
    picture = [step for _ in range(rng.randint(1, 6)) for step in _step(rng)]
    return [*picture, *_tail(rng)]


def names_of(steps: Iterable[Any]) -> Iterable[str]:
    """The classes of all steps, those that are held included."""
    for step in steps:
        yield f"{type(step).__module__.split('.')[0]}.{type(step).__name__}"
        yield from names_of(getattr(step, "transforms", ()))


@dataclass
class Counts:
    """`chains` that were compared; `row`: of their pictures; `steps`: of each class, in how many chains."""

    chains: int = 0
    not_native: int = 0
    row: Row = field(default_factory=lambda: Row("chains"))
    steps: Counter[str] = field(default_factory=Counter)


class ChainJudge(Judge):
    def compare(self, number: int, counts: Counts) -> None:
        rng = random.Random(f"{self.seed} {number}")
        while True:
            steps = self._begin("chain", chain(rng))
            if not isinstance(self.engine, UnavailableError):
                break
            counts.not_native += 1
        before = len(self.wrong)
        for index in rng.sample(range(len(self.pictures)), PICTURES):
            if not self._same(counts.row, steps, index) and len(self.wrong) == before:
                self.wrong.append(f"chain {number}: picture {index}, {steps}")
        counts.row.violations += len(self.wrong) - before
        counts.chains += 1
        counts.steps.update(set(names_of(steps)))


def facts(seed: int) -> dict[str, Any]:
    return {"seed": seed, "pillow": Image.__version__, "torchvision": torchvision.__version__}


def read(out: Path, seed: int) -> Counts:
    """The counts so far, of the same chains."""
    stored = json.loads(out.read_text()) if out.exists() else {}
    if any(stored.get(name) != value for name, value in facts(seed).items()):
        return Counts()
    row = Row(**stored["pictures"])
    return Counts(stored["chains"], stored["not_native"], row, Counter(stored["steps"]))


def write(out: Path, seed: int, counts: Counts) -> None:
    steps = dict(sorted(counts.steps.items()))
    made = {**facts(seed), "chains": counts.chains, "not_native": counts.not_native}
    out.write_text(json.dumps(made | {"pictures": asdict(counts.row), "steps": steps}, indent=1) + "\n")


def run(
    count: int,
    seed: int,
    first: int = 0,
    out: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[Counts, list[str]]:
    """(the counts, what differs)."""
    counts = Counts() if out is None else read(out, seed)
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), IN_ALL, seed)
        judge = ChainJudge(Path(folder), seed)
        for number in range(max(first, counts.chains), first + count):
            judge.compare(number, counts)
            if counts.chains % STORED_EACH == 0 or number == first + count - 1:
                progress(f"{counts.chains} chains, {len(judge.wrong)} wrong")
                if out is not None:
                    write(out, seed, counts)
    return counts, judge.wrong


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first chain; not with --out")
    parser.add_argument("--out", type=Path, help="the counts as JSON, behind which a run goes on")
    options = parser.parse_args(None if arguments is None else list(arguments))
    start = time.monotonic()

    def progress(line: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {line}", file=sys.stderr, flush=True)

    torch.manual_seed(options.seed)
    counts, wrong = run(options.count, options.seed, options.first, options.out, progress)
    print(counts, *(wrong[:200] or ["no violation"]), sep="\n")
    return 1 if counts.row.violations else 0


if __name__ == "__main__":
    sys.exit(main())
