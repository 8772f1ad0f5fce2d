"""Writes the tables of docs/native.md that say what runs natively, from the recognisers that decide it.

python scripts/native_table.py [--check]

A table stands between two comments, `<!-- NAME: by scripts/native_table.py -->` and `<!-- end -->`. Which
classes there are say the recognisers' registries, and the words around them the WORDS of their modules.
--check writes nothing, and fails where the page says something else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "native.md"
Rows = list[tuple[str, str]]


def names(classes: Iterable[str]) -> str:
    return ", ".join(classes)


def what_runs() -> Rows:
    from millrace._common.lowering import recognising, transforms
    from millrace._loader import arguments
    from millrace._loader.plan import batches, collates, in_memory, pictures
    from millrace._loader.plan.recognisers import RECOGNISERS

    ours = names(transforms._LOWERED)
    timms = names(transforms._timm_rules())
    tables = [
        name.rpartition(".")[2]
        for name, how in RECOGNISERS
        if how.startswith(".in_memory") and name.startswith("torch.utils")
    ]
    seeding_functions = names(f"`{module}.{name}`" for module, name in arguments._SEEDING_FUNCTIONS)
    return [
        ("", "what runs natively"),
        ("pictures", pictures.DATASET_WORDS),
        (
            "transforms, millrace's or torchvision's (v1 and v2)",
            f"{ours}; [of timm](#augmentation-policies) {timms}; {transforms.BESIDES}",
        ),
        ("what holds them", recognising.HOLDERS),
        ("samplers", "torch's, [millrace's](samplers.md), and any other of integers"),
        ("collate functions", collates.COLLATE_WORDS),
        (
            "worker_init_fn",
            f"none, any with `num_workers=0`, or one of these, which only seed: {seeding_functions}",
        ),
        ("data in memory", f"{names([*tables, 'Subset'])} {in_memory.WORDS}"),
        ("millrace's other data sets", batches.WORDS),
    ]


def picture_datasets() -> Rows:
    from millrace._loader.plan import path_lists, pixel_arrays

    def of(opens: str) -> str:
        found = [(name, layout) for (_, name), layout in path_lists.LAYOUTS.items() if layout.opens == opens]
        return ", ".join(layout.words or name for name, layout in found)

    arrays = ", ".join(layout.words or name for (_, name), layout in pixel_arrays.LAYOUTS.items())
    in_any_mode = 'where the transform begins with `v2.RGB()` or `lambda picture: picture.convert("RGB")`'
    return [
        ("", ""),
        ("with torchvision's own `loader` (`default_loader` over Pillow, `pil_loader`)", of("by loader")),
        ("without a loader", of("itself")),
        ("in the modes of their files", f"{of('in any mode')}: {in_any_mode}"),
        ("in memory, as arrays of bytes", arrays),
    ]


TABLES = {"what runs natively": what_runs, "data sets of torchvision": picture_datasets}


def table(rows: Rows) -> str:
    head, *rest = (f"| {first} | {second} |" for first, second in rows)
    return "\n".join([re.sub(" +", " ", head), "|---|---|", *rest])


def written(page: str) -> str:
    """`page` with its tables made anew; ValueError where one of them has no place."""
    for name, rows in TABLES.items():
        start, end = f"<!-- {name}: by scripts/native_table.py -->\n", "\n<!-- end -->"
        before, found, rest = page.partition(start)
        _, ended, behind = rest.partition(end)
        if not found or not ended:
            raise ValueError(f"the page has no place for the table {name!r}")
        page = before + start + table(rows()) + end + behind
    return page


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    made = written(page)
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
    elif made != page:
        print("docs/native.md is not what the recognisers say: run scripts/native_table.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "python"))
    sys.exit(main())
