"""A profile as lines of text."""

from __future__ import annotations

from typing import Any

_MOST_SERIES, _MOST_CLASSES = 8, 5
_HEAD = ("field", "count", "mean", "std", "min", "median", "max", "NaN", "zeros")


def table(data: dict[str, Any]) -> str:
    """`data`: DriftProfile.to_dict()."""
    rows: list[tuple[str, ...]] = [_HEAD]
    notes = []
    for name, field in data["fields"].items():
        series = field["series"]
        for number, each in enumerate(series[:_MOST_SERIES]):
            rows.append(_row(name if len(series) == 1 else f"{name}[{number}]", each, "int" in field["type"]))
        if len(series) > _MOST_SERIES:
            notes.append(f"{name}: {len(series) - _MOST_SERIES} more columns")
        if field["lengths"]:
            rows.append(_row(f"{name}, length", field["lengths"], True))
        notes += _classes(name, field)
        if field["other_layouts"]:
            notes.append(
                f"{name}: {field['other_layouts']} batches of another kind of shape were passed over"
            )
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
        for row in rows
    ]
    repeats = data["repeats"]
    if repeats["samples"]:
        notes.append(f"samples: {repeats['samples']:,} compared, {repeats['repeated']:,} came before, "
                     f"about {round(repeats['distinct']):,} different")  # fmt: skip
    return "\n".join(
        [
            f"{data['samples']:,} samples in {data['batches']:,} batches",
            "",
            *lines,
            *([""] if notes else []),
            *notes,
        ]
    )


def _row(name: str, series: dict[str, Any], whole: bool) -> tuple[str, ...]:
    odd = series["nan"] + series["infinite"]
    numbers = series["count"] + odd
    shown = [""] * 5
    if series["count"]:
        median = series["quantiles"][3]  # out of a histogram: between whole numbers, too
        middle = round(median) if whole else median
        values = (series["mean"], series["std"], series["min"], middle, series["max"])
        shown = [f"{value:.5g}" for value in values]
    return name, f"{numbers:,}", *shown, _share(odd, numbers), _share(series["zeros"], numbers)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3g} %" if part and whole else ""


def _classes(name: str, field: dict[str, Any]) -> list[str]:
    lines = []
    for number, each in enumerate(field["counts"][:_MOST_SERIES]):
        counts, total = each["counts"], max(each["total"], 1)
        if not counts:
            continue
        shown = ", ".join(f"{value} ({100 * count / total:.3g} %)" for value, count in counts[:_MOST_CLASSES])
        who = name if len(field["counts"]) == 1 else f"{name}[{number}]"
        more = "" if each["error"] == 0 else f"; counts are up to {each['error']:,} too low"
        lines.append(f"{who}: {len(counts):,}{'' if each['error'] == 0 else ' frequent'} different numbers: "
                     f"{shown}{', ...' if len(counts) > _MOST_CLASSES else ''}{more}")  # fmt: skip
    return lines
