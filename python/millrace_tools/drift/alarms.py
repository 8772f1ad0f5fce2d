"""Alarms: the messages when batches have changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


class DriftWarning(UserWarning):
    """Batches differ from their reference."""


class DriftError(RuntimeError):
    """Batches differ from their reference: `alarm` describes the change.

    The loop may go on with `next()`; no batch is lost.
    """

    def __init__(self, alarm: DriftAlarm) -> None:
        super().__init__(str(alarm))
        self.alarm = alarm


@dataclass(frozen=True)
class DriftAlarm:
    """One kind of change of one field. str() is a sentence for people.

    Attributes:
        field: its path in the batch; "" for a change of whole samples.
        kind: mean, spread, nan, zeros, range, histogram, classes, lengths, channels, duplicates.
        part: "channel 2", "column 5", "class 7", or "".
        expected, seen: the mean without extremes (mean, lengths), a ratio of standard deviations (spread),
            else shares.
        since: the number of the first batch of the window that shows the change best. Numbers count from 0
            over all epochs.
        step: the number of the window's latest batch.
        samples: examined in the window.
        log_probability: natural logarithm of the bound on the probability of chance.
        ended: the change had been reported, and is over.
        message: the sentence.
    """

    field: str
    kind: str
    part: str
    expected: float
    seen: float
    since: int
    step: int
    samples: int
    log_probability: float
    ended: bool
    message: str

    def __str__(self) -> str:
        return self.message


def alarm_of(native: dict[str, Any], field: dict[str, Any] | None) -> DriftAlarm:
    """The alarm. `field`: the field's entry in the reference, as in DriftProfile.to_dict()."""
    kind, series = native["kind"], native["series"]
    part = _part(field, series) if field and kind not in ("lengths", "channels", "duplicates") else ""
    expected, seen = native["expected"], native["seen"]
    if kind in ("mean", "lengths") and field:
        center, scale, _ = (field["lengths"] if kind == "lengths" else field["series"][series])["frame"]
        expected, seen = center + scale * expected, center + scale * seen
    elif kind == "spread":
        expected, seen = 1.0, math.sqrt(seen / expected) if expected > 0 else math.inf
    what = _SENTENCES[kind](native, expected, seen)
    if kind == "classes" and native["what"] == "one":
        part = f"{part}, class {native['label']}" if part else f"class {native['label']}"
    where = ", ".join(
        text for text in (f'field "{native["field"]}"' if native["field"] else "samples", part) if text
    )
    samples = round(native["samples"])
    if native["ended"]:
        message = f"{where}: {_NOUNS[kind]} again as in the reference (batch {native['step']:,})"
    else:
        message = (
            f"{where}: {what}; since batch {native['since']:,}, seen in {samples:,} samples up to batch"
            f" {native['step']:,}"
        )
    return DriftAlarm(
        native["field"],
        kind,
        part,
        expected,
        seen,
        native["since"],
        native["step"],
        samples,
        native["log_p"],
        native["ended"],
        message,
    )


def _part(field: dict[str, Any], series: int) -> str:
    layout = field["layout"]
    if layout["series"] == 1:
        return ""
    return f"{'channel' if layout['channels'] else 'column'} {series}"


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


def _classes(native: dict[str, Any], expected: float, seen: float) -> str:
    if native["what"] == "all":
        return (
            f"the balance of the classes has changed: {_share(seen)} of the samples would have to be of"
            " another class"
        )
    if native["what"] == "new":
        return (
            f"{_share(seen)} of the numbers are ones that the reference has not ({_share(expected)} expected)"
        )
    who = "its share" if native["what"] == "one" else "the share of the less frequent classes"
    return f"{who} is {_share(seen)}, {_share(expected)} expected"


_NOUNS = {
    "mean": "the mean is",
    "spread": "the spread is",
    "nan": "the share of NaN and infinite numbers is",
    "zeros": "the share of zeros is",
    "range": "the range is",
    "histogram": "the distribution is",
    "classes": "the classes are",
    "lengths": "lengths are",
    "channels": "the channels are",
    "duplicates": "repeated samples are",
}

_SENTENCES = {
    "mean": lambda n, e, s: f"the mean is about {s:.4g}, {e:.4g} expected",
    "spread": lambda n, e, s: (
        f"numbers spread {s:.3g} times as widely around the reference's centre as expected"
    ),
    "nan": lambda n, e, s: f"{_share(s)} of the numbers are NaN or infinite, {_share(e)} expected",
    "zeros": lambda n, e, s: f"{_share(s)} of the numbers are 0, {_share(e)} expected",
    "range": lambda n, e, s: f"{_share(s)} of the numbers are outside the reference's range",
    "histogram": lambda n, e, s: (
        f"the distribution has another shape: {_share(s)} of the numbers are below what {_share(e)} were"
    ),
    "classes": _classes,
    "lengths": lambda n, e, s: f"the mean length is about {s:.4g}, {e:.4g} expected",
    "channels": lambda n, e, s: (
        f"channels have changed places: they look like the reference's in the order {n['order']}"
    ),
    "duplicates": lambda n, e, s: (
        f"{_share(max(s, 0))} more samples than expected repeat one of the latest ones"
    ),
}
