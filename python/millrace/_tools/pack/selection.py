"""Which samples of a source are packed, and in which order: functions of their keys, so that they are the
same on every machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Union

from .keys import rank
from .sources import Source

WINDOW_UNITS = 8  # row groups that are shuffled among each other

Downsample = Union[None, float, int, str, dict[int, float]]


def check_downsample(downsample: Downsample) -> None:
    """ValueError or TypeError for what choose() does not know."""
    if downsample is None or downsample == "balance":
        return
    if isinstance(downsample, dict):
        for label, ratio in downsample.items():
            if not isinstance(label, int) or not 0 <= ratio <= 1:
                raise ValueError(
                    f"downsample={downsample!r}: should map labels (ints) to ratios between 0 and 1"
                )
    elif isinstance(downsample, bool) or not isinstance(downsample, (int, float)):
        raise TypeError(
            "downsample should be a ratio, a number of samples per label, 'balance' or a dict, but is"
            f" {downsample!r}"
        )
    elif isinstance(downsample, float) and not 0 < downsample <= 1:
        raise ValueError(
            f"downsample={downsample}: as a float it is a ratio, above 0 and at most 1; as an int samples per"
            " label"
        )
    elif isinstance(downsample, int) and downsample < 1:
        raise ValueError(f"downsample={downsample}: should keep at least 1 sample per label")


def choose(source: Source, downsample: Downsample, seed: int) -> Sequence[int]:
    """Numbers of the samples that stay, in the source's order: of each label those whose keys have the
    smallest hashes.

    A float keeps this share of each label (at least one sample), an int so many of each, "balance" as many of
    each as the rarest has, a dict its share of each label it names and all of the others. Samples without a
    label are one label together.
    """
    if downsample is None:
        return range(len(source))
    by_label: dict[int | None, list[int]] = defaultdict(list)
    for number in range(len(source)):
        by_label[source.label(number)].append(number)
    rarest = min(map(len, by_label.values()), default=0)

    def wanted(label: int | None, count: int) -> int:
        if downsample == "balance":
            return rarest
        if isinstance(downsample, dict):
            return round(count * downsample.get(label, 1.0)) if label is not None else count
        return max(1, round(count * downsample)) if isinstance(downsample, float) else int(downsample)

    chosen: list[int] = []
    for label, numbers in by_label.items():
        numbers.sort(key=lambda number: rank(source.key(number), seed, "choose"))
        chosen += numbers[: wanted(label, len(numbers))]
    return sorted(chosen)


def shuffled(source: Source, numbers: Sequence[int], seed: int) -> list[int]:
    """The numbers in the order of their keys' hashes. Where samples are read in units, units are shuffled,
    and samples among those of WINDOW_UNITS neighbours in the new order, so that a unit is read once.
    """

    def by_hash(chosen: list[int]) -> list[int]:
        return sorted(chosen, key=lambda number: rank(source.key(number), seed, "shuffle"))

    if source.unit_lengths is None:
        return by_hash(list(numbers))
    units: list[list[int]] = []
    wanted, first = iter(numbers), 0
    number = next(wanted, None)
    for length in source.unit_lengths:
        unit = []
        while number is not None and number < first + length:
            unit.append(number)
            number = next(wanted, None)
        units.append(unit)
        first += length
    order = sorted(range(len(units)), key=lambda unit: rank(str(unit), seed, "shuffle"))
    result: list[int] = []
    for begin in range(0, len(order), WINDOW_UNITS):
        result += by_hash([number for unit in order[begin : begin + WINDOW_UNITS] for number in units[unit]])
    return result
