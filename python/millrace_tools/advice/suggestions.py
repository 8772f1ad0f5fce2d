"""The changes that might help, with the model's prediction for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .model import Costs

LEAST_GAIN = 1.05  # smaller gains do not exceed the difference between two equal runs
_MOST_WORKERS = 64
_MADE = ("fetch", "decode", "transform", "collate", "sample")
_SPARE = 1.25  # workers that could just keep up do not: now and then all are late at once
_SMALL_CONTENTION = 0.1
_ANSWER_S = 0.0004  # the consumer's part of a batch from a worker, when none has been seen


@dataclass(frozen=True)
class Suggestion:
    """One change to a loader.

    Attributes:
        what: "3 more workers".
        code: to paste.
        why: the reason.
        samples_per_second: the predicted rate.
        gain: the predicted rate over the present rate.
        at_most: the prediction assumes that the change costs nothing, so it is an upper bound.
        arguments: of the loader, if the change is just these.
    """

    what: str  # "3 more workers"
    code: str  # to paste
    samples_per_second: float
    gain: float  # over now
    why: str = ""
    at_most: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)  # of the loader, if the change is just these

    def __str__(self) -> str:
        most, why = "at most " if self.at_most else "", f"\n    {self.why}" if self.why else ""
        return (
            f"{self.what}: {most}{self.samples_per_second:,.0f} samples/s ({self.gain:.2g}x)\n   "
            f" {self.code}{why}"
        )


@dataclass(frozen=True)
class Facts:
    """The facts about a loader and its machine that advice needs besides the profile."""

    python: tuple[str, ...] = ()  # stages that run in Python, and why: lines of explain()
    iterable: bool = False
    gil: bool = True
    gpu: bool = False  # there is one, and the dataset is of JPEGs that it could decode
    files: bool = False  # one file per sample: `millrace pack` makes shards and segments
    remote: bool = False  # read from URLs, without cache_dir
    sampler: str = ""  # its class, when it is none of torch's or ours
    persistent: bool = False
    whole_pictures: str = ""  # the call that makes pixels of whole pictures: "filter() in train.py:31"


class Suggestions:
    def __init__(
        self, costs: Costs, rate: float, per_batch: float, profile: Mapping[str, Any], facts: Facts
    ) -> None:
        self.costs, self.rate, self.per_batch = costs, rate, per_batch
        self.profile, self.facts = profile, facts
        self.settings = profile["settings"]
        self.blame = {name: seconds for name, seconds in profile["blame"].items() if name != "start"}
        self.found: list[Suggestion] = []

    def share(self, *stages: str) -> float:
        """Of the consumer's lost time."""
        total = sum(self.blame.values())
        return sum(self.blame.get(stage, 0.0) for stage in stages) / total if total > 0 else 0.0

    def of_work(self, *stages: str) -> float:
        """Of the time that making batches takes."""
        times = {stage: times["wall"] for stage, times in self.profile["stages"].items()}
        return sum(times[stage] for stage in stages) / sum(times.values()) if any(times.values()) else 0.0

    def without(self, share: float) -> Costs:
        """With this share of the work gone."""
        costs = self.costs
        return replace(
            costs, work=costs.work * (1 - share), cpu=costs.cpu * (1 - share), make=costs.make * (1 - share)
        )

    def add(
        self, what: str, code: str, rate: float, why: str = "", at_most: bool = False, **arguments: Any
    ) -> None:
        gain = rate / self.rate
        if gain >= LEAST_GAIN:
            self.found.append(Suggestion(what, code, rate * self.per_batch, gain, why, at_most, arguments))


def _workers(to: Suggestions) -> None:
    """More workers, or the first ones: as many as the loop or the CPUs can use."""
    now, facts = to.costs, to.facts
    if now.workers == 0:
        stages = to.profile["stages"].values()
        computes = sum(times["cpu"] for times in stages) / max(1e-9, sum(times["wall"] for times in stages))
        answer = max(now.handover, _ANSWER_S)
        now = replace(now, work=now.make, cpu=computes * now.make, make=0.0, handover=answer)
    if now.work <= 0:
        return
    ceiling = min(1 / max(now.consumer, 1e-9), now.of_cpus)
    most = _MOST_WORKERS if now.waits else max(1, math.ceil(now.cores))
    if (
        facts.gil
        and to.profile["engine"] == "threads"
        and not to.profile["native"]
        and now.cpu > 0
        and _holds_the_gil(to)
    ):
        ceiling = min(ceiling, 1 / now.cpu)
    wanted = min(most, math.ceil(_SPARE * ceiling * now.work / now.efficiency - 0.02))
    if wanted <= to.costs.workers:
        return
    count = wanted - to.costs.workers
    what = f"{count} {'more ' * (to.costs.workers > 0)}worker{'s' * (count > 1)}"
    why = (
        "each worker of an iterable dataset must read a part of its own: see get_worker_info()"
        if facts.iterable
        else ""
    )
    rate = min(ceiling, replace(now, workers=wanted).rate)
    if not now.waits and now.contention > _SMALL_CONTENTION:
        rate *= to.costs.crowding(wanted)
    to.add(what, f"num_workers={wanted}", rate, why, num_workers=wanted)


def _holds_the_gil(to: Suggestions) -> bool:
    """Whether Python threads take turns: all of them together compute no more than one CPU does."""
    workers = to.profile["workers"]
    cpu = sum(seconds for worker in workers for seconds in worker["cpu_seconds"].values())
    return len(workers) > 1 and 0.6 < cpu / to.profile["wall_seconds"] < 1.15 and to.of_work("fetch") < 0.5


def _processes(to: Suggestions) -> None:
    """Threads that wait for the GIL."""
    now = to.costs
    if (
        to.profile["engine"] != "threads"
        or to.profile["native"]
        or not to.facts.gil
        or not _holds_the_gil(to)
        or now.cores < 2
    ):
        return
    changed = replace(
        now,
        work=now.cpu + now.work * to.of_work("fetch"),
        efficiency=1.0,
        handover=max(now.handover, _ANSWER_S),
    )
    why = "the threads' Python code takes turns for the interpreter's lock"
    to.add("worker processes", 'worker_method="process"', changed.rate, why, worker_method="process")


def _prefetch(to: Suggestions) -> None:
    """Batches that are not alike: workers that are idle while the loop waits."""
    workers, depth = to.profile["workers"], to.settings.get("prefetch_factor")
    if not workers or not depth or to.profile["native"]:
        return
    idle = sum(worker["seconds"].get("idle", 0.0) for worker in workers) / sum(
        worker["wall_seconds"] for worker in workers
    )
    even = replace(to.costs, efficiency=1.0)
    if (
        idle < 0.2
        or to.profile["consumer"]["wait"] < 0.05 * to.profile["wall_seconds"]
        or even.rate < 1.1 * to.rate
    ):
        return
    deeper = max(8, 4 * depth)
    why = f"batches are uneven: workers are idle {idle:.0%} of the time while the loop waits for one of them"
    to.add("a deeper queue", f"prefetch_factor={deeper}", even.rate, why, prefetch_factor=deeper)


def _sampler(to: Suggestions) -> None:
    if to.share("draw") < 0.1:
        return
    name = f"{to.facts.sampler} is" if to.facts.sampler else "the sampler is"
    code = (
        "sampler=torch.utils.data.RandomSampler(dataset)  # or one of millrace.samplers, which draw natively"
    )
    why = f"{name} asked in the loop's own thread, and takes {to.costs.draw * 1e3:.3g} ms per batch"
    to.add("a faster sampler", code, replace(to.costs, draw=0.0).rate, why, sampler=None)


def _spared(to: Suggestions) -> None:
    """Work that need not be done by the loop and its workers, foretold as if it then cost nothing."""
    facts, share, of_work, without = to.facts, to.share, to.of_work, to.without
    pixels = share("decode", "transform") > 0.2
    for holds, what, code, costs, why in (
        (
            share("copy") >= 0.1 and not to.settings.get("device"),
            "copies beside the loop",
            'device="cuda", pin_memory=False',
            replace(to.costs, copy=0.0),
            "batches are copied while the loop computes",
        ),
        (
            facts.python and not to.profile["native"],
            "the native pipeline",
            "print(loader.explain())  # what to change",
            without(1 - of_work("fetch")),
            "; ".join(facts.python[:3]),
        ),
        (
            facts.gpu and to.settings.get("decode") == "cpu" and pixels,
            "GPU decode",
            'device="cuda", decode="auto"',
            without(of_work("decode", "transform")),
            "nvJPEG takes the share that keeps both sides busy",
        ),
        (
            facts.files and share("fetch", "decode") > 0.2,
            "`millrace pack`",
            "millrace pack FOLDER SHARDS",
            without(of_work("fetch") + 0.2 * of_work("decode")),
            "shards are read in long stretches, and decoded in segments that a crop needs",
        ),
        (
            facts.remote and share("fetch") > 0.2,
            "a disk cache",
            'cache_dir="/path/on/a/local/disk"',
            without(of_work("fetch")),
            "from the second epoch on",
        ),
        (
            facts.whole_pictures and pixels,
            "pixels looked at later",
            f"# {facts.whole_pictures}",
            without(of_work("decode")),
            "it makes the pixels of whole pictures; behind the last crop and resize, fewer are left",
        ),
    ):
        if holds:
            to.add(what, code, costs.rate, why, True)


def _hot(to: Suggestions) -> None:
    """The line of the user's that takes the most."""
    hot = to.profile["hot"]
    if not hot or to.profile["native"]:
        return
    collates = hot[0]["stage"] == "collate"
    stages = _MADE if collates else [stage for stage in _MADE if stage != "collate"]
    share = hot[0]["share"] * to.of_work(*stages)
    if share > 0.25:
        why = f"{hot[0]['stage']}: {hot[0]['share']:.0%} of the Python code's time"
        to.add("a faster line of yours", f"# {hot[0]['where']}", to.without(share).rate, why, True)


def _bigger_batches(to: Suggestions) -> None:
    """Tiny samples, in batches that cost more than the samples do."""
    size, now = to.settings.get("batch_size"), to.costs
    fixed = now.handover + now.draw
    if not size or to.share("handover", "draw") < 0.5 or fixed > 0.005:
        return
    changed = replace(now, handover=now.handover / 4, draw=now.draw / 4)
    why = (
        "a batch costs more than its samples; this changes the training, unless the model takes them in parts"
    )
    to.add("bigger batches", f"batch_size={4 * size}", changed.rate, why, True, batch_size=4 * size)


def persistent(to: Suggestions) -> None:
    """An epoch that is largely its own start; foretold for the epoch, not for the batch."""
    profile = to.profile
    start = profile["blame"].get("start", 0.0)
    if (
        to.facts.persistent
        or not profile["workers"]
        or profile["native"]
        or start < 0.1 * profile["wall_seconds"]
    ):
        return
    gain = profile["wall_seconds"] / (profile["wall_seconds"] - start)
    if gain >= LEAST_GAIN:
        why = (
            f"starting the workers takes {start / profile['wall_seconds']:.0%} of each epoch; gain and rate"
            " are those of whole epochs"
        )
        rate = profile["samples"] / (profile["wall_seconds"] - start)
        code, arguments = "persistent_workers=True", {"persistent_workers": True}
        to.found.append(Suggestion("workers that stay", code, rate, gain, why, False, arguments))


# Those that count while the loop waits.
RULES = (_workers, _processes, _prefetch, _sampler, _spared, _hot, _bigger_batches)
