"""One way to load: the loader (torch's or millrace's), where Python runs, how many workers, how far ahead;
the arguments for it; and the user's choices about a bench run, checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millrace._common.interpreter import has_gil
from millrace.dataloader import DataLoader
from torch.utils.data import DataLoader as TorchLoader

from ..texts import refuse
from .targets import Source

BUDGET_S = 120.0


@dataclass(frozen=True)
class Options:
    """The user's options. Times in seconds. None: chosen by measurement. ValueError for impossible values."""

    workers: Sequence[int] | None = None
    prefetch: Sequence[int] | None = None
    pin: Sequence[bool] | None = None
    methods: Sequence[str] | None = None
    step_seconds: float = 0.0
    step_on: str = "gpu"
    steps: int | None = None
    seconds: float | None = None
    repeats: int = 5
    budget: float = BUDGET_S
    with_torch: bool = True

    def __post_init__(self) -> None:
        seconds, step = self.seconds or 0.0, self.step_seconds
        refuse(
            {
                f"workers {self.workers}: whole numbers from 0 on, at least one of them": (
                    self.workers is not None and min(self.workers, default=-1) < 0
                ),
                f"prefetch {self.prefetch}: whole numbers from 1 on, at least one of them": (
                    self.prefetch is not None and min(self.prefetch, default=0) < 1
                ),
                f"method {self.methods}: some of {', '.join(METHODS)}": (
                    self.methods is not None and not set() < set(self.methods) <= set(METHODS)
                ),
                f'step_on {self.step_on!r}: "gpu" (the loop sleeps) or "cpu" (it is busy)': (
                    self.step_on not in ("gpu", "cpu")
                ),
                f"a step of {step * 1000:g} ms: from 0 (nothing but loading is measured) up to an hour": (
                    not 0 <= step < 3600
                ),
                "steps and seconds both say how long each point is measured: give one of them": (
                    self.steps is not None and self.seconds is not None
                ),
                f"{self.steps} steps measure nothing: at least 1": self.steps is not None and self.steps < 1,
                f"{seconds:g} seconds per point: more than 0, less than a day": (
                    self.seconds is not None and not 0 < seconds < 86400
                ),
                f"{self.repeats} repeats measure nothing: at least 1": self.repeats < 1,
                f"a budget of {self.budget:g} s: more than 0": not 0 < self.budget < 1e6,
            }
        )


KINDS = {"native": "native", "process": "processes", "thread": "threads"}  # methods, as people read them
METHODS = tuple(KINDS)
MOST_WORKERS_PER_CPU = 4  # that are tried where more workers go on helping


@dataclass(frozen=True)
class Configuration:
    """`side`: "millrace" or "torch". `method`: one of METHODS; of torch "process". Without workers, both of
    the latter mean: in next().
    """

    side: str
    method: str
    workers: int
    prefetch: int | None = None
    pin: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefetch", (self.prefetch or 2) if self.workers else None)

    def __str__(self) -> str:
        where = "torch" if self.side == "torch" else KINDS[self.method]
        if self.side != "torch" and not self.workers and self.method != "native":
            where = "in next()"
        parts = [where, f"{self.workers} worker{'s' * (self.workers != 1)}"]
        parts += [f"prefetch {self.prefetch}"] if self.workers else []
        return ", ".join(parts + ["pinned"] * self.pin)

    @property
    def queue(self) -> int:
        """Batches that are on their way when the loop is slow."""
        return max(1, self.workers * (self.prefetch or 1))

    def effort(self) -> tuple[int, int, bool, int]:
        """The load on a machine, as a sort key: the least is preferred among equals."""
        return self.workers, self.prefetch or 0, self.pin, METHODS.index(self.method)


def arguments(configuration: Configuration, source: Source, facts: dict[str, Any]) -> dict[str, Any]:
    """Arguments for the loader's class besides the dataset, in the order in which people write them."""
    given = dict(source.torchs() if configuration.side == "torch" else source.given)
    persistent = given.pop("persistent_workers", not source.is_iterable and not source.is_loader)
    found: dict[str, Any] = {
        name: given.pop(name)
        for name in ("batch_size", "shuffle", "sampler", "batch_sampler")
        if name in given
    }
    found["num_workers"] = configuration.workers
    if configuration.workers:
        found["prefetch_factor"] = configuration.prefetch
        if persistent:
            found["persistent_workers"] = True
    else:
        given.pop("timeout", None)  # which only workers may have
        given.pop("multiprocessing_context", None)
    given.pop("pin_memory", None)
    if configuration.pin:
        found["pin_memory"] = True
    if configuration.side == "millrace":
        found.update(_method(configuration, given, facts))
    return {**found, **given}


def _method(configuration: Configuration, given: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    if configuration.method == "native":
        return {}
    found = {"native": "never"} if facts["native"] else {}
    given.pop("worker_method", None)
    usual = "process" if has_gil() else "thread"
    if configuration.workers and configuration.method != usual:
        found["worker_method"] = configuration.method
    return found


def make_loader(configuration: Configuration, source: Source, facts: dict[str, Any]) -> Any:
    made_of = TorchLoader if configuration.side == "torch" else DataLoader
    return made_of(source.dataset, **arguments(configuration, source, facts))


def grid(cpus: int, own: int | None = None) -> list[int]:
    """Numbers of workers to begin with: 0, powers of two up to the CPUs, the CPUs, and the number the loader
    has.
    """
    powers = {1 << power for power in range(cpus.bit_length()) if 1 << power < cpus}
    return sorted({0, cpus, *powers} | ({own} if own is not None else set()))


def written(
    source: Source, configuration: Configuration, facts: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """(arguments that are plain values, all of them as a line of Python, where objects are called by their
    names).
    """
    found = arguments(configuration, source, facts)
    values = plain(found)
    parts = [
        f"{name}={value!r}" if name in values else f"{name}={_name_of(name, value)}"
        for name, value in found.items()
    ]
    return values, f"DataLoader({', '.join(['dataset', *parts])})"


def plain(found: dict[str, Any]) -> dict[str, Any]:
    """Those arguments that JSON has words for."""
    return {
        name: value for name, value in found.items() if isinstance(value, (bool, int, float, str, type(None)))
    }


def _name_of(name: str, value: Any) -> str:
    qualified = getattr(value, "__qualname__", "")
    return qualified if qualified and all(map(str.isidentifier, qualified.split("."))) else name
