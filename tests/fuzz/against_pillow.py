"""Damaged pictures through the loader, compared with Pillow: who refuses which, and the pixels of what both
take.

    python tests/fuzz/against_pillow.py [--count 20000] [--seed 1] [--out FILE.json]

Each mutant (picture_mutants.py) goes through DataLoader and ImageFolder with native transforms once under
each policy: whole pictures under on_error="raise", resized ones under "replace" and "skip"; and once more as
random crops, whose boxes are those of ds.draw(). A part of them goes through tar shards too, as a stream and
with random access. Prints a table and exits with 1 when more than one in a thousand is refused by one side
alone, or when a pixel differs: by anything for whole pictures, by more than one level for resized ones.

"behind the crop" is what docs/native.md allows: a PNG or WebP refused by Pillow for damage behind a crop's
last row.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Optional

import millrace
import numpy as np
import torch
from millrace import DataLoader, _core, transforms
from millrace.datasets import ImageFolder, WebDataset
from millrace.datasets.webdataset import ignore_and_continue
from picture_mutants import SUFFIXES, Mutant, mutants
from PIL import Image

SIZE = 24
WAYS = (
    ("raise", "raise", "whole"),
    ("replace", "replace", "resize"),
    ("skip", "skip", "resize"),
    ("crops", "skip", "crop"),
)
CHUNK = 500
MOST_REFUSED_BY_ONE = 0.001
Verdict = Optional[np.ndarray]  # a picture by Pillow, or None: refused


def by_pillow(data: bytes) -> Verdict:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))
    except Exception:  # nearly every type
        return None


def chain(how: str) -> transforms.Compose:
    stages = {
        "whole": [],
        "resize": [transforms.Resize((SIZE, SIZE))],
        "crop": [transforms.RandomResizedCrop(SIZE)],
    }[how]
    return transforms.Compose([*stages, transforms.PILToTensor()])


def apart(row: torch.Tensor, expected: np.ndarray) -> int:
    """The largest difference of two pictures; 256 where they have other shapes."""
    got = row.numpy().transpose(1, 2, 0)
    return int(np.abs(got.astype(np.int16) - expected).max()) if got.shape == expected.shape else 256


def resized(picture: np.ndarray, box: dict[str, int] | None = None) -> np.ndarray:
    image = Image.fromarray(picture)
    if box:
        image = image.crop((box["left"], box["top"], box["left"] + box["width"], box["top"] + box["height"]))
    return np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR))


def ends_early(box: dict[str, int], data: bytes) -> bool:
    """Whether the crop leaves rows at the bottom, and the whole picture is refused here, too."""
    with Image.open(io.BytesIO(data)) as image:
        return box["top"] + box["height"] < image.height and _core.decode_image(data) is None


class Table:
    """Counts per (format, mutation, policy); `wrong` lists what differs."""

    COLUMNS = ("pictures", "refused", "only here", "only Pillow", "other pixels", "behind the crop")

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, str], collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )
        self.wrong: list[tuple[str, Mutant]] = []

    def add(
        self,
        mutant: Mutant,
        policy: str,
        here: int | None,
        there: Verdict,
        most: int,
        behind: bool = False,
    ) -> None:
        """`here`: the difference of the pixels, or None: refused; `behind`: there is something behind the
        crop, and refused.
        """
        count = self.counts[mutant.format, mutant.mutation, policy]
        count["pictures"] += 1
        count["refused"] += there is None
        what = (
            "only here"
            if here is None and there is not None
            else "only Pillow"
            if here is not None and there is None
            else None
        )
        if here is not None and there is not None and here > most:
            what = "other pixels"
        if what == "only Pillow" and behind and mutant.format != "jpeg":
            count["behind the crop"] += 1
        elif what:
            count[what] += 1
            self.wrong.append((f"{policy}: {what} {here}", mutant))

    def total(self, column: str, policy: str | None = None) -> int:
        return sum(count[column] for key, count in self.counts.items() if policy in (None, key[2]))

    def lines(self) -> Iterator[str]:
        yield f"{'format':7}{'mutation':16}{'policy':10}" + "".join(f"{name:>14}" for name in self.COLUMNS)
        for key in sorted(self.counts):
            yield f"{key[0]:7}{key[1]:16}{key[2]:10}" + "".join(
                f"{self.counts[key][name]:>14}" for name in self.COLUMNS
            )

    def violations(self) -> list[str]:
        found = []
        for policy in sorted({key[2] for key in self.counts}):
            pictures = self.total("pictures", policy)
            alone = self.total("only here", policy) + self.total("only Pillow", policy)
            if alone > MOST_REFUSED_BY_ONE * pictures:
                found.append(f"{policy}: {alone} of {pictures} refused by one side alone")
        if self.total("other pixels"):
            found.append(f"{self.total('other pixels')} with other pixels")
        return found


def folder_of(batch: list[Mutant], root: Path) -> None:
    """One class for each picture, so that a row's label says which it is."""
    for i, mutant in enumerate(batch):
        (root / f"{i:06}").mkdir(parents=True)
        (root / f"{i:06}" / f"m{SUFFIXES[mutant.format]}").write_bytes(mutant.data)


def rows_of(loader: DataLoader) -> Iterator[tuple[torch.Tensor, int]]:
    """Every row with its label. An epoch of which nothing can be had is an error that comes once."""
    batches = iter(loader)
    while True:
        try:
            images, labels = next(batches)
        except StopIteration:
            return
        except millrace.CorruptDataError:
            if loader.on_error == "raise":
                continue  # the next batch comes all the same
            return
        yield from zip(images, labels.tolist())


def left_out(loader: DataLoader) -> set[int]:
    stats = loader.stats()
    assert stats["engine"] == "threads", loader.explain()
    return {error["index"] for error in stats["errors"]}


def through_folder(
    batch: list[Mutant], verdicts: list[Verdict], root: Path, table: Table, loader_seed: int
) -> None:
    for name, policy, how in WAYS:
        data = ImageFolder(root, chain(how))
        torch.manual_seed(loader_seed)
        options: dict[str, Any] = {
            "batch_size": 1 if policy == "raise" else 16,
            "num_workers": 2,
            "native": "require",
        }
        loader = DataLoader(data, on_error=policy, **options)
        seen: dict[int, int] = {}
        behind: set[int] = set()
        for row, label in rows_of(loader):
            verdict, worst = verdicts[label], 256
            box = data.draw(label, loader.seed, loader.epoch)[0] if how == "crop" else None
            if verdict is not None:
                worst = apart(row, verdict if how == "whole" else resized(verdict, box))
            elif box and ends_early(box, batch[label].data):
                behind.add(label)
            seen[label] = max(worst, seen.get(label, 0))
        if policy != "raise":
            refused = left_out(loader)
            assert not refused & set(seen) and refused | set(seen) == set(range(len(batch))), (
                refused & set(seen),
                name,
            )
        for i, mutant in enumerate(batch):
            table.add(mutant, name, seen.get(i), verdicts[i], 0 if how == "whole" else 1, i in behind)


def through_tars(batch: list[Mutant], verdicts: list[Verdict], root: Path, table: Table) -> None:
    import tarfile

    shard = root / "mutants.tar"
    with tarfile.open(shard, "w") as tar:
        for i, mutant in enumerate(batch):
            for suffix, content in ((SUFFIXES[mutant.format], mutant.data), (".cls", b"%d" % i)):
                info = tarfile.TarInfo(f"{i:06}{suffix}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    stream = WebDataset(str(shard), shardshuffle=False).decode("pil", handler=ignore_and_continue)
    stream = stream.to_tuple("jpg;png;webp", "cls").map_tuple(chain("resize"), handler=ignore_and_continue)
    indexed = (
        WebDataset(str(shard))
        .decode("pil")
        .to_tuple("jpg;png;webp", "cls")
        .map_tuple(chain("resize"))
        .indexed()
    )
    for name, loader in (
        ("stream", DataLoader(stream, batch_size=1, num_workers=1)),
        ("indexed", DataLoader(indexed, batch_size=16, num_workers=2, on_error="skip")),
    ):
        seen = {}
        for row, label in rows_of(loader):
            verdict = verdicts[int(label)]
            seen[int(label)] = 256 if verdict is None else apart(row, resized(verdict))
        assert loader.stats()["engine"] == "threads", loader.explain()
        for i, mutant in enumerate(batch):
            table.add(mutant, name, seen.get(i), verdicts[i], 1)


def run(
    count: int, seed: int, progress: Callable[[str], None] = lambda line: None, tars_each: int = 10
) -> Table:
    table, pictures, done = Table(), mutants(count, seed), 0
    while batch := [mutant for _, mutant in zip(range(CHUNK), pictures)]:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdicts = [by_pillow(mutant.data) for mutant in batch]
            folder_of(batch, Path(folder) / "pictures")
            through_folder(batch, verdicts, Path(folder) / "pictures", table, seed + done)
            if done // CHUNK % tars_each == 0:
                through_tars(batch, verdicts, Path(folder), table)
        done += len(batch)
        progress(f"{done} of {count}: {len(table.wrong)} differ")
    return table


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the counts there, as JSON")
    parser.add_argument("--keep", type=Path, help="write the mutants that differ into this folder")
    options = parser.parse_args(None if arguments is None else list(arguments))
    start = time.monotonic()
    table = run(
        options.count,
        options.seed,
        lambda line: print(f"{time.monotonic() - start:6.0f} s  {line}", file=sys.stderr),
    )
    for line in table.lines():
        print(line)
    for i, (what, mutant) in enumerate(table.wrong):
        print(f"{what}: {mutant.format} {mutant.seed}, {mutant.mutation}")
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{i:04}{SUFFIXES[mutant.format]}").write_bytes(mutant.data)
    violations = table.violations()
    print(*(violations or ["no violation"]), sep="\n")
    if options.out:
        counts = [
            dict(
                zip(("format", "mutation", "policy"), key), **{c: table.counts[key][c] for c in Table.COLUMNS}
            )
            for key in sorted(table.counts)
        ]
        facts = {
            "count": options.count,
            "seed": options.seed,
            "pillow": Image.__version__,
            "violations": violations,
        }
        lines = ",\n".join("  " + json.dumps(row) for row in counts)
        options.out.write_text(json.dumps(facts)[:-1] + ', "counts": [\n' + lines + "\n]}\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
