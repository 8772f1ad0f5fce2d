"""`DataLoader.advice()`: changes after which the training loop would wait less, with their predicted gains.

model.py predicts batches per second from the measurements of a profile; suggestions.py has the changes to
try.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from millrace._common.interpreter import has_gil

from .model import measured
from .suggestions import RULES, Facts, Suggestion, Suggestions, persistent

__all__ = ["Advice", "Facts", "Suggestion", "advise", "facts_of"]

_SMALL_LOSS = 0.05


class Advice(list[Suggestion]):
    """The `Suggestion`s for a loader, the most promising first: a list.

    Args:
        line: all in one line.
        samples_per_second: now, without the start and the first batch.
        lost: the share of the epoch, 0..1, that a loader without any cost would save.
        suggestions: the list's items.
    """

    def __init__(
        self,
        line: str,
        samples_per_second: float = 0.0,
        lost: float = 0.0,
        suggestions: Iterable[Suggestion] = (),
    ) -> None:
        super().__init__(suggestions)
        self.line, self.samples_per_second, self.lost = line, samples_per_second, lost

    def __str__(self) -> str:
        return "\n".join([self.line, *(f"  {suggestion}" for suggestion in self)])

    def as_dict(self) -> dict[str, Any]:
        """The advice as a dict, in JSON's types alone."""
        return {**vars(self), "suggestions": [asdict(suggestion) for suggestion in self]}


def advise(profile: Mapping[str, Any] | None, facts: Facts = Facts()) -> Advice:
    """Advice from a profile (DataLoader.profile(steps=True), or a stored one)."""
    if profile is None:
        return Advice("nothing is known: MILLRACE_PROFILE=0 keeps no profile")
    found = measured(profile)
    if found is None:
        return Advice("nothing is known: iterate over a few batches first")
    costs, rate, per_batch = found
    wall = profile["wall_seconds"] - profile["blame"].get("start", 0.0)
    lost = max(0.0, 1 - profile["consumer"]["step"] / wall) if wall > 0 else 0.0
    suggestions = Suggestions(costs, rate, per_batch, profile, facts)
    if lost > _SMALL_LOSS:
        for propose in RULES:
            propose(suggestions)
    persistent(suggestions)
    best = sorted(suggestions.found, key=lambda suggestion: (suggestion.at_most, -suggestion.gain))
    return Advice(_line(profile, lost, best), rate * per_batch, lost, best)


def _line(profile: Mapping[str, Any], lost: float, suggestions: list[Suggestion]) -> str:
    if lost <= _SMALL_LOSS:
        but = f", but {suggestions[0].what} (+{suggestions[0].gain:.2g}x per epoch)" if suggestions else ""
        return f"the loop is the bottleneck ({1 - lost:.0%} of the time): nothing to gain here{but}"
    stage = profile["bottleneck"]
    times = profile["stages"]
    total = sum(time["wall"] for time in times.values())
    if stage in times and total > 0:
        who = "worker time" if profile["workers"] else "the time in next()"
        found = f"{stage} takes {times[stage]['wall'] / total:.0%} of {who}"
    else:
        of = sum(seconds for name, seconds in profile["blame"].items() if name != "start") or 1.0
        found = f"{stage} takes {profile['blame'].get(stage, 0.0) / of:.0%} of it, in the loop's own thread"
    cures = [
        f"{suggestion.what} ({'up to ' if suggestion.at_most else ''}{suggestion.gain:.2g}x)"
        if suggestion.gain < 100
        else suggestion.what
        for suggestion in suggestions[:3]
    ]
    if not cures:
        return f"loader-bound {lost:.0%}: {found}; nothing that can be set would change it"
    listed = cures[0] if len(cures) == 1 else f"{', '.join(cures[:-1])} or {cures[-1]}"
    return f"loader-bound {lost:.0%}: {found}; {listed} would help"


def facts_of(loader: Any) -> Facts:
    """Of a millrace.DataLoader; draws nothing, starts nothing."""
    import torch
    from torch.utils.data import IterableDataset

    sampler = (
        loader.sampler
        if loader.batch_sampler is None or loader.batch_size is not None
        else loader.batch_sampler
    )
    known = type(sampler).__module__.partition(".")[0] in ("torch", "millrace")
    dataset = loader.dataset
    while not isinstance(dataset, IterableDataset) and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    module = type(dataset).__module__
    lines = [
        line for line in loader.explain().splitlines() if not line.startswith(("memory", "order", "pictures"))
    ]
    image_folder = type(dataset).__name__ in ("ImageFolder", "DatasetFolder")
    return Facts(
        python=tuple(line for line in lines if ": python" in line and "ready for the engine" not in line),
        iterable=isinstance(loader.dataset, IterableDataset),
        gil=has_gil(),
        gpu=image_folder and torch.cuda.is_available(),
        files=image_folder,
        remote=module.startswith("millrace.")
        and "://" in str(getattr(dataset, "urls", ""))
        and not getattr(dataset, "cache_dir", None),
        sampler="" if known else type(sampler).__name__,
        persistent=loader.persistent_workers,
        whole_pictures=_whole_pictures(loader.stats().get("pictures")),
    )


def _whole_pictures(pictures: Mapping[str, Any] | None) -> str:
    """The call that made at least half of the pictures that were decoded whole, if those are the majority.
    `pictures` is None for a native engine, which counts none.
    """
    if pictures is None:
        return ""
    calls = pictures["calls"]
    if not calls or pictures["decoded_whole"] <= pictures["decoded_in_part"]:
        return ""
    call = max(calls, key=calls.get)
    return call if 2 * calls[call] >= pictures["decoded_whole"] else ""
