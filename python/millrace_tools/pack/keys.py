"""Names of samples and fields inside shards: safe to unpack anywhere, and read back by every reader as they
were written. Also the choice and the order of a source's samples: functions of their keys, so that they are
the same on every machine.

A key is a path with "/". Its last part has no dot, because readers take the part after the first dot for the
field. The rule:

- a key that keeps to it stays as it is;
- in others, dots in the last part become "%2E" and "%" becomes "%25"; empty parts and a leading "/" go; the
  parts "." and ".." become "%2E" and "%2E%2E"; characters below " " become "%XX"; a first part
  "__like_this__", which readers pass over, becomes "%5F_like_this__";
- a key that is too long for a ustar header is cut to its last 40 characters' worth of bytes, "~" and 16 hex
  digits of its hash before it.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Union

from ..texts import refuse
from .sources import Source

_SAFE = re.compile(r"(?!__[^/]*__(?:/|$))(?:(?!\.{1,2}/)[^/\x00-\x1f]+/)*[^/.\x00-\x1f]+\Z")
_MOST_NAME, _MOST_FOLDERS, _MOST_FIELD = 68, 155, 31  # bytes; the last part, its dot and its field share 100


def safe_key(key: str) -> str:
    """The key under which a sample is stored; see the module's rule. ValueError for an empty one."""
    result = key if _SAFE.match(key) else _escaped(key)
    folders, _, name = result.rpartition("/")
    if len(_bytes(name)) > _MOST_NAME or len(_bytes(folders)) > _MOST_FOLDERS:
        digest = hashlib.blake2b(_bytes(key), digest_size=8).hexdigest()
        result = f"{digest}~{_bytes(name)[-40:].decode('utf-8', 'ignore')}"
    return result


def _escaped(key: str) -> str:
    parts = [part for part in key.replace("%", "%25").split("/") if part]
    if not parts:
        raise ValueError(
            f"{key!r} is no name for a sample: a key should have at least one character besides '/'"
        )
    parts = [part.replace(".", "%2E") if part in (".", "..") else part for part in parts]
    parts[-1] = parts[-1].replace(".", "%2E")
    if parts[0].startswith("__") and parts[0].endswith("__"):
        parts[0] = "%5F" + parts[0][1:]
    return re.sub(r"[\x00-\x1f]", lambda match: f"%{ord(match[0]):02X}", "/".join(parts))


def checked_field(name: str) -> str:
    """`name` in lower case, as readers give it back. ValueError for what cannot be the ending of a file's
    name.
    """
    field = name.lower()
    if (
        not re.fullmatch(r"[^/\x00-\x1f]+", field)
        or field.startswith(".")
        or len(_bytes(field)) > _MOST_FIELD
    ):
        raise ValueError(
            f"{name!r} cannot be a field of a shard: its name should be a file's ending, such as 'jpg' or"
            f" 'mask.png', of at most {_MOST_FIELD} bytes"
        )
    return field


def rank(key: str, seed: int, purpose: str) -> int:
    """A number of 64 bits that looks random and is a function of its arguments on every machine: orders and
    choices are made by it.
    """
    return int.from_bytes(hashlib.blake2b(_bytes(f"{purpose}/{seed}/{key}"), digest_size=8).digest(), "big")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


WINDOW_UNITS = 8  # row groups that are shuffled among each other

Downsample = Union[None, float, int, str, dict[int, float]]


def check_downsample(downsample: Downsample) -> None:
    """ValueError or TypeError for what choose() does not know."""
    if downsample is None or downsample == "balance":
        return
    if isinstance(downsample, bool) or not isinstance(downsample, (int, float, dict)):
        raise TypeError(
            "downsample should be a ratio, a number of samples per label, 'balance' or a dict, but is"
            f" {downsample!r}"
        )
    shares = downsample if isinstance(downsample, dict) else {}
    refuse(
        {
            f"downsample={downsample!r}: should map labels (ints) to ratios between 0 and 1": any(
                not isinstance(label, int) or not 0 <= ratio <= 1 for label, ratio in shares.items()
            ),
            f"downsample={downsample}: as a float it is a ratio, above 0 and at most 1; as an int samples per"
            " label": isinstance(downsample, float) and not 0 < downsample <= 1,
            f"downsample={downsample}: should keep at least 1 sample per label": (
                isinstance(downsample, int) and downsample < 1
            ),
        }
    )


def choose(source: Source, downsample: Downsample, seed: int) -> Sequence[int]:
    """Numbers of the samples that stay, in the source's order: of each label those with the smallest hashes
    of their keys.

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
