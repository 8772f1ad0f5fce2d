"""DriftProfile: the statistics of batches, as an object, as a file, and as lines of text."""

from __future__ import annotations

import base64
import copy
import json
import math
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Union

from millrace import _core
from millrace._common.regular_files import open_regular, write_whole
from millrace.errors import corrupt_data

from ..texts import aligned
from .fields import DriftOptions, fields_of

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
    repeats = data["repeats"]
    if repeats["samples"]:
        notes.append(f"samples: {repeats['samples']:,} compared, {repeats['repeated']:,} came before, "
                     f"about {round(repeats['distinct']):,} different")  # fmt: skip
    return "\n".join(
        [
            f"{data['samples']:,} samples in {data['batches']:,} batches",
            "",
            *aligned([(*row, "") for row in rows], right=range(1, len(_HEAD))),
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


VERSION = 1
Path = Union[str, os.PathLike]


class DriftProfile:
    """Statistics of batches: per field moments, extremes, NaN, zeros, histogram, classes, lengths, and
    repeated samples.

    Pictures are described per channel, tables of up to 256 columns per column, everything else as a whole.
    Mean and variance are those of all examined numbers, exact to 1e-9 (Chan, Golub and LeVeque 1979);
    quantiles are within 3.2 % (16 buckets per power of two, as in HDR histograms); whole numbers are counted
    exactly up to 8,192 different ones, beyond that to total / 4,096 (Misra and Gries); the number of
    different samples is within about 5 % (HyperLogLog), by hashes of up to 4 KiB of each sample.

    The file of a profile is JSON that people can read, too: `to_dict()` documents it. `merge()` adds up the
    profiles of ranks, workers or days. `of()`, `load()` and `watch()` make profiles; do not make one by hand.

    Args:
        native: the engine's part.
        about: how the profile was made; goes into the file as it is.
    """

    def __init__(self, native: _core.DriftStats, about: dict[str, Any] | None = None) -> None:
        self._native = native
        self.about = dict(about or {})  # how it was made; goes into the file as it is

    @classmethod
    def of(
        cls, batches: Iterable[Any], samples: int | None = None, *, options: DriftOptions | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> DriftProfile:  # fmt: skip
        """Return the profile of all `batches` (a loader), or of the first so many `samples`; examines every
        batch.

        A shuffled order is best: a reference from sorted data does not know how its parts differ.

        Args:
            batches: a loader.
            samples: stop after so many.
            options: see `DriftOptions`.
            progress: called with the number of samples after each batch.

        Raises:
            ValueError: if the batches have no field with statistics.
        """
        options = options or DriftOptions()
        examiner = _core.DriftExaminer(None, 4, options.rows, options.values)
        seen = 0
        try:
            for step, batch in enumerate(batches):
                fields = chosen(fields_of(batch), options)
                if not fields:
                    raise ValueError(
                        "the batches have no field with numbers or texts"
                        + ("" if options.fields is None else f" among {list(options.fields)}")
                    )
                host = [
                    field._replace(tensors=[tensor.cpu() for tensor in field.tensors]) for field in fields
                ]
                examiner.submit(step, step == 0, host, True)
                size = len(fields[0].tensors) if fields[0].kind == "ragged" else len(fields[0].tensors[0])
                seen += size
                if progress:
                    progress(size)
                if samples is not None and seen >= samples:
                    break
            examiner.finish()
            if seen == 0:
                raise ValueError("there are no samples to make a profile of")
            return cls(examiner.statistics())
        finally:
            examiner.close()

    @classmethod
    def load(cls, path: Path) -> DriftProfile:
        """Return the profile that `save()` wrote.

        Raises:
            CorruptDataError: if the file is damaged.
            ValueError: if the file is of a later version of millrace.
        """
        with open_regular(path, encoding="utf-8") as file:
            text = file.read()
        try:
            data = json.loads(text)
            version = data["millrace_drift_profile"]
            if isinstance(version, int) and version <= VERSION:
                return cls.from_dict(data)
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            message = (
                f"this is no drift profile, or a damaged one ({error!r}); make one with millrace profile"
            )
            raise corrupt_data(os.fspath(path), message) from None
        raise ValueError(
            f"{os.fspath(path)} is a profile of version {version}, this millrace knows up to {VERSION};"
            " update it, or make the profile anew"
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DriftProfile:
        """The profile that `to_dict()` returned."""
        repeats = {**data["repeats"], "registers": base64.b64decode(data["repeats"]["registers"])}
        return cls(_core.DriftStats({**data, "repeats": repeats}), data.get("about"))

    def save(self, path: Path) -> None:
        """Write the profile; the file appears whole or not at all."""
        write_whole(path, json.dumps(self.to_dict(), indent=1) + "\n")

    def merge(self, *others: DriftProfile) -> DriftProfile:
        """Return one profile of all samples together.

        Raises:
            ValueError: if fields of one name are of different kinds.
        """
        merged = DriftProfile(_core.DriftStats(self._native.to_dict()), self.about)
        for other in others:
            merged._native.merge(other._native)
        return merged

    def to_dict(self) -> dict[str, Any]:
        """Return the profile in JSON's types.

        Returns:
            fields: {path: {type, row_shape (-1: varies), samples, series, counts, lengths, ...}}. Each of
                `series` (channels or columns) and `lengths` has count, mean, std, min, max, nan, infinite,
                zeros, quantiles (1, 5, 25, 50, 75, 95, 99 %) and, for later comparisons, histogram ([bucket,
                count]) and moments of features of samples. `counts`: [number, how often], the most frequent
                first.
            repeats: samples, how many came before in their epoch, how many different ones there are.
        """
        data = self._native.to_dict()
        for field in data["fields"].values():
            for series in [*field["series"], *([field["lengths"]] if field["lengths"] else [])]:
                series["std"] = math.sqrt(series["m2"] / series["count"]) if series["count"] else None
        data["repeats"]["registers"] = base64.b64encode(data["repeats"]["registers"]).decode()
        about = {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **self.about}
        return {"millrace_drift_profile": VERSION, "about": about, **data}

    @property
    def samples(self) -> int:
        """The number of samples in the batches that were looked at."""
        return self._native.to_dict()["samples"]

    @property
    def fields(self) -> dict[str, dict[str, Any]]:
        """The fields as in `to_dict()`, a copy."""
        return copy.deepcopy(self.to_dict()["fields"])

    def __reduce__(self) -> tuple[Any, ...]:
        return DriftProfile.from_dict, (self.to_dict(),)

    def __str__(self) -> str:
        return table(self.to_dict())

    def __repr__(self) -> str:
        raw = self._native.to_dict()
        return f"DriftProfile({raw['samples']} samples, fields: {', '.join(raw['fields'])})"


def chosen(fields: list[Any], options: DriftOptions) -> list[Any]:
    return fields if options.fields is None else [field for field in fields if field.name in options.fields]
